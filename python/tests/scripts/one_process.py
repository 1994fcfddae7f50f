"""Loops of many kinds in one process, as importing torch is what takes the time."""

from __future__ import annotations

import io
import tempfile
import itertools
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from sections import report, section

STEPS = 6


class Slow(Dataset):
    """A module's class, so that spawned loader workers find it."""

    def __len__(self) -> int:
        return 4 * STEPS

    def __getitem__(self, i: int) -> dict:
        time.sleep(0.001)
        return {"name": "x", "x": torch.ones(8) * i}


class Loading(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> torch.Tensor:
        buffer = io.BytesIO()
        torch.save(torch.ones(8), buffer)
        buffer.seek(0)
        return torch.load(buffer)


class Endless(IterableDataset):
    def __iter__(self):
        return iter(itertools.repeat(torch.ones(8)))


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(8, 1)


def optimizer(m: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(m.parameters(), lr=0.01)


def loss_of(m: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return (m(x) - 1).pow(2).mean()


def plain() -> None:
    with section("plain") as known:
        m = model()
        sgd = optimizer(m)
        losses = []
        for (x,) in DataLoader(TensorDataset(torch.randn(5 * STEPS, 8)), batch_size=5):
            sgd.zero_grad()
            loss = loss_of(m, x)
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        known["losses"] = losses
        # The first record is held until the next loop shows that nobody names it.


def accumulation() -> None:
    with section("accumulation") as known:
        m = model()
        sgd = optimizer(m)
        losses = []
        for i, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=3)):
            loss = loss_of(m, x)
            loss.backward()
            losses.append(loss.item())
            if i % 2:
                sgd.step()
        known["losses"] = [(a + b) / 2 for a, b in zip(losses[::2], losses[1::2])]


def two_optimizers() -> None:
    with section("two_optimizers"):
        a, b = model(), model()
        first, second = optimizer(a), torch.optim.Adam(b.parameters())
        for _ in range(STEPS):
            x = torch.randn(4, 8)
            loss_of(a, x).backward()
            first.step()
            loss_of(b, x).backward()
            second.step()


def closure() -> None:
    with section("lbfgs") as known:
        m = model()
        lbfgs = torch.optim.LBFGS(m.parameters(), max_iter=4)
        x, calls = torch.randn(16, 8), []

        def evaluate() -> torch.Tensor:
            lbfgs.zero_grad()
            loss = loss_of(m, x)
            loss.backward()
            calls.append(loss.item())
            return loss

        for _ in range(2):
            lbfgs.step(evaluate)
        known["calls"] = len(calls)


def scaler() -> None:
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        return
    with section("scaler") as known:
        m = model()
        sgd = optimizer(m)
        grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        losses = []
        for i in range(4):
            x = torch.randn(4, 8)
            # An infinite loss: the scaler skips the step, so no hook fires.
            loss = loss_of(m, x) * (float("inf") if i == 2 else 1.0)
            sgd.zero_grad()
            grad_scaler.scale(loss).backward()
            grad_scaler.step(sgd)
            grad_scaler.update()
            losses.append(loss.item())
        known["losses"] = losses


def own_optimizer() -> None:
    class Mine(torch.optim.Optimizer):
        def __init__(self, params) -> None:
            super().__init__(params, {"lr": 0.1})

        def step(self, closure=None) -> None:
            if self.broken:
                self.broken = False
                raise ArithmeticError("mine")

    with section("own_optimizer") as known:
        mine = Mine(model().parameters())
        mine.broken = True
        try:
            mine.step()
        except ArithmeticError as error:
            known["raised"] = str(error)
        mine.step()
        mine.step()


def evaluation() -> None:
    with section("evaluation"):
        m = model()
        sgd = optimizer(m)
        loader = DataLoader(TensorDataset(torch.randn(10, 8)), batch_size=5)
        for _ in range(2):
            with torch.no_grad():
                for (x,) in loader:
                    time.sleep(0.01)
                    loss_of(m, x)
            loss_of(m, torch.randn(4, 8)).backward()
            sgd.step()


def checkpoints() -> None:
    with section("checkpoints"):
        m = model()
        sgd = optimizer(m)
        for _ in range(2):
            with tempfile.TemporaryFile() as file:
                torch.save({"big": torch.zeros(2_000_000)}, file)
                file.seek(0)
                torch.load(file)
            torch.save(torch.ones(2), io.BytesIO())  # into memory: no checkpoint
            sgd.step()


def loading_dataset() -> None:
    with section("loading_dataset"):
        sgd = optimizer(model())
        for _ in DataLoader(Loading(), batch_size=4):
            sgd.step()


def batches_of_all_kinds() -> None:
    with section("batches"):
        sgd = optimizer(model())
        for data in (
            [torch.ones(7, 2)],
            [{"a": "text", "b": [torch.ones(6)]}],
            [["text", "more"]],
            [torch.tensor(1.0)],
        ):
            for _ in DataLoader(data, batch_size=None):
                sgd.step()
        for _ in itertools.islice(DataLoader(Endless(), batch_size=9), 2):
            sgd.step()


def workers() -> None:
    for how in ("fork", "spawn", "forkserver"):
        with section(how) as known:
            m = model()
            sgd = optimizer(m)
            loader = DataLoader(Slow(), batch_size=4, num_workers=1, multiprocessing_context=how)
            total = 0.0
            for batch in loader:
                loss_of(m, batch["x"]).backward()
                sgd.step()
                total += float(batch["x"].sum())
            known["total"] = total


def compiled() -> None:
    with section("compiled") as known:
        m = model()
        fast = torch.compile(m, backend="eager", fullgraph=True)
        sgd = optimizer(m)
        losses = []
        for _ in range(3):
            loss = loss_of(fast, torch.randn(4, 8))
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        known["losses"] = losses


def compiled_step() -> None:
    with section("compiled_step"):
        m = model()
        sgd = optimizer(m)

        @torch.compile(backend="eager")
        def step(x: torch.Tensor) -> torch.Tensor:
            loss = loss_of(m, x)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            return loss

        for _ in range(3):
            step(torch.randn(4, 8))


def identity() -> None:
    """What a wrapper must not change."""
    import inspect
    import pickle

    with section("identity") as known:
        for function in (torch.save, torch.load, torch.autograd.backward):
            assert pickle.loads(pickle.dumps(function)) is function
        assert torch.serialization.save is torch.save
        known["names"] = [torch.save.__name__, torch.autograd.backward.__qualname__]
        known["signature"] = str(inspect.signature(torch.autograd.backward))


def main() -> None:
    for part in (
        plain,
        accumulation,
        two_optimizers,
        closure,
        scaler,
        own_optimizer,
        evaluation,
        checkpoints,
        loading_dataset,
        batches_of_all_kinds,
        workers,
        compiled,
        compiled_step,
        identity,
        broken,
    ):
        part()
    report()


def broken() -> None:
    """Last, as it switches the hooks off."""
    from shanty.ring import Ring

    def put_phase(*_: object) -> None:
        raise RuntimeError("injected")

    with section("broken") as known:
        m = model()
        sgd = optimizer(m)
        Ring.put_record = put_phase
        for (x,) in DataLoader(TensorDataset(torch.randn(10, 8)), batch_size=5):
            loss_of(m, x).backward()
            sgd.step()
        torch.save(m.state_dict(), io.BytesIO())
        known["weight"] = float(m.weight.sum())


if __name__ == "__main__":
    main()
