"""Import and export: what comes back is what went in, and nothing is run that a file brings."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from shanty.checkpoint import convert
from shanty.checkpoint.errors import CheckpointError

STATE = {
    "a.weight": torch.randn(10, 3),
    "a.bias": torch.zeros(3, dtype=torch.bfloat16),
    "scale": torch.tensor(5),
    "none": torch.empty(0, 4),
}


class Evil:
    def __reduce__(self) -> object:
        return os.mkdir, ("evil-was-here",)


def check(found: dict[str, torch.Tensor]) -> None:
    assert found.keys() == STATE.keys()
    for name, tensor in STATE.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)


@pytest.mark.parametrize("content", [STATE, {"model": STATE, "epoch": 3}, {"state_dict": STATE}])
def test_a_file_of_torch_is_read(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "x.pt")
    check(convert.read_any(tmp_path / "x.pt", False))


@pytest.mark.parametrize("content", [STATE, {"model": STATE}])
@pytest.mark.filterwarnings("ignore")
def test_a_dcp_directory_is_read(tmp_path: Path, content: dict[str, object]) -> None:
    dcp.save(content, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    check(convert.read_any(tmp_path / "dcp", False))


@pytest.mark.filterwarnings("ignore")
def test_nothing_that_a_file_brings_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": STATE, "x": Evil()}, "evil.pt")
    with pytest.raises(CheckpointError, match="allow-pickle"):
        convert.read_any(Path("evil.pt"), False)
    Path("evil").mkdir()
    Path("evil/.metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match="mkdir"):
        convert.read_any(Path("evil"), False)
    assert not Path("evil-was-here").exists()


@pytest.mark.parametrize("size", [0, 7, 30])
def test_a_cut_safetensors_file_is_an_error(tmp_path: Path, size: int) -> None:
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    whole = len(header).to_bytes(8, "little") + header + bytes(8)
    path = tmp_path / "x.safetensors"
    path.write_bytes(whole)
    assert convert.read_safetensors(path)["w"].tolist() == [0, 0]
    path.write_bytes(whole[:size] or b"\0")
    with pytest.raises(CheckpointError, match="cannot read"):
        convert.read_safetensors(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match="lies outside"):
        convert.read_safetensors(path)
