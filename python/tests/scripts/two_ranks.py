"""DDP and FSDP2 with two ranks over gloo; rank 1 comes late to each backward."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sections import report, section

LATE_S = 0.3
STEPS = 4


def loop(name: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Rank 1 comes LATE_S after rank 0 has begun its backward, however busy the machine is."""
    store = dist.FileStore(os.environ["MEETING"] + ".late", 2)
    for step in range(STEPS):
        loss = model(torch.ones(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        key = f"{name} {step}"
        if dist.get_rank() == 0:
            loss.register_hook(lambda _, key=key: store.set(key, "begun"))
        else:
            store.wait([key])
            time.sleep(LATE_S)
        loss.backward()
        optimizer.step()


def main() -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['MEETING']}",
        rank=int(os.environ["RANK"]),
        world_size=2,
    )
    torch.manual_seed(0)
    with section("ddp") as known:
        ddp = DistributedDataParallel(torch.nn.Linear(8, 8))
        sgd = torch.optim.SGD(ddp.parameters(), lr=0.01)
        loop("ddp", ddp, sgd)
        ddp.eval()
        with torch.no_grad():
            ddp(torch.ones(4, 8))
        dist.all_reduce(torch.ones(4))
        dist.barrier()
        sgd.step()
        known["weight"] = float(ddp.module.weight.sum())
        del ddp, sgd
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        fully_shard = None
    if fully_shard is not None:
        with section("fsdp2"):
            sharded = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
            for layer in sharded:
                fully_shard(layer)
            fully_shard(sharded)
            loop("fsdp2", sharded, torch.optim.AdamW(sharded.parameters()))
    dist.destroy_process_group()
    report()


main()
