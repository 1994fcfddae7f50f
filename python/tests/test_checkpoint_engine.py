"""End to end with the real engine: killed and resumed, reshaped, read by other tools."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest

from ring_reader import environment

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import shanty  # noqa: E402
from torch import nn  # noqa: E402

BINARY = Path(__file__).resolve().parents[2] / "build" / "shanty"
RANKS_LIMIT_S = 900
SCRIPT = Path(__file__).resolve().parent / "scripts" / "checkpoint_ranks.py"


def engine_runs() -> bool:
    try:
        help_ = subprocess.run([BINARY, "ckpt-engine", "--help"], capture_output=True, timeout=60)
    except OSError:
        return False
    return help_.returncode == 0


pytestmark = pytest.mark.skipif(
    not engine_runs(), reason=f"{BINARY} has no ckpt-engine yet: build it first"
)


def ranks(mode: str, world: int, directory: Path) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), mode, str(world), str(directory)]
    said = directory / f"{mode}.err"
    # A file: engines hold on to stderr until they have finished what the killed ranks saved.
    with said.open("w") as errors:
        ended = subprocess.run(
            command,
            env=environment(None, SHANTY_BINARY=str(BINARY)),
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=RANKS_LIMIT_S,
        )
    assert ended.returncode == 0, said.read_text()
    outcome: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    outcome["err"] = said.read_text()
    return outcome


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """Where a sync costs nothing: many small checkpoints, and no power cut to fear."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


@pytest.mark.parametrize("world, cases", [(1, 3), (2, 5), (4, 5)])
def test_killed_runs_resume_bit_for_bit(quick_path: Path, world: int, cases: int) -> None:
    killed = ranks("train", world, quick_path)
    assert killed["codes"] == [-9] * world, killed["err"]
    resumed = ranks("resume", world, quick_path)
    assert resumed["codes"] == [0] * world and len(resumed["found"]) == cases, resumed["err"]
    for name, found in resumed["found"].items():
        assert len(set(found)) == 1 and len(found) == world, name
        assert found[0].startswith("same from step ") and found[0].endswith(" []"), name


def test_any_world_loads_what_any_other_saved(quick_path: Path) -> None:
    reshaped = ranks("reshape", 8, quick_path)
    assert reshaped["codes"] == [0] * 8, reshaped["err"]
    found = reshaped["found"]
    wrong = {k: of_ranks for k, of_ranks in found.items() if set(of_ranks) != {"same"}}
    assert not wrong
    pairs = {(key.split()[1], key.split()[-1]) for key in found}
    assert pairs == set(itertools.product("123468", repeat=2))
    assert {"tp 4 into fsdp2 3", "fsdp2 3 into hsdp 4", "fsdp1 2 into fsdp2 1"} <= found.keys()
    zeros = {f"zero 2 into zero {size}" for size in (1, 2, 3)}
    assert zeros | {"fsdp2 4 into zero 3", "zero 3 into fsdp2 8"} <= found.keys()


def test_ranks_that_have_other_tensors_are_not_mixed(quick_path: Path) -> None:
    saved = ranks("differ", 2, quick_path)
    assert saved["codes"] == [0, 0], saved["err"]
    refused = saved["found"]["auto"]
    assert refused[0] == refused[1] and "ranks 0 and 1 have different values of bias" in refused[0]
    assert "(2 of 2 tensors differ)" in refused[0] and "replicas=" in refused[0]
    assert saved["found"]["first"] == saved["found"]["stages"] == ["same", "same"]
    assert not list((quick_path / "auto").glob("step*"))


def test_an_epoch_goes_on_with_any_number_of_ranks(quick_path: Path) -> None:
    trained = ranks("epoch", 8, quick_path)
    assert trained["codes"] == [0] * 8, trained["err"]
    for kind in ("ddp", "fsdp2"):
        seen = sorted(number for of_rank in trained["found"][kind] for number in of_rank)
        assert len(seen) > 200 and seen == list(range(len(seen))), kind


@pytest.fixture
def binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHANTY_BINARY", str(BINARY))
    monkeypatch.delenv("SHANTY_CKPT_SOCKET", raising=False)


