"""The example: resumes exactly, runs with and without a launcher, names its steps to the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ring_reader import TestRing, finish, run, start

torch = pytest.importorskip("torch")

TRAIN = Path(__file__).resolve().parents[2] / "examples" / "chargpt" / "train.py"
SMALL = ["--batch", "2", "--width", "16", "--heads", "2", "--layers", "1", "--context", "16"]
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom.\n" * 20


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text"
    path.write_text(TEXT)
    return str(path)


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, text: str) -> None:
    def train(folder: str, steps: int) -> list[str]:
        where = ["--checkpoint", str(tmp_path / folder), "--checkpoint-every", "4"]
        return [str(TRAIN), *SMALL, "--text", text, "--steps", str(steps), *where]

    ring = TestRing()
    straight = start(ring, *train("straight", 7))
    assert run(None, *train("resumed", 4)).code == 0
    resumed = run(None, *train("resumed", 7))
    assert "from step 4" in resumed.out
    ended = finish(straight)
    assert ended.code == 0 and "from scratch" in ended.out
    one, other = (torch.load(tmp_path / f / "last.pt") for f in ("straight", "resumed"))
    assert one["step"] == other["step"] == 7
    for name, parameter in one["model"].items():
        assert torch.equal(parameter, other["model"][name]), name
    assert str(one["optimizer"]) == str(other["optimizer"])

    records = ring.records()
    assert [r.step for r in records] == list(range(7)) and all(r.named for r in records)
    assert (ring.total, ring.first_step, ring.checkpoints["written"]) == (7, 1, 2)
    assert all(r.samples == 2 and r.loss > 0 for r in records)


def test_two_ranks_train_the_same_model(tmp_path: Path, text: str, unused_port: int) -> None:
    command = [str(TRAIN), *SMALL, "--text", text, "--steps", "6", "--log-every", "3"]
    rings = [TestRing(rank=rank) for rank in range(2)]
    started = [
        start(
            ring,
            *command,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            LOCAL_WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(unused_port),
        )
        for rank, ring in enumerate(rings)
    ]
    first, second = [finish(process) for process in started]
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert [line.split()[:2] for line in first.out.splitlines()[1:]] == [
        ["step", "3/6"],
        ["step", "6/6"],
    ]
    assert second.out == ""
    records = [ring.records() for ring in rings]
    for of_rank in records:
        assert len(of_rank) == 6 and all(r.forward_us > 0 for r in of_rank)
    # Each rank sees windows of its own.
    assert records[0][0].loss != records[1][0].loss
