"""What makes a save look anew for the tensors that it saves."""

from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from shanty.checkpoint.attached import Attached  # noqa: E402
from shanty.checkpoint.world import World  # noqa: E402
from torch import nn  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("table", torch.zeros(4), persistent=False)
        self.wide = nn.Parameter(torch.randn(4, 8).t())


class Counting(torch.optim.SGD):
    """Its count of steps is no tensor."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["steps"] = state.get("steps", 0) + 1
        self.state["all"] = self.state.get("all", 0) + 1
        super().step(closure)


def train(model: Net, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    (model.norm(model.first(torch.ones(2, 4))).sum() + model.wide.sum()).backward()
    optimizer.step()


@pytest.fixture
def run() -> tuple[Net, Counting, Attached]:
    model = Net()
    optimizer = Counting(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer)
    attached = Attached(allow_pickle=False)
    attached.add(model, optimizer, None, None, None, None, True, None)
    return model, optimizer, attached


def test_values_that_change_are_not_looked_for_anew(
    run: tuple[Net, Counting, Attached]
) -> None:
    model, optimizer, attached = run
    before, _ = attached.tensors()
    for _ in range(3):
        train(model, optimizer)
    with torch.no_grad():
        model.wide.mul_(2)
    model.not_a_tensor = 1
    optimizer.param_groups[0]["lr"] = 0.5
    assert attached.tensors()[0] is before


def replace_parameter(model: Net, _: Counting) -> None:
    model.first.weight = nn.Parameter(torch.zeros(4, 4))


def replace_buffer(model: Net, _: Counting) -> None:
    model.norm.running_mean = torch.zeros(4)


def rename_parameter(model: Net, _: Counting) -> None:
    wide = model.wide
    del model.wide
    model.broad = wide


def make_persistent(model: Net, _: Counting) -> None:
    model._non_persistent_buffers_set.clear()


def add_module(model: Net, _: Counting) -> None:
    model.first.extra = nn.Linear(2, 2)


def add_parameter_where_none_was(model: Net, _: Counting) -> None:
    model.first.bias, model.first.other = None, nn.Parameter(torch.zeros(4))


def move(model: Net, _: Counting) -> None:
    model.first.weight.data = model.first.weight.data.clone()


def transpose(model: Net, _: Counting) -> None:
    model.first.weight.data = model.first.weight.data.t()


def lay_out_anew(model: Net, _: Counting) -> None:
    model.wide.data = model.wide.data.as_strided((8, 4), (4, 1))


def reshape(model: Net, _: Counting) -> None:
    model.first.weight.data = model.first.weight.data.view(2, 8)


def reinterpret(model: Net, _: Counting) -> None:
    model.norm.running_var.data = model.norm.running_var.data.view(torch.int32)


def drop_state(model: Net, optimizer: Counting) -> None:
    optimizer.state.pop(model.wide)


def make_state(model: Net, optimizer: Counting) -> None:
    optimizer.state[model.wide]["more"] = torch.zeros(4)


def replace_state(model: Net, optimizer: Counting) -> None:
    optimizer.state[model.wide]["momentum_buffer"] = torch.zeros(8, 4)


def replace_all_state_of_one(model: Net, optimizer: Counting) -> None:
    optimizer.state[model.wide] = dict(optimizer.state[model.wide])
    optimizer.state[model.wide]["momentum_buffer"] = torch.zeros(8, 4)


def count_in_a_tensor(model: Net, optimizer: Counting) -> None:
    optimizer.state[model.wide]["steps"] = torch.tensor(3)


def state_of_nothing(_: Net, optimizer: Counting) -> None:
    optimizer.state["name"] = 1


def add_group(model: Net, optimizer: Counting) -> None:
    model.late = nn.Parameter(torch.zeros(2))
    optimizer.add_param_group({"params": [model.late]})


def take_from_group(_: Net, optimizer: Counting) -> None:
    optimizer.param_groups[0]["params"].pop()


@pytest.mark.parametrize(
    "change",
    [
        replace_parameter,
        replace_buffer,
        rename_parameter,
        make_persistent,
        add_module,
        add_parameter_where_none_was,
        move,
        transpose,
        lay_out_anew,
        reshape,
        reinterpret,
        drop_state,
        make_state,
        replace_state,
        replace_all_state_of_one,
        count_in_a_tensor,
        state_of_nothing,
        add_group,
        take_from_group,
    ],
)
def test_whatever_changes_places_is_noticed(
    run: tuple[Net, Counting, Attached], change: Callable[[Net, Counting], None]
) -> None:
    model, optimizer, attached = run
    attached.tensors()
    assert attached._structure is not None and attached._structure.holds()
    change(model, optimizer)
    assert not attached._structure.holds()


def test_what_is_no_tensor_is_told_as_it_is_now(run: tuple[Net, Counting, Attached]) -> None:
    model, optimizer, attached = run
    for steps in (1, 2):
        _, models = attached.tensors()
        said = attached.shared(steps, models, World())["optimizers"][""]
        assert said["state"]["wide"] == {"steps": steps} and said["more"] == {"all": steps}
        train(model, optimizer)
