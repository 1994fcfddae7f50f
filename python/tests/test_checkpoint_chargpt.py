"""The example with --engine resumes as exactly as it does with torch.save."""

from __future__ import annotations

from pathlib import Path

import pytest

from ring_reader import run

torch = pytest.importorskip("torch")

from test_checkpoint_engine import BINARY, pytestmark  # noqa: E402, F401
from test_chargpt import SMALL, TEXT, TRAIN  # noqa: E402

import shanty  # noqa: E402
from torch import nn  # noqa: E402


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text"
    text.write_text(TEXT)

    def train(folder: str, steps: int) -> str:
        where = ["--checkpoint", str(tmp_path / folder), "--checkpoint-every", "4", "--engine"]
        command = [str(TRAIN), *SMALL, "--text", str(text), "--steps", str(steps), *where]
        ended = run(None, *command, SHANTY_BINARY=str(BINARY))
        assert ended.code == 0, ended.err
        return ended.out

    train("straight", 7)
    assert "from scratch" in train("resumed", 4)
    assert "from step 4" in train("resumed", 7)
    monkeypatch.setenv("SHANTY_BINARY", str(BINARY))
    monkeypatch.syspath_prepend(str(TRAIN.parent))
    from train import CharGPT, Windows

    states = []
    for folder in ("straight", "resumed"):
        alphabet = len(Windows(TEXT, 16).alphabet)
        model: nn.Module = CharGPT(alphabet, 16, 1, 2, 16)
        with shanty.Checkpointer(tmp_path / folder).attach(model=model, rng=False) as checkpointer:
            found = checkpointer.load()
        assert found is not None and found.step == 7
        states.append(model.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
