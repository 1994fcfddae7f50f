"""Steps that are soon only counted, one of which stands where the first argument says until a line
comes in."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 600
STANDS_AT = 300
place = sys.argv[1]
now = {"step": 0}


def here(where: str) -> None:
    if where == place and now["step"] == STANDS_AT:
        print(f"standing {now['step']}", flush=True)
        sys.stdin.readline()


class Numbers(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, i: int) -> torch.Tensor:
        here("data")
        return torch.ones(4)


class Model(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here("forward")
        return super().forward(x)


class Optimizer(torch.optim.SGD):
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        here("optimizer")
        super().step(closure)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(Model(4, 1))
optimizer = Optimizer(model.parameters(), lr=0.01)
if place == "compiled":
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
for batch in DataLoader(Numbers(), batch_size=1):
    loss = model(batch).sum()
    loss.register_hook(lambda grad: here("backward"))
    optimizer.zero_grad()
    loss.backward()
    here("other")
    optimizer.step()
    now["step"] += 1
wrapped = [
    hasattr(function, "__wrapped__")
    for function in (torch.autograd.backward, DistributedDataParallel.forward)
]
print(f"done {wrapped}", flush=True)
