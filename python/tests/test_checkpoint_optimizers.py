"""Optimizers of all kinds, saved and loaded against the stand-in for the engine."""

from __future__ import annotations

import copy
import threading
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from checkpoint_double import Double, Store  # noqa: E402
from shanty.checkpoint import CheckpointError, Checkpointer  # noqa: E402
from torch import nn  # noqa: E402

Optimizer = torch.optim.Optimizer


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    double = Double(Store())
    monkeypatch.setenv("SHANTY_CKPT_SOCKET", double.name)
    yield double
    double.die()


def new_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def train(model: nn.Module, optimizer: Any, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


class Counting(torch.optim.SGD):
    """Keeps plain numbers: for each parameter, and one for all under a name of its own."""

    def step(self, closure: Any = None) -> Any:
        self.state["steps"] = self.state.get("steps", 0) + 1
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["seen"] = state.get("seen", 0) + 1
                group["lr"] = 0.1 / (state["seen"] + self.state["steps"])
        return super().step(closure)


class Lookup(dict):  # type: ignore[type-arg]
    """A state that makes no entries by itself."""


class Strict(torch.optim.SGD):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.state = Lookup({p: {} for g in self.param_groups for p in g["params"]})


KINDS: dict[str, Callable[[Any], Any]] = {
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), amsgrad=True),
    "fused": lambda p: torch.optim.Adam(p, fused=True),
    "nadam": torch.optim.NAdam,
    "asgd": torch.optim.ASGD,
    "rprop": torch.optim.Rprop,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "counting": lambda p: Counting(p, lr=0.1, momentum=0.9),
    "strict": lambda p: Strict(p, lr=0.1, momentum=0.9),
    "groups": lambda p: torch.optim.SGD([{"params": [x]} for x in p], lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_where_it_was(tmp_path: Path, double: Double, kind: str) -> None:
    straight = new_model()
    optimizer = KINDS[kind](straight.parameters())
    with Checkpointer(tmp_path).attach(straight, optimizer) as checkpointer:
        checkpointer.save(0).wait(60)
        train(straight, optimizer, range(3))
        checkpointer.save(3).wait(60)
        train(straight, optimizer, range(3, 6))
        end = copy.deepcopy(straight.state_dict())
        # Into one that has gone further, and into a fresh one; from the middle and the beginning.
        for fresh in (False, True):
            for step in (3, 0):
                model, again = straight, optimizer
                if fresh:
                    model = new_model()
                    again = KINDS[kind](model.parameters())
                other = checkpointer
                if fresh:
                    other = Checkpointer(tmp_path).attach(model, again)
                assert other.load(step) is not None
                train(model, again, range(step, 6))
                for name, value in model.state_dict().items():
                    assert torch.equal(value, end[name]), f"{name}, {fresh=}, from {step}"
                if fresh:
                    other.close()


def test_how_it_computes_is_the_scripts_choice(tmp_path: Path, double: Double) -> None:
    model = new_model()
    named = torch.optim.Adam(model.named_parameters(), foreach=True)
    with Checkpointer(tmp_path).attach(model, named) as checkpointer:
        train(model, named, range(2))
        checkpointer.save(2).wait(60)
    fused = torch.optim.Adam(model.parameters(), lr=5.0, fused=True)
    with Checkpointer(tmp_path).attach(model, fused) as checkpointer:
        assert checkpointer.load() is not None
        (group,) = fused.param_groups
        assert (group["fused"], group["foreach"], group["lr"]) == (True, None, 1e-3)
        assert "param_names" not in group
        train(model, fused, range(2, 3))


class Wrapper(Optimizer):
    """As accelerate's: an Optimizer that never was made one."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer

    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)

    def zero_grad(self) -> None:  # type: ignore[override]
        self.optimizer.zero_grad()


def test_the_optimizer_within_a_wrapper_is_attached(tmp_path: Path, double: Double) -> None:
    model = new_model()
    wrapper = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    with Checkpointer(tmp_path).attach(model, wrapper) as checkpointer:
        train(model, wrapper, range(2))
        double.store.hold.clear()
        handle = checkpointer.save(2)
        double.store.hold.set()
        train(model, wrapper, range(2, 3))  # waits for the copy
        assert handle.staged
        handle.wait(60)
    assert "optim.momentum_buffer.0.weight" in double.store.checkpoints[2]["tensors"]


class Lookahead(torch.optim.SGD):
    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "slow": []}


def test_state_that_would_be_lost_is_refused(tmp_path: Path, double: Double) -> None:
    model = new_model()
    with pytest.raises(CheckpointError, match="a Lookahead: its state_dict has slow beside"):
        Checkpointer(tmp_path).attach(model, Lookahead(model.parameters()))
    odd = torch.optim.SGD(model.parameters())
    odd.state[model[0]] = {"factor": 1}  # type: ignore[index]
    with Checkpointer(tmp_path).attach(model, odd) as checkpointer:
        with pytest.raises(CheckpointError, match="it has state for Linear.*is no parameter"):
            checkpointer.save(1)


def test_a_compiled_step_waits_for_the_copy(tmp_path: Path, double: Double) -> None:
    model = nn.Linear(160, 160)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 160)).sum().backward()
        optimizer.step()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Checkpointer(tmp_path).attach(model, optimizer) as checkpointer:
            step()
            double.store.hold.clear()
            handle = checkpointer.save(1)
            threading.Timer(0.3, double.store.hold.set).start()
            step()
            assert double.store.hold.is_set() and handle.staged
    assert not [w for w in warned if "shanty" in str(w.message) or "builtin" in str(w.message)]
