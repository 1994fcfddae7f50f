"""Import and export: what comes back is what went in, and nothing is run that a file brings."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

import shanty
from shanty.checkpoint import convert
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.foreign import Optimizer

BINARY = Path(__file__).resolve().parents[2] / "build" / "shanty"

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
    check(convert.read_any(tmp_path / "x.pt", False).model)


@pytest.mark.parametrize("content", [STATE, {"model": STATE}])
@pytest.mark.filterwarnings("ignore")
def test_a_dcp_directory_is_read(tmp_path: Path, content: dict[str, object]) -> None:
    dcp.save(content, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    check(convert.read_any(tmp_path / "dcp", False).model)


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


def safetensors(header: object, data: bytes = bytes(64)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "header",
    [
        b"no json",
        b"\xff\xfe",
        [],
        {"w": 5},
        {"w": {"dtype": "F32", "shape": [2]}},
        {"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
        {"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 7]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": ["a", "b"]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}},
        {"w": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
        {"__metadata__": 7},
        {"__metadata__": {"DCP_SHARDING_INFO": "{"}},
    ],
)
def test_a_strange_safetensors_header_is_an_error(tmp_path: Path, header: object) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors(header))
    with pytest.raises(CheckpointError, match="cannot read"):
        convert.read_safetensors(path)


def test_tied_tensors_come_under_all_their_names(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = {"__metadata__": {"format": "pt", "head": "w"}, "w": entry}
    (tmp_path / "x.safetensors").write_bytes(safetensors(header, bytes(8)))
    assert convert.read_any(tmp_path, False).model.keys() == {"w", "head"}


def test_parts_of_a_sharded_tensor_are_not_taken_for_the_whole(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for rank in (1, 2):
        (tmp_path / f"{rank}.safetensors").write_bytes(safetensors({"w": entry}, bytes(8)))
    with pytest.raises(CheckpointError, match="w is in several files"):
        convert.read_any(tmp_path, False)
    (tmp_path / "1.safetensors").unlink()
    info = {"w": {"saved_offsets": [2], "logical_fqn": "w"}}
    header = {"__metadata__": {"DCP_SHARDING_INFO": json.dumps(info)}, "w": entry}
    (tmp_path / "2.safetensors").write_bytes(safetensors(header, bytes(8)))
    with pytest.raises(CheckpointError, match="only a part of w"):
        convert.read_any(tmp_path, False)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 9)
        self.norm = torch.nn.BatchNorm1d(9)
        self.out = torch.nn.Linear(9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.first(x)).relu())


class Run:
    def __init__(self, kind: str) -> None:
        torch.manual_seed(1)
        self.model = Net()
        if kind == "groups":
            weights = [p for p in self.model.parameters() if p.dim() > 1]
            rest = [p for p in self.model.parameters() if p.dim() == 1]
            groups = [{"params": weights}, {"params": rest, "weight_decay": 0.0}]
            self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups, lr=1e-2)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)

    def train(self, first: int, last: int) -> None:
        for step in range(first, last):
            torch.manual_seed(step)
            self.optimizer.zero_grad()
            self.model(torch.randn(4, 6)).square().mean().backward()
            self.optimizer.step()
            self.scheduler.step()

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "epoch": 2,
            "step": 5,
            "best": 0.25,
            "average": {"first.weight": torch.zeros(1 << 19)},
        }


def save_as_torch(run: Run, path: Path) -> None:
    torch.save(run.state(), path)


def save_as_ddp(run: Run, path: Path) -> None:
    state = run.state()
    state["model"] = {f"module.{name}": value for name, value in state["model"].items()}
    torch.save(state, path)


def save_as_dcp(run: Run, path: Path) -> None:
    dcp.save(run.state(), checkpoint_id=str(path), no_dist=True)


def save_as_dcp_by_name(run: Run, path: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, optimizer = get_state_dict(run.model, run.optimizer)
    dcp.save(
        {**run.state(), "model": model, "optimizer": optimizer},
        checkpoint_id=str(path),
        no_dist=True,
    )


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")
@pytest.mark.parametrize("kind", ["sgd", "groups"])
@pytest.mark.parametrize("save", [save_as_torch, save_as_ddp, save_as_dcp, save_as_dcp_by_name])
@pytest.mark.filterwarnings("ignore")
def test_training_goes_on_from_what_another_tool_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any, kind: str
) -> None:
    monkeypatch.setenv("SHANTY_BINARY", str(BINARY))
    monkeypatch.delenv("SHANTY_CKPT_SOCKET", raising=False)
    run, other = Run(kind), Run(kind)
    run.train(0, 5)
    save(run, tmp_path / "theirs")
    done = convert.import_checkpoint(tmp_path / "theirs", tmp_path / "ours", None, False)
    assert (done["step"], done["optimizer"], done["scheduler"]) == (5, True, True)
    assert done["dropped"] == ["average"]
    with shanty.Checkpointer(tmp_path / "ours") as checkpointer:
        checkpointer.attach(other.model, other.optimizer, other.scheduler)
        found = checkpointer.load()
    assert found is not None and (found.step, found.epoch) == (5, 2)
    assert found.extra == {"best": 0.25}
    run.train(5, 9)
    other.train(5, 9)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], tensor), name
    assert other.optimizer.param_groups[0]["lr"] == run.optimizer.param_groups[0]["lr"]


def test_an_optimizer_that_does_not_tell_its_parameters_is_refused() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    groups = [{"params": [model[1].weight]}, {"params": [model[0].weight]}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    with pytest.raises(CheckpointError, match="which parameter is which"):
        Optimizer(optimizer.state_dict(), model.state_dict())
    state = optimizer.state_dict()
    state["param_groups"][0]["param_names"] = ["1.weight"]
    state["param_groups"][1]["param_names"] = ["0.weight"]
    names = [entry.name for entry in Optimizer(state, model.state_dict()).entries()]
    assert names == ["optim.momentum_buffer.1.weight", "optim.momentum_buffer.0.weight"]