@pytest.mark.usefixtures("binary")
def test_every_kind_of_tensor_comes_back_from_disk(tmp_path: Path) -> None:
    from test_checkpoint_roundtrip import Zoo, assert_same

    model, other = Zoo(3.0), Zoo(0.0)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
    with shanty.Checkpointer(tmp_path).attach(model=other) as checkpointer:
        found = checkpointer.load()
        assert found is not None and found.source == "disk"
    for name, tensor in model.state_dict().items():
        assert_same(other.state_dict()[name], tensor, name)


@pytest.mark.usefixtures("binary")
def test_tensors_of_inference_mode_come_back_from_disk(tmp_path: Path) -> None:
    with torch.inference_mode():
        model = nn.Linear(300, 300)
        before = model.weight.clone()
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
        with torch.inference_mode():
            model.weight.zero_()
        assert checkpointer.load() is not None
    assert torch.equal(model.weight, before)


@pytest.mark.usefixtures("binary")
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    model = nn.Linear(300, 300)
    weights = []
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        for step in (1, 2):
            nn.init.uniform_(model.weight)
            weights.append(model.weight.detach().clone())
            checkpointer.save(step).wait(60)
    shard = next((tmp_path / "step-000000002.g0000.a01" / "model").iterdir())
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        found = checkpointer.load()
        assert (
            found is not None
            and found.step == 1
            and any("step-000000002" in f for f in found.findings)
        )
        assert torch.equal(model.weight, weights[0])
        # Going on from there does not stumble over the damaged one.
        checkpointer.save(3).wait(60)


@pytest.mark.usefixtures("binary")
def test_storage_that_cannot_be_written_does_not_stop_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    model = nn.Linear(3, 3)
    with shanty.Checkpointer(tmp_path / "file" / "checkpoints").attach(model=model) as checkpointer:
        handle = checkpointer.save(1)
        with pytest.raises(shanty.CheckpointError, match="step 1 failed"):
            handle.wait(60)
    assert "the checkpoint of step 1 failed" in capsys.readouterr().err


@pytest.mark.usefixtures("binary")
def test_other_tools_read_the_shards(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20)).to(torch.bfloat16)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
    folder = tmp_path / "latest" / "model"
    loaded = safetensors.load_file(next(folder.glob("*.safetensors")))
    assert loaded.keys() == model.state_dict().keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())


def test_torch_distributed_checkpoint_loads_what_several_ranks_saved(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    if not hasattr(dcp, "HuggingFaceStorageReader"):
        pytest.skip("this torch has no HuggingFaceStorageReader")
    saved = ranks("reshape_save", 2, tmp_path)
    assert saved["codes"] == [0, 0], saved["err"]
    for kind in ("ddp", "fsdp2"):
        checkpoint = tmp_path / f"{kind} 2" / "latest"
        names = {"middle.weight": (160, 160), "first.weight": (160, 8), "out.bias": (8,)}
        state = {name: torch.zeros(shape) for name, shape in names.items()}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(checkpoint / "model")))
        for name, tensor in state.items():
            count = torch.arange(tensor.numel(), dtype=torch.float32)
            expected = (count + sum(name.encode()) % 97).reshape(tensor.shape)
            assert torch.equal(tensor, expected), f"{kind} {name}"
        assert (checkpoint / "MANIFEST.json").exists() and os.path.islink(checkpoint)


@pytest.mark.usefixtures("binary")
def test_parameters_may_change_once_the_save_was_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(300, 300)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        for step in (1, 2, 3):
            nn.init.constant_(model.weight, step)
            checkpointer.save(step).wait(60)
    assert capfd.readouterr().err == ""
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        for step in (1, 2, 3):
            found = checkpointer.load(step)
            assert found is not None and found.step == step
            assert bool((model.weight == step).all())


