"""What the step hooks cost: the same loops in one process, with the hooks in place and taken out.

The two take turns, block by block, so that both see the same noise; many short blocks, as the
machine's speed drifts within seconds. Figures are medians; what the target judges is the training
thread's processor time, which other load disturbs least.

    python bench/hooks.py [--blocks 161] [--steps 50]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests"))

TARGET_US = 20.0
LOOPS = ("bare", "loader", "ddp", "transformer")
# Its step is long enough for one figure: steps a second.
LONG = "transformer"


class Hooks:
    """Takes the wrappers out of torch and puts them back: those that are in place at the moment, as
    the recorder itself takes some out while it only counts steps."""

    def __init__(self) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import dataloader

        self._places: list[tuple[Any, str]] = [
            (torch.autograd, "backward"),
            (DistributedDataParallel, "forward"),
            (dataloader._BaseDataLoaderIter, "__next__"),
        ]
        # torch.optim drops the name of its submodule.
        optimizer = sys.modules["torch.optim.optimizer"]
        self._dicts = [
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        ]
        if not all(self._dicts):
            sys.exit("the hooks are not installed")
        self._inside = True

    def put(self, inside: bool) -> None:
        if inside == self._inside:
            return
        self._inside = inside
        if inside:
            for (owner, name), function in zip(self._places, self._functions):
                setattr(owner, name, function)
            for hooks, content in zip(self._dicts, self._contents):
                hooks.update(content)
            return
        self._functions = [getattr(owner, name) for owner, name in self._places]
        self._contents = [dict(hooks) for hooks in self._dicts]
        for (owner, name), function in zip(self._places, self._functions):
            setattr(owner, name, getattr(function, "__wrapped__", function))
        for hooks in self._dicts:
            hooks.clear()


def make_loops(steps: int) -> dict[str, Callable[[], None]]:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.Linear(8, 8)
    wrapped = DistributedDataParallel(torch.nn.Linear(8, 8))
    sgd = torch.optim.SGD([*model.parameters(), *wrapped.parameters()], lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(4 * steps, 8)), batch_size=4)

    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    transformer = DistributedDataParallel(torch.nn.Sequential(layer, torch.nn.Linear(128, 8)))
    adam = torch.optim.AdamW(transformer.parameters())
    sequences = DataLoader(TensorDataset(torch.randn(4 * steps // 10, 64, 128)), batch_size=4)

    def train_transformer() -> None:
        for (x,) in sequences:
            adam.zero_grad()
            transformer(x).pow(2).mean().backward()
            adam.step()

    def train(module: torch.nn.Module, batches: Any) -> None:
        for (x,) in batches:
            sgd.zero_grad()
            module(x).pow(2).mean().backward()
            sgd.step()

    fixed = [(torch.randn(4, 8),)] * steps
    return {
        "bare": lambda: train(model, fixed),
        "loader": lambda: train(model, loader),
        "ddp": lambda: train(wrapped, loader),
        LONG: train_transformer,
    }


def measure(loop: Callable[[], None], steps: int) -> tuple[float, float]:
    """Wall and processor time of a step, us."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    loop()
    wall, cpu = time.perf_counter() - began, time.thread_time() - began_cpu
    return wall / steps * 1e6, cpu / steps * 1e6


def compare(blocks: int, steps: int) -> int:
    loops = make_loops(steps)
    hooks = Hooks()
    print("us a step, medians of pairs")
    print(f"{'loop':8} {'plain':>9} {'hooked':>9} {'ratio':>6} {'added':>8} {'added cpu':>10}")
    worst = 0.0
    for name in LOOPS:
        pairs = []
        for block in range(-1, blocks):
            found = {}
            for inside in (True, False) if block % 2 else (False, True):
                hooks.put(inside)
                found[inside] = measure(loops[name], steps // 10 if name == LONG else steps)
            # The first pair warms up.
            if block >= 0:
                pairs.append((found[False], found[True]))
        plain = statistics.median(p[0] for p, _ in pairs)
        hooked = statistics.median(h[0] for _, h in pairs)
        ratio = statistics.median(h[0] / p[0] for p, h in pairs)
        added = statistics.median(h[0] - p[0] for p, h in pairs)
        added_cpu = statistics.median(h[1] - p[1] for p, h in pairs)
        worst = max(worst, added_cpu if name != LONG else 0)
        print(f"{name:8} {plain:9.1f} {hooked:9.1f} {ratio:6.3f} {added:8.1f} {added_cpu:10.1f}")
    print(f"target: under {TARGET_US:.0f} us of processor time added; worst {worst:.1f}")
    return 0 if worst < TARGET_US else 1


def start(arguments: list[str]) -> int:
    """Runs this file again as a worker with a ring, and checks that the records were written."""
    from ring_reader import TestRing, environment

    ring = TestRing()
    worker = [sys.executable, __file__, "--worker", *arguments]
    code = subprocess.run(worker, env=environment(ring), pass_fds=(ring.fd,)).returncode
    print(f"{ring.head} records written")
    return code if ring.head else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=161)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return compare(arguments.blocks, arguments.steps)
    return start(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
