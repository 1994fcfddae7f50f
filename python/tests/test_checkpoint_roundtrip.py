"""Saving and loading against a stand-in for the engine, see checkpoint_double.py."""

from __future__ import annotations

import copy
import random
import threading
import types
from pathlib import Path
from typing import Any, Iterator

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from checkpoint_double import Double, Store  # noqa: E402
from shanty.checkpoint import CheckpointError, Checkpointer, ResumableLoader  # noqa: E402
from shanty.checkpoint import save as save_module  # noqa: E402
from shanty.checkpoint import wire  # noqa: E402
from shanty.checkpoint.attached import Attached  # noqa: E402
from shanty.checkpoint.engine import _connect  # noqa: E402
from shanty.checkpoint.load import load  # noqa: E402
from shanty.checkpoint.parts import Copies  # noqa: E402
from shanty.checkpoint.save import Saver  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def double(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    double = Double(store)
    monkeypatch.setenv("SHANTY_CKPT_SOCKET", double.name)
    yield double
    double.die()


class Net(nn.Module):
    def __init__(self, width: int = 160) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        self.norm = nn.BatchNorm1d(width)
        self.middle = nn.Linear(width, width)  # large enough to be pulled
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(width, 4)

    def forward(self, x: Any) -> Any:
        return self.out(self.drop(torch.relu(self.middle(self.norm(self.first(x))))))


class Run:
    """A small training run with everything that can be attached."""

    def __init__(self, kind: str = "adamw", dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(11)
        self.model = Net().to(dtype)
        self.dtype = dtype
        parameters = self.model.parameters()
        self.optimizer: torch.optim.Optimizer
        if kind == "adamw":
            self.optimizer = torch.optim.AdamW(parameters, lr=1e-2, amsgrad=True)
        elif kind == "adafactor":
            self.optimizer = torch.optim.Adafactor(parameters, lr=1e-2)
        elif kind == "lbfgs":
            self.optimizer = torch.optim.LBFGS(parameters, lr=0.1, max_iter=2)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, 0.1, 100, cycle_momentum=kind in ("adamw", "sgd")
        )
        self.ema = torch.optim.swa_utils.AveragedModel(self.model)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        data = TensorDataset(torch.randn(40, 8).to(dtype), torch.randn(40, 4).to(dtype))
        plain = DataLoader(data, batch_size=6, shuffle=True)
        self.loader = ResumableLoader(plain, seed=2)
        self.extra: dict[str, Any] = {"best": 1.0, "seen": []}
        self.step = 0

    def attach(self, checkpointer: Checkpointer) -> Checkpointer:
        return checkpointer.attach(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            loader=self.loader,
            scaler=self.scaler,
            ema=self.ema,
            extra=self.extra,
        )

    def train(self, until: int, saving: Checkpointer | None = None, at: int = -1) -> Any:
        handle = None
        while self.step < until:
            for x, y in self.loader:

                def closure() -> Any:
                    self.optimizer.zero_grad()
                    loss = (self.model(x) - y).square().mean()
                    loss.backward()
                    return loss

                self.optimizer.step(closure)
                self.scheduler.step()
                self.ema.update_parameters(self.model)
                self.step += 1
                self.extra["seen"].append(self.step)
                if saving is not None and self.step == at:
                    handle = saving.save(self.step)
                if self.step == until:
                    break
        return handle

    def everything(self) -> dict[str, Any]:
        """Shares memory with the run, but for the random numbers."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "ema": self.ema.state_dict(),
            "loader": self.loader.state_dict(),
            "extra": self.extra,
            "random": torch.rand(4),
        }


def assert_same(one: Any, other: Any, where: str = "") -> None:
    assert type(one) is type(other), where
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        assert one == other, where


@pytest.mark.parametrize("kind", ["adamw", "sgd", "adafactor", "lbfgs"])
@pytest.mark.parametrize("pull", [True, False])
def test_a_resumed_run_is_the_uninterrupted_one(
    tmp_path: Path, double: Double, kind: str, pull: bool
) -> None:
    double.store.pull = pull
    straight = Run(kind)
    straight.train(19)
    expected = straight.everything()
    stopped = Run(kind)
    with stopped.attach(Checkpointer(tmp_path)) as checkpointer:
        # Training goes on while the save does.
        handle = stopped.train(13, checkpointer, at=9)
        handle.wait(60)
    assert handle.durable and handle.staged
    double.store.check_coverage(9)
    assert pull == any(r.get("pointers") for r in double.store.requests)

    resumed = Run(kind)
    with resumed.attach(Checkpointer(tmp_path)) as checkpointer:
        found = checkpointer.load()
        assert found is not None and (found.step, found.source) == (9, "memory")
        assert (found.epoch, found.samples, found.findings) == (1, 52, [])
        resumed.step = found.step
        resumed.train(19)
    assert_same(resumed.everything(), expected)


def test_bf16_runs_resume_too(tmp_path: Path, double: Double) -> None:
    straight = Run("sgd", torch.bfloat16)
    straight.train(6)
    expected = straight.everything()
    stopped = Run("sgd", torch.bfloat16)
    with stopped.attach(Checkpointer(tmp_path)) as checkpointer:
        stopped.train(3, checkpointer, at=3)
    resumed = Run("sgd", torch.bfloat16)
    with resumed.attach(Checkpointer(tmp_path)) as checkpointer:
        found = checkpointer.load()
        assert found is not None
        resumed.step = found.step
        resumed.train(6)
    assert_same(resumed.everything(), expected)


def test_addresses_are_told_once_and_where_tensors_moved(tmp_path: Path, double: Double) -> None:
    model = Net()
    with Checkpointer(tmp_path).attach(model=model) as checkpointer:
        for step in (1, 2, 3):
            if step == 3:
                model.middle.weight.data = torch.full_like(model.middle.weight, 7.0)
            checkpointer.save(step).wait(60)
    told = ["pointers" in r for r in double.store.requests if r["op"] == "save"]
    assert told == [True, False, True]
    saved = double.store.checkpoints[3]["tensors"]["middle.weight"]["data"]
    assert (saved.view(np.float32) == 7.0).all()


def test_storage_that_does_not_answer_a_trial_is_not_waited_for(
    tmp_path: Path, double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"findings": [{"severity": "error", "message": "it is full"}]}
    double.store.trials = [{"pending": True}, {"pending": True}, late]
    said = []
    with Checkpointer(tmp_path).attach(model=Net()) as checkpointer:
        for step in range(4):
            checkpointer.save(step).wait(60)
            said.append(capsys.readouterr().err)
    assert "does not answer yet" in said[0] and said[1] == "" and said[3] == ""
    assert said[2] == "shanty: checkpoints: error: it is full\n"
    limits = [r["limit_s"] for r in double.store.requests if r["op"] == "preflight"]
    assert limits[0] > 0 and limits[1:] == [0, 0]


def test_what_is_not_given_is_what_the_job_file_says(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="checkpoint.dir in the job file"):
        Checkpointer()
    of_job = {"DIR": str(tmp_path / "job"), "KEEP": "7", "EVERY": "90.500s", "MILESTONES": "20"}
    for name, value in of_job.items():
        monkeypatch.setenv(f"SHANTY_CKPT_{name}", value)
    with Checkpointer().attach(model=Net()) as checkpointer:
        assert checkpointer._schedule.seconds == 90.5
        for step in (10, 25):
            checkpointer.save(step).wait(60)
    hello, *rest = double.store.requests
    assert (hello["root"], hello["keep"]) == (str(tmp_path / "job"), 7)
    assert [r["pin"] for r in rest if r["op"] == "save"] == [False, True]
    with Checkpointer(tmp_path, keep=2, every=5).attach(model=Net()) as checkpointer:
        assert checkpointer._schedule.steps == 5
        checkpointer.save(1).wait(60)
    hello = [r for r in double.store.requests if r["op"] == "hello"][-1]
    assert (hello["root"], hello["keep"]) == (str(tmp_path), 2)
    monkeypatch.setenv("SHANTY_CKPT_KEEP", "some")
    with pytest.raises(CheckpointError, match="SHANTY_CKPT_KEEP=some"):
        Checkpointer(tmp_path)


def test_long_messages_come_in_several_frames(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 1000)
    double.store.frame_bytes = 1000
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        run.train(2, checkpointer, at=2).wait(60)
        expected = copy.deepcopy(run.model.state_dict())
        run.train(4)
        assert checkpointer.load() is not None
    assert_same(dict(run.model.state_dict()), dict(expected))


class Zoo(nn.Module):
    """One of each kind of tensor."""

    def __init__(self, fill: float) -> None:
        super().__init__()
        values = torch.arange(24.0).reshape(4, 6) * fill
        for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8):
            self.register_buffer(str(dtype).replace(".", "_"), values.to(dtype))
        for name in ("float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "bool"):
            self.register_buffer(name, values.to(getattr(torch, name)))
        self.register_buffer("scalar", torch.tensor(fill))
        self.register_buffer("empty", torch.zeros(0, 5))
        self.turned = nn.Parameter(values.t() + fill)
        self.large = nn.Parameter(torch.full((300, 100), fill))
        self.large_turned = nn.Parameter(torch.rand(200, 100).t() * fill)
        self.tied = self.large
        self.register_buffer("conjugate", torch.complex(values, values).conj())
        self.register_buffer("forgotten", values, persistent=False)


def test_every_kind_of_tensor_comes_back(tmp_path: Path, double: Double) -> None:
    model, other = Zoo(3.0), Zoo(0.0)
    with Checkpointer(tmp_path).attach(model=model, rng=False) as checkpointer:
        checkpointer.save(1).wait(60)
    with Checkpointer(tmp_path).attach(model=other, rng=False) as checkpointer:
        assert checkpointer.load() is not None
    assert other.tied is other.large and not other.turned.is_contiguous()
    for name, tensor in model.state_dict().items():
        assert_same(other.state_dict()[name], tensor, name)
    assert double.store.checkpoints[1]["aliases"] == {"tied": "large"}
    assert float(other.forgotten.sum()) == 0


def test_the_optimizer_waits_until_its_parameters_are_copied(
    tmp_path: Path, double: Double
) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        run.train(1)
        double.store.hold.clear()
        handle = checkpointer.save(1)
        assert not handle.staged and not handle.durable
        before = run.model.middle.weight.detach().clone()
        stepping = threading.Thread(target=run.train, args=(2,))
        stepping.start()
        stepping.join(0.3)
        assert stepping.is_alive() and torch.equal(before, run.model.middle.weight)
        double.store.hold.set()
        stepping.join(60)
        assert not torch.equal(before, run.model.middle.weight)
        handle.wait(60)
    saved = double.store.checkpoints[1]["tensors"]["middle.weight"]["data"].tobytes()
    assert saved == before.numpy().tobytes()


def test_an_engine_that_hangs_ends_the_wait_with_an_error(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save_module, "FENCE_LIMIT_S", 0.2)
    run = Run()
    checkpointer = run.attach(Checkpointer(tmp_path))
    run.train(1)
    double.store.hold.clear()
    checkpointer.save(1)
    with pytest.raises(CheckpointError, match="step 1 was not copied within"):
        run.train(2)
    double.store.hold.set()
    checkpointer.close()


def test_the_wait_for_a_copy_grows_with_its_size(double: Double) -> None:
    saver = Saver(connect(double, 0, 1), Copies("", 0, 1), False)
    assert saver._fence_limit_s() == save_module.FENCE_LIMIT_S
    saver.slot_bytes = 80 << 30  # at the speed of memory that was never touched: minutes
    assert saver._fence_limit_s() > 600


def test_a_save_that_cannot_begin_is_told_to_the_other_ranks(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Saver, "_fill", lambda *_: (_ for _ in ()).throw(CheckpointError("no")))
    with Run().attach(Checkpointer(tmp_path)) as checkpointer:
        assert checkpointer.save(1).error == "no"
    (told,) = [r for r in double.store.requests if r["op"] == "abandon"]
    assert (told["step"], told["why"]) == (1, "no")


def test_each_rank_finds_the_extra_that_it_saved() -> None:
    attached, shared = Attached(False), {"world_size": 2, "extra": "of rank 0"}
    own = {"shared": {**shared, "extra": "of rank 1"}}
    world: Any = types.SimpleNamespace(size=2)
    assert attached.extra_of(shared, own, world) == "of rank 1"
    assert attached.extra_of(shared, {"shared": None}, world) == "of rank 0"
    world.size = 3
    assert attached.extra_of(shared, own, world) == "of rank 0"


def test_training_goes_on_when_the_engine_dies(
    tmp_path: Path, double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        double.store.hold.clear()
        handle = run.train(1, checkpointer, at=1)
        double.die()
        run.train(3)
        assert "engine was lost while it copied" in (handle.error or "")
        later = checkpointer.save(3)
        assert later.error and not later.staged
        with pytest.raises(CheckpointError, match="step 1 failed"):
            handle.wait()
        double.store.hold.set()
    lines = capsys.readouterr().err.splitlines()
    assert [line[:39] for line in lines] == [
        "shanty: the checkpoint of step 1 failed",
        "shanty: the checkpoint of step 3 failed",
    ]


def test_failing_storage_is_told_once_and_training_goes_on(
    tmp_path: Path, double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run()
    double.store.fail_save = "no space left on device"
    with run.attach(Checkpointer(tmp_path, every=2)) as checkpointer:
        for step in range(1, 5):
            run.train(step)
            checkpointer.maybe_save(step)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"shanty: the checkpoint of step {step} failed: no space left on device" for step in (2, 4)
    ]


def test_parameters_changed_by_others_during_a_save_spoil_it(
    tmp_path: Path, double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        handle = run.train(1, checkpointer, at=1)
        with torch.no_grad():
            run.model.middle.weight.mul_(2)
        run.train(2)
        assert "changed between the save" in (handle.error or "") and "given up" in handle.error
        # From now on nothing is left to spoil when save returns.
        double.store.hold.clear()
        threading.Timer(0.2, double.store.hold.set).start()
        second = checkpointer.save(2)
        assert second.staged
        with torch.no_grad():
            run.model.middle.weight.mul_(2)
        run.train(3)
        second.wait(60)
    assert 1 not in double.store.checkpoints and 2 in double.store.checkpoints
    assert capsys.readouterr().err.count("\n") == 1


def test_the_layout_is_asked_for_only_when_it_changed(tmp_path: Path, double: Double) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        checkpointer.save(0)  # before the optimizer has any state
        for step in range(1, 4):
            run.train(step)
            checkpointer.save(step)
        run.model.middle.weight.data = run.model.middle.weight.data.clone()
        checkpointer.save(4).wait(60)
    assert double.store.ops().count("layout") == 2
    data = double.store.checkpoints[4]["tensors"]["middle.weight"]["data"].tobytes()
    assert data == run.model.middle.weight.detach().numpy().tobytes()
    assert not any(n.startswith("optim.") for n in double.store.checkpoints[0]["tensors"])


def test_a_damaged_checkpoint_is_passed_over_with_a_finding(tmp_path: Path, double: Double) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        for step in (1, 2):
            run.train(step)
            checkpointer.save(step).wait(60)
        double.store.bad_reads = {2}
        found = checkpointer.load()
        assert found is not None and found.step == 1 and run.loader.state_dict()["samples"] == 6
        assert found.findings == ["step 2: a checksum does not match"]
        double.store.bad_reads = {1, 2}
        with pytest.raises(CheckpointError, match="none of the checkpoints is whole"):
            checkpointer.load()


def test_loading_the_past_drops_state_that_was_not_there(tmp_path: Path, double: Double) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        checkpointer.save(0).wait(60)
        run.train(2)
        found = checkpointer.load(step=0)
        assert found is not None and not run.optimizer.state
        assert found.findings and "was dropped" in found.findings[0]


def test_what_does_not_fit_is_listed(tmp_path: Path, double: Double) -> None:
    with Checkpointer(tmp_path).attach(model=Net(160)) as checkpointer:
        assert checkpointer.load() is None
        checkpointer.save(1).wait(60)
    with Checkpointer(tmp_path).attach(model=Net(20)) as checkpointer:
        with pytest.raises(
            CheckpointError, match=r"first.weight is F32 \[20, 8\] here and F32 \[160"
        ):
            checkpointer.load()
    model = nn.ModuleDict({"first": nn.Linear(8, 160), "new": nn.Linear(2, 2)})
    with Checkpointer(tmp_path).attach(model=model) as checkpointer:
        with pytest.raises(CheckpointError, match=r"2 are missing in it \(new.bias.*unexpected"):
            checkpointer.load()
        found = checkpointer.load(strict=False)
        assert found is not None and "left alone" in found.findings[0]


def test_a_model_alone_is_loaded_without_its_optimizer(tmp_path: Path, double: Double) -> None:
    run = Run()
    with Checkpointer(tmp_path).attach(model=run.model, optimizer=run.optimizer) as checkpointer:
        run.train(1)
        checkpointer.save(1).wait(60)
    model = Net()
    with Checkpointer(tmp_path).attach(model=model, rng=False) as checkpointer:
        assert checkpointer.load() is not None
    assert_same(model.state_dict(), run.model.state_dict())


def test_several_of_a_kind_and_extras(tmp_path: Path, double: Double) -> None:
    def parts() -> dict[str, Any]:
        nets = {"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}
        return {
            "model": nets,
            "optimizer": {k: torch.optim.Adam(n.parameters()) for k, n in nets.items()},
        }

    one, other = parts(), parts()
    for key, net in one["model"].items():
        net(torch.ones(1, 2)).sum().backward()
        one["optimizer"][key].step()
    with Checkpointer(tmp_path).attach(**one, extra=lambda: {"note": (1, 2)}) as checkpointer:
        checkpointer.save(1).wait(60)
    names = double.store.checkpoints[1]["tensors"]
    assert "g.weight" in names and "optim.d.exp_avg.d.weight" in names
    with Checkpointer(tmp_path).attach(**other) as checkpointer:
        found = checkpointer.load()
        assert found is not None and found.extra == {"note": (1, 2)}
    for key in "gd":
        assert_same(one["model"][key].state_dict(), other["model"][key].state_dict())
        assert_same(one["optimizer"][key].state_dict(), other["optimizer"][key].state_dict())


def test_user_mistakes_are_named(tmp_path: Path, double: Double) -> None:
    with pytest.raises(CheckpointError, match="wrap it, loader = shanty.ResumableLoader"):
        Checkpointer(tmp_path).attach(loader=DataLoader([1, 2]))
    stranger = torch.optim.SGD(nn.Linear(2, 2).parameters())
    checkpointer = Checkpointer(tmp_path).attach(model=nn.Linear(2, 2), optimizer=stranger)
    with pytest.raises(CheckpointError, match="no attached model has"):
        checkpointer.save(1)
    with pytest.raises(CheckpointError, match="are called 0.bias: attach them as a dict"):
        Checkpointer(tmp_path).attach(model=[nn.Linear(2, 2)]).attach(model=[nn.Linear(2, 2)]).save(
            1
        )


@pytest.mark.parametrize(
    "given, why",
    [
        ({"every": 0.5}, "every=0.5: give a whole number from 1 on"),
        ({"every": (1, 2)}, r"every=\(1, 2\): give"),
        ({"keep": 0}, "keep=0: give a whole number from 1 on"),
        ({"keep": 2.5}, "keep=2.5"),
        ({"keep_best": -1}, "keep_best=-1"),
        ({"rate_limit": -5}, "rate_limit=-5"),
        ({"mtbf_s": 0}, "mtbf_s=0"),
        ({"replicas": "none"}, 'replicas="none": give "auto", "first", None or a process group'),
        ({"directory": "s3://bucket/run"}, "s3://bucket/run: give a directory"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        Checkpointer(**{"directory": tmp_path, **given})


def test_a_rate_may_be_any_number(tmp_path: Path, double: Double) -> None:
    with Checkpointer(tmp_path, rate_limit=1e9).attach(model=nn.Linear(2, 2)) as checkpointer:
        checkpointer.save(1)
    (hello,) = [r for r in double.store.requests if r["op"] == "hello"]
    assert type(hello["rate_bytes_per_s"]) is int and hello["rate_bytes_per_s"] == 10**9


def test_steps_are_whole_numbers_of_any_type(tmp_path: Path, double: Double) -> None:
    with Checkpointer(tmp_path).attach(model=nn.Linear(2, 2)) as checkpointer:
        for step in (np.int64(3), torch.tensor(4)):
            checkpointer.save(step).wait(60)
        assert checkpointer.load(np.int32(3)).step == 3
        for wrong in (1.5, -1, "7", None, torch.tensor([1, 2])):
            with pytest.raises(CheckpointError, match="step=.*: give a whole number from 0 on"):
                checkpointer.save(wrong)
            with pytest.raises(CheckpointError, match="step=.*: give a whole number from 0 on"):
                checkpointer.maybe_save(wrong)
        with pytest.raises(CheckpointError, match="the metric loss is 'low': give a number"):
            checkpointer.save(5, metrics={"loss": "low"})
        with pytest.raises(CheckpointError, match="needs a name"):
            checkpointer.save(5, metrics={5: 1.0})
    assert sorted(double.store.checkpoints) == [3, 4]


def test_nothing_attached_is_no_checkpoint(tmp_path: Path, double: Double) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        for call in (lambda: checkpointer.save(1), checkpointer.load):
            with pytest.raises(CheckpointError, match="of nothing: call attach.. before"):
                call()
    assert double.store.requests == []


def test_a_name_is_one_objects(tmp_path: Path) -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    one, two = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 1) for o in (one, two)]
    loaders = [ResumableLoader(DataLoader(TensorDataset(torch.ones(3)))) for _ in range(2)]
    scaler = torch.amp.GradScaler("cpu")
    checkpointer = Checkpointer(tmp_path)
    extra: dict[str, Any] = {}
    for _ in range(2):  # the same again is no mistake
        checkpointer.attach(
            model, one, schedulers[0], loader=loaders[0], scaler=scaler, extra=extra
        )
    for wrong, why in (
        ({"optimizer": two}, "another object as the optimizer: attach them together, as a dict"),
        ({"scheduler": schedulers[1]}, "another object as the scheduler"),
        ({"scaler": torch.amp.GradScaler("cpu")}, "another object as the scaler"),
        ({"loader": loaders[1]}, "a second loader"),
        ({"extra": {}}, "a second extra"),
        ({"scheduler": {"late": 3}}, "cannot attach a int as scheduler: it has no state_dict"),
        ({"loader": loaders[0], "sampler": loaders[1].sampler}, "give one of the two"),
        ({"rng": ["seed"]}, "cannot attach a str as rng"),
    ):
        with pytest.raises(CheckpointError, match=why):
            checkpointer.attach(**wrong)
    checkpointer.attach(loader=loaders[0], sampler=loaders[0].sampler)


def test_a_parameter_without_a_shape_is_named(tmp_path: Path, double: Double) -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    with Checkpointer(tmp_path).attach(model=model) as checkpointer:
        with pytest.raises(CheckpointError, match="0.weight: it has no shape yet"):
            checkpointer.save(1)
        model(torch.ones(1, 2))
        checkpointer.save(1).wait(60)


def test_tensors_of_inference_mode_come_back(tmp_path: Path, double: Double) -> None:
    model = nn.Linear(160, 160)
    with torch.inference_mode():
        ema = copy.deepcopy(model)
        ema.weight.fill_(3)
    assert ema.weight.is_inference()
    with Checkpointer(tmp_path).attach(model=model, ema=ema) as checkpointer:
        checkpointer.save(1).wait(60)
        with torch.inference_mode():
            ema.weight.fill_(5)
        handle = checkpointer.save(2)
        with torch.inference_mode():
            ema.weight.fill_(7)
        handle.wait(60)
        for step, value in ((1, 3), (2, 5)):
            assert checkpointer.load(step) is not None
            assert bool((ema.weight == value).all())


def test_calls_that_are_more_or_less_than_one_a_step(tmp_path: Path, double: Double) -> None:
    saved = []
    for steps in ([1, 1, 2, 2, 3, 3, 4, 4], [3, 6, 9, 12], [7, 8, 9]):
        with Checkpointer(tmp_path, every=2).attach(model=nn.Linear(2, 2)) as checkpointer:
            handles = [checkpointer.maybe_save(step) for step in steps]
        saved.append([step for step, handle in zip(steps, handles) if handle is not None])
    assert saved == [[2, 4], [6, 9, 12], [8]]


def test_a_checkpoint_without_extra_leaves_what_is_attached(
    tmp_path: Path, double: Double
) -> None:
    model = nn.Linear(2, 2)
    with Checkpointer(tmp_path).attach(model) as checkpointer:
        checkpointer.save(1).wait(60)
    for extra in ({"a": 1}, torch.optim.lr_scheduler.StepLR(torch.optim.SGD([model.weight]), 1)):
        with Checkpointer(tmp_path).attach(model, extra=extra) as checkpointer:
            found = checkpointer.load()
            assert found is not None and "has no extra" in found.findings[0]


def test_other_generators_come_back(tmp_path: Path, double: Double) -> None:
    own = [torch.Generator(), random.Random(1), np.random.RandomState(2), np.random.default_rng(3)]

    def draw() -> list[float]:
        first, *others = own
        return [float(torch.rand((), generator=first)), *(float(g.random()) for g in others)]

    model = nn.Linear(2, 2)
    with Checkpointer(tmp_path).attach(model, rng=own) as checkpointer:
        checkpointer.save(1).wait(60)
        drawn = draw()
        assert checkpointer.load() is not None and draw() == drawn
    with Checkpointer(tmp_path).attach(model, rng=own[0]) as checkpointer:
        found = checkpointer.load()
        assert found is not None
        assert found.findings == ["the checkpoint has 4 further generators, 1 are attached"]


# Any number of ranks to any other, in one process.


class SomeWorld(types.SimpleNamespace):
    def gather(self, value: Any) -> list[Any]:
        return [value]


def attached(model: nn.Module, optimizer: torch.optim.Optimizer) -> Attached:
    one = Attached(False)
    one.add(model, optimizer, None, None, None, None, True, None)
    return one


def connect(double: Double, rank: int, size: int) -> Any:
    connection = _connect(double.name)
    connection.ask("hello", protocol=1, root="/", rank=rank, world_size=size)
    return connection


@pytest.mark.parametrize("saving", [1, 2, 3, 4, 8])
def test_replicas_save_together_and_any_world_loads(double: Double, saving: int) -> None:
    run = Run()
    run.train(2)
    content = attached(run.model, run.optimizer)
    for rank in range(saving):
        world = SomeWorld(rank=rank, size=saving)
        entries, models = content.tensors()
        shared = content.shared(2, models, world)
        saver = Saver(connect(double, rank, saving), Copies("all", rank, saving), False)
        texts = (content.own(shared, world), shared)
        saver.save(2, entries, models.aliases, texts, False).wait(60)
    double.store.check_coverage(2)
    for size in (1, 2, 3):
        other = Run()
        target = attached(other.model, other.optimizer)
        world = SomeWorld(rank=size - 1, size=size)
        found = load(connect(double, size - 1, size), world, target, None, True)
        assert found is not None
        assert_same(other.model.state_dict(), run.model.state_dict())
        assert_same(other.optimizer.state_dict(), run.optimizer.state_dict())
        assert bool(found.findings) == (size != saving)
        if size != saving:
            assert "derived anew from (seed, rank, step)" in found.findings[0]


def test_import_of_shanty_stays_free_of_torch() -> None:
    from ring_reader import run as run_script

    ended = run_script(None, "-c", "import shanty, sys; print('torch' in sys.modules)")
    assert ended.out == "False\n"


def test_sigterm_saves_and_then_ends_the_process(tmp_path: Path, double: Double) -> None:
    from ring_reader import finish, start

    script = """
import os, signal, sys, time, torch, shanty
model = torch.nn.Linear(4, 4)
checkpointer = shanty.Checkpointer(sys.argv[1], every=1000).attach(model=model)
for step in range(1, 10000):
    checkpointer.maybe_save(step)
    if step == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    if step == 5:
        print("went on", flush=True)
"""
    double.store.pull = False  # it reads its own memory only
    ended = finish(start(None, "-c", script, str(tmp_path), SHANTY_CKPT_SOCKET=double.name))
    assert ended.code == -15 and ended.out == "" and list(double.store.checkpoints) == [4], (
        ended.err
    )


def test_a_save_returns_before_anything_is_copied(tmp_path: Path, double: Double) -> None:
    run = Run()
    with run.attach(Checkpointer(tmp_path)) as checkpointer:
        run.train(1)
        checkpointer.save(1).wait(60)
        double.store.hold.clear()
        assert not checkpointer.save(2).staged
        double.store.hold.set()