@pytest.mark.usefixtures("binary")
def test_a_run_goes_on_from_an_older_step(tmp_path: Path) -> None:
    model = nn.Linear(300, 300)
    with shanty.Checkpointer(tmp_path, keep=2).attach(model=model) as checkpointer:
        for step in (100, 200, 300):
            nn.init.constant_(model.weight, step)
            checkpointer.save(step).wait(60)
        assert checkpointer.load(200) is not None and bool((model.weight == 200).all())
        nn.init.constant_(model.weight, 250)
        checkpointer.save(250).wait(60)
        # From the engine's memory, where 300 may be too.
        found = checkpointer.load()
        assert found is not None and found.step == 250
        nn.init.constant_(model.weight, 260)
        checkpointer.save(260).wait(60)
    assert os.readlink(tmp_path / "latest").startswith("step-000000260")
    assert sorted(p.name[:14] for p in tmp_path.glob("step-*")) == ["step-000000250", "step-000000260"]
    with shanty.Checkpointer(tmp_path, keep=2).attach(model=model) as checkpointer:
        found = checkpointer.load()
        assert found is not None and found.step == 260 and bool((model.weight == 260).all())


@pytest.mark.usefixtures("binary")
def test_a_save_that_the_script_spoiled_is_no_checkpoint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(300, 300)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
        handle = checkpointer.save(2)
        nn.init.constant_(model.weight, 7)
        checkpointer.fence()
        with pytest.raises(shanty.checkpoint.errors.CheckpointError, match="given up"):
            handle.wait(60)
    assert "given up" in capfd.readouterr().err
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        found = checkpointer.load()
        assert found is not None and found.step == 1


@pytest.mark.usefixtures("binary")
def test_autograd_knows_what_a_load_has_changed(tmp_path: Path) -> None:
    model = nn.Linear(30, 30)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
        before = model.weight._version
        assert checkpointer.load() is not None
    assert model.weight._version > before


def kill_engine_of(checkpointer: Any) -> None:
    os.kill(checkpointer._engine._process.pid, signal.SIGKILL)
    assert checkpointer._engine.connection.is_lost(60_000)


@pytest.mark.usefixtures("binary")
def test_another_engine_takes_a_killed_ones_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(1000, 1000)
    with shanty.Checkpointer(tmp_path).attach(model=model) as checkpointer:
        checkpointer.save(1).wait(60)
        kill_engine_of(checkpointer)
        checkpointer._rate = 1 << 14  # the next engine would write for minutes
        spoiled = checkpointer.save(2)
        checkpointer.fence()
        kill_engine_of(checkpointer)
        checkpointer._rate = 0
        with pytest.raises(shanty.CheckpointError, match="engine"):
            spoiled.wait(60)
        nn.init.constant_(model.weight, 3)
        checkpointer.save(3).wait(60)
        kill_engine_of(checkpointer)
        nn.init.constant_(model.weight, 4)
        found = checkpointer.load()
        assert found is not None and (found.step, found.source) == (3, "disk")
        assert bool((model.weight == 3).all())
    assert capfd.readouterr().err.count("the checkpoint of step") == 1
    listed = [path.name[:14] for path in sorted(tmp_path.glob("step-*"))]
    assert listed == ["step-000000001", "step-000000003"]


@pytest.mark.usefixtures("binary")
def test_a_step_may_be_saved_again_at_once(tmp_path: Path) -> None:
    model = nn.Linear(1024, 2048)
    with shanty.Checkpointer(tmp_path).attach(model) as checkpointer:
        handles = [checkpointer.save(10), checkpointer.save(10, metrics={"loss": 1})]
        for handle in handles:
            handle.wait(60)
        found = checkpointer.load()
        assert found is not None and found.metrics == {"loss": 1}


class Amax(nn.Module):
    """As modules that compute in fp8 do it."""

    def __init__(self) -> None:
        super().__init__()
        self.history = [1.0]

    def get_extra_state(self) -> dict[str, Any]:
        return {"history": self.history}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.history = state["history"]


@pytest.mark.usefixtures("binary")
def test_state_that_is_no_tensor_comes_back_through_the_engine(tmp_path: Path) -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    model = nn.Sequential(nn.Linear(3, 3), Amax())
    extra = {"large": [1 << 70, -(1 << 65)], "odd": "\ud800"}
    before = {**extra}
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    checkpointer = shanty.Checkpointer(tmp_path)
    with checkpointer.attach(model, rng=[generator], extra=extra, scaler=scaler):
        model[1].history = [7.0]
        checkpointer.save(1).wait(60)
        drawn = generator.random(4).tolist()
        model[1].history = [0.0]
        extra.clear()
        found = checkpointer.load()
        assert found is not None and found.findings == []
        assert (extra, model[1].history) == (before, [7.0])
        assert generator.random(4).tolist() == drawn
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with shanty.Checkpointer(tmp_path).attach(model, scaler=scaler) as checkpointer:
        found = checkpointer.load()
        assert found is not None and "the scaler begins anew" in found.findings[0]
        assert scaler.get_scale() == 4


class Broken:
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise ZeroDivisionError("of an attached object")


@pytest.mark.usefixtures("binary")
def test_a_load_that_fails_holds_nothing_back(tmp_path: Path) -> None:
    with shanty.Checkpointer(tmp_path).attach(nn.Linear(3, 3), extra=Broken()) as checkpointer:
        checkpointer.save(1).wait(60)
    for wrong in ({"model": nn.Linear(4, 3)}, {"model": nn.Linear(3, 3), "extra": Broken()}):
        with shanty.Checkpointer(tmp_path).attach(**wrong) as checkpointer:
            with pytest.raises(shanty.CheckpointError, match="cannot load"):
                checkpointer.load()
            assert not list(tmp_path.glob("step-*/.lease-*"))


@pytest.mark.usefixtures("binary")
def test_the_best_stay(tmp_path: Path) -> None:
    losses = {1: 0.4, 2: 0.2, 3: float("nan"), 4: 0.3, 5: 0.9}
    best = shanty.Checkpointer(tmp_path, keep=1, keep_best=2, best="loss")
    with best.attach(model=nn.Linear(3, 3)) as checkpointer:
        for step, loss in losses.items():
            checkpointer.save(step, metrics={"loss": torch.tensor(loss), "n": step}).wait(60)
    with shanty.Checkpointer(tmp_path).attach(model=nn.Linear(3, 3)) as checkpointer:
        found = checkpointer.load()
        assert found is not None and found.metrics == {"loss": pytest.approx(0.9), "n": 5}
    listed = json.loads(
        subprocess.run([BINARY, "ckpt", "ls", tmp_path, "--json"], capture_output=True).stdout
    )["checkpoints"]
    assert [(c["step"], c["state"]) for c in listed] == [
        (5, "committed"),
        (4, "best"),
        (2, "best"),
    ]
    assert listed[1]["metrics"] == {"loss": pytest.approx(0.3), "n": 4}
    command = [BINARY, "ckpt", "prune", tmp_path, "--keep", "1", "--keep-best", "1"]
    subprocess.run([*command, "--best", "n", "--mode", "min"], check=True)
    assert sorted(path.name[:14] for path in tmp_path.glob("step-*")) == [
        "step-000000002",
        "step-000000005",
    ]


def test_wrong_rules_of_the_best_are_named(tmp_path: Path) -> None:
    with pytest.raises(shanty.CheckpointError, match='give "min" or "max"'):
        shanty.Checkpointer(tmp_path, keep_best=1, mode="lowest")
    with pytest.raises(shanty.CheckpointError, match="at most 48 letters"):
        shanty.Checkpointer(tmp_path, keep_best=1, best="a loss")


@pytest.mark.usefixtures("binary")
def test_what_did_not_change_is_linked_and_each_checkpoint_stands_alone(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    frozen, trained = nn.Linear(1500, 600).requires_grad_(False), nn.Linear(300, 300)
    model = nn.Sequential(frozen, trained)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    with shanty.Checkpointer(tmp_path, keep=1).attach(model, optimizer) as checkpointer:
        for step in range(1, 4):
            optimizer.zero_grad()
            trained(torch.randn(2, 300)).sum().backward()
            optimizer.step()
            checkpointer.save(step).wait(60)
    (newest,) = tmp_path.glob("step-*")
    files = [path.stat() for path in newest.rglob("*") if path.is_file()]
    # Its predecessors are gone, so no count of links tells that it shared: times do.
    shard = next(newest.glob("model/*still*"))
    assert shard.stat().st_mtime_ns < min(p.stat().st_mtime_ns for p in newest.glob("model/*-model-*"))
    written = sum(f.st_size for f in files) - shard.stat().st_size
    assert written <= 0.12 * sum(f.st_size for f in files)
    loaded = {}
    for path in (newest / "model").iterdir():
        loaded.update(safetensors.load_file(path))
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    subprocess.run([BINARY, "ckpt", "verify", newest], check=True)
