"""Training runs that are killed and resumed, and reshaped ones: checkpoint_ranks.py MODE WORLD DIR.

Forks a process per rank, so that torch is imported once. The last line of output is JSON: what each
case found.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import shanty

# An epoch has three steps and ends with a smaller batch.
HALF, BATCH, ACCUMULATE, SAMPLES_PER_RANK = 5, 3, 2, 17
# What is reshaped into what, by the number of ranks.
KINDS = {
    1: ("plain", "fsdp2", "zero"),
    2: ("ddp", "fsdp2", "fsdp1", "zero"),
    3: ("ddp", "fsdp2", "fsdp1", "zero"),
    4: ("ddp", "fsdp2", "fsdp1", "hsdp", "tp"),
    6: ("ddp", "fsdp2"),
    8: ("ddp", "fsdp2", "hsdp"),
}
FEW_WORLDS = {1, 3}  # with which the other kinds are exchanged
# One epoch: (ranks, steps of the optimizer), one after the other.
LEGS = ((1, 3), (2, 2), (3, 2), (4, 2), (6, 2), (8, 1), (3, 1), (2, 2))
HANG_LIMIT_S = float(os.environ.get("HANG_LIMIT_S", "360"))


class Net(nn.Module):
    def __init__(self, norm: type) -> None:
        super().__init__()
        self.first = nn.Linear(8, 160)
        self.norm = norm(160)
        self.middle = nn.Linear(160, 160)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(160, 8)
        self.out.weight = nn.Parameter(self.out.weight.detach())
        self.back = nn.Linear(8, 160, bias=False)
        self.back.weight = self.first.weight  # tied

    def forward(self, x: Any) -> Any:
        x = self.first(x) + self.back(x)
        return self.out(self.drop(torch.relu(self.middle(self.norm(x)))))


class Case:
    """A run that can be made anew: `wrap` shards or replicates the model."""

    def __init__(
        self,
        wrap: Callable[[nn.Module], nn.Module],
        optimizer: Callable[..., torch.optim.Optimizer],
        dtype: torch.dtype = torch.float32,
        norm: type = nn.LayerNorm,
        samples: int = 0,
        alike: int = 1,  # ranks that train on the same, as those of tensor parallel do
    ) -> None:
        torch.manual_seed(5)
        together = dist.is_initialized()
        rank, world = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
        rank, world = rank // alike, world // alike
        samples = samples or SAMPLES_PER_RANK * world
        self.model = wrap(Net(norm).to(dtype))
        self.dtype = dtype
        self.optimizer = optimizer(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        inputs, targets = torch.randn(samples, 8).to(dtype), torch.randn(samples, 8).to(dtype)
        data = TensorDataset(inputs, targets, torch.arange(samples))
        sampler = shanty.ResumableSampler(data, seed=3, rank=rank, world_size=world)
        plain = DataLoader(data, batch_size=BATCH, sampler=sampler)
        self.loader = shanty.ResumableLoader(plain)
        torch.manual_seed(100 + rank)
        self.step = 0
        self.seen: list[int] = []

    def attach(self, directory: Path) -> shanty.Checkpointer:
        return shanty.Checkpointer(directory).attach(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            loader=self.loader,
        )

    def train(self, until: int, each: Callable[[int], None] = lambda step: None) -> None:
        while self.step < until:
            for i, (inputs, targets, numbers) in enumerate(self.loader, 1):
                self.seen += numbers.tolist()
                loss = (self.model(inputs) - targets).square().mean() / ACCUMULATE
                loss.backward()
                if i % ACCUMULATE:
                    continue
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.scheduler.step()
                self.step += 1
                each(self.step)
                if self.step == until:
                    break

    def everything(self) -> dict[str, Any]:
        """This rank's own: shards stay shards."""
        state: dict[str, Any] = {"random": torch.rand(3), "lr": self.scheduler.get_last_lr()}
        state["seen"] = self.seen
        for name, tensor in self.model.state_dict().items():
            state[name] = local(tensor).clone()
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for i, parameter in enumerate(parameters):
            for key, value in states(self.optimizer).get(parameter, {}).items():
                state[f"{i}.{key}"] = local(value).clone()
        return state


def local(tensor: Any) -> Any:
    return getattr(tensor, "_local_tensor", tensor)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)


def zero(parameters: Any) -> torch.optim.Optimizer:
    return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=1e-2)


def states(optimizer: Any) -> Any:
    return getattr(optimizer, "optim", optimizer).state


def owned(optimizer: Any) -> set[int]:
    groups = getattr(optimizer, "optim", optimizer).param_groups
    return {id(parameter) for group in groups for parameter in group["params"]}


def sharded(model: nn.Module, mesh: Any) -> nn.Module:
    fully_shard(model.middle, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp2(model: nn.Module) -> nn.Module:
    return sharded(model, init_device_mesh("cpu", (dist.get_world_size(),)))


def hsdp(model: nn.Module) -> nn.Module:
    """Two copies, each in shards."""
    shape = (2, dist.get_world_size() // 2)
    return sharded(model, init_device_mesh("cpu", shape, mesh_dim_names=("copy", "shard")))


def tp(model: nn.Module) -> nn.Module:
    """Tensor parallel by two, and FSDP2 over the rest; what the plan leaves out has no mesh but
    FSDP2's."""
    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
    plan = {"middle": ColwiseParallel(), "out": RowwiseParallel()}
    parallelize_module(model, mesh["tensor"], plan)
    return sharded(model, mesh["data"])


def fsdp1(model: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))


WRAPS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "plain": lambda model: model,
    "ddp": DistributedDataParallel,
    "fsdp2": fsdp2,
    "fsdp1": fsdp1,
    "hsdp": hsdp,
    "tp": tp,
    "zero": DistributedDataParallel,
}


def cases(world: int) -> dict[str, Callable[[], Case]]:
    if world == 1 and not dist.is_initialized():
        return {
            "adamw": lambda: Case(lambda m: m, adamw, norm=nn.BatchNorm1d),
            "sgd": lambda: Case(lambda m: m, sgd),
            "bf16": lambda: Case(lambda m: m, adamw, torch.bfloat16),
        }
    found = {
        "ddp": lambda: Case(DistributedDataParallel, adamw, norm=nn.BatchNorm1d),
        "fsdp2": lambda: Case(fsdp2, adamw),
    }
    if world == 2:
        found["fsdp2 sgd"] = lambda: Case(fsdp2, sgd)
        found["fsdp1"] = lambda: Case(fsdp1, adamw)
        found["zero"] = lambda: Case(DistributedDataParallel, zero)
    if world == 4:
        found["fsdp2 bf16"] = lambda: Case(fsdp2, adamw, torch.bfloat16)
        found["hsdp"] = lambda: Case(hsdp, adamw)
        found["tp"] = lambda: Case(tp, adamw, alike=2)
    return found


# Modes. Each runs on all ranks and returns what it found.


def train(directory: Path, rank: int, world: int) -> dict[str, str]:
    """The uninterrupted runs; then halves of them, the last of which is killed while it saves."""
    meet(directory / "train", rank, world)
    for name, make in cases(world).items():
        straight = make()
        straight.train(2 * HALF)
        torch.save(straight.everything(), directory / f"{name} {rank}.pt")
        half = make()
        checkpointer = half.attach(directory / name)

        def each(step: int) -> None:
            handle = checkpointer.save(step)
            if step == HALF:
                handle.wait(60)

        half.train(HALF, each)
        if name != list(cases(world))[-1]:
            half.train(HALF + 2)
            checkpointer.close()
            continue
        # Without a wait: what is in flight when the kill comes may be lost, and what is not is not.
        for _ in range(2):
            half.train(half.step + 1)
            checkpointer.save(half.step)
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def resume(directory: Path, rank: int, world: int) -> dict[str, str]:
    meet(directory / "resume", rank, world)
    found = {}
    for name, make in cases(world).items():
        case = make()
        with case.attach(directory / name) as checkpointer:
            loaded = checkpointer.load()
            assert loaded is not None
            case.step = loaded.step
            case.train(2 * HALF)
        expected = torch.load(directory / f"{name} {rank}.pt")
        expected["seen"] = expected["seen"][-len(case.seen) :]
        state = case.everything()
        wrong = [
            key
            for key in expected.keys() | state.keys()
            if key not in state or key not in expected or not same(state[key], expected[key])
        ]
        what = f"different: {sorted(wrong)}" if wrong else "same"
        found[name] = f"{what} from step {loaded.step} {loaded.findings}"
    return found


def same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def reshape(directory: Path, rank: int, world: int) -> dict[str, str]:
    """Every world saves, by engines of each rank; every world loads what each saved, by one engine
    for all ranks."""
    found = {}
    barrier = dist.FileStore(str(directory / "barrier"), world)
    for turn in ("save", "load"):
        if turn == "load":
            os.environ["SHANTY_CKPT_SOCKET"] = socket_name(directory)
        for size in KINDS:
            if rank < size:
                meet(directory / f"{turn} {size}", rank, size, alone=True)
                for kind in KINDS[size]:
                    if turn == "save":
                        save_known(directory / f"{kind} {size}", kind)
                    else:
                        found.update(load_all(directory, kind, size))
                dist.destroy_process_group()
            barrier.add(f"{turn} {size}", 1)
            while barrier.add(f"{turn} {size}", 0) < world:
                time.sleep(0.05)
    return found


def load_all(directory: Path, kind: str, size: int) -> dict[str, str]:
    expected, case = known(kind, True), known(kind, False)
    found = {}
    for saving, kinds in KINDS.items():
        for saved in kinds:
            if exchanged(saved, saving, kind, size):
                loaded = load_known(directory / f"{saved} {saving}", expected, case)
                found[f"{saved} {saving} into {kind} {size}"] = loaded
    return found


def exchanged(saved: str, saving: int, kind: str, size: int) -> bool:
    """All pairs of worlds, by way of FSDP2."""
    both, worlds = {saved, kind}, {saving, size}
    if both == {"zero"}:
        return True
    return "fsdp2" in both and (both <= {"plain", "ddp", "fsdp2"} or bool(worlds & FEW_WORLDS))


def epoch(directory: Path, rank: int, world: int) -> dict[str, list[int]]:
    """An epoch whose every leg is trained by another number of ranks. Returns the samples that this
    rank took part with."""
    barrier = dist.FileStore(str(directory / "barrier"), world)
    seen: dict[str, list[int]] = {"ddp": [], "fsdp2": []}
    consumed = 0
    for leg, (size, steps) in enumerate(LEGS):
        if rank < size:
            meet(directory / f"leg {leg}", rank, size, alone=True)
            for kind in seen:
                seen[kind] += one_leg(directory / kind, WRAPS[kind], consumed, steps)
            dist.destroy_process_group()
        consumed += size * steps * ACCUMULATE * BATCH
        barrier.add(f"leg {leg}", 1)
        while barrier.add(f"leg {leg}", 0) < world:
            time.sleep(0.05)
    return seen


def one_leg(
    directory: Path, wrap: Callable[[nn.Module], nn.Module], consumed: int, steps: int
) -> list[int]:
    case = Case(wrap, adamw, samples=sum(n * m for n, m in LEGS) * ACCUMULATE * BATCH)
    saved = directory.with_suffix(".sha256")
    with case.attach(directory) as checkpointer:
        loaded = checkpointer.load()
        if loaded is not None:
            case.step = loaded.step
            assert digest(case) == saved.read_text(), "the tensors differ from those saved"
        assert (loaded.samples if loaded is not None else 0) == consumed
        case.train(case.step + steps)
        checkpointer.save(case.step).wait(60)
        content = digest(case)
        if not dist.get_rank():
            saved.write_text(content)
    return case.seen


def digest(case: Case) -> str:
    """Of all whole tensors, the same on each rank."""
    everything = list(case.model.state_dict().values())
    for parameter in case.model.parameters():
        everything += [value for _, value in sorted(case.optimizer.state[parameter].items())]
    text = hashlib.sha256()
    for tensor in everything:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        text.update(whole.detach().contiguous().numpy().tobytes())
    return text.hexdigest()


def reshape_save(directory: Path, rank: int, world: int) -> dict[str, str]:
    meet(directory / "save", rank, world)
    for kind in ("ddp", "fsdp2"):
        save_known(directory / f"{kind} {world}", kind)
    return {}


def differ(directory: Path, rank: int, world: int) -> dict[str, str]:
    """Ranks with other tensors under the same names, and how each way to save them ends."""
    meet(directory / "save", rank, world)
    found = {}
    for case, replicas in (("auto", "auto"), ("first", "first"), ("stages", None)):
        torch.manual_seed(rank)
        model = nn.Linear(300, 300)
        before = model.weight.detach().clone()
        named = {f"stage{rank}": model} if case == "stages" else model
        with shanty.Checkpointer(directory / case, replicas=replicas).attach(named) as checkpointer:
            try:
                checkpointer.save(1).wait(60)
            except shanty.CheckpointError as error:
                found[case] = str(error)
                continue
            nn.init.zeros_(model.weight)
            assert checkpointer.load() is not None
        if case == "first":
            torch.manual_seed(0)
            before = nn.Linear(300, 300).weight.detach()
        found[case] = "same" if torch.equal(model.weight, before) else "other"
    return found


def known(kind: str, fill: bool) -> Case:
    """Without training: tensors are filled by their names, whatever the world."""
    plain = Net(nn.LayerNorm)
    values = {name: value_of(name, p.shape) for name, p in plain.named_parameters()}
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(values[name] if fill else 0)
    optimizer = zero if kind == "zero" else adamw
    case = Case(lambda _: WRAPS[kind](plain), optimizer, samples=64)
    if fill:
        # A step would change all; its moments are filled from the shards of parameters.
        for parameter in case.model.parameters():
            if not local(parameter).numel() and kind == "fsdp1":
                continue
            if id(parameter) not in owned(case.optimizer):
                continue
            states(case.optimizer)[parameter] = {
                "step": torch.tensor(7.0),
                "exp_avg": parameter.detach() * 2,
                "exp_avg_sq": parameter.detach() * 3,
            }
    return case


def value_of(name: str, shape: Any) -> Any:
    count = shape.numel()
    return (torch.arange(count, dtype=torch.float32) + sum(name.encode()) % 97).reshape(shape)


def save_known(directory: Path, kind: str) -> None:
    with known(kind, True).attach(directory) as checkpointer:
        checkpointer.save(3).wait(60)


def load_known(directory: Path, expected: Case, case: Case) -> str:
    states(case.optimizer).clear()
    with torch.no_grad():
        for parameter in case.model.parameters():
            local(parameter).zero_()
    with case.attach(directory) as checkpointer:
        loaded = checkpointer.load()
    assert loaded is not None and loaded.source == "disk"
    pairs = list(zip(expected.model.parameters(), case.model.parameters()))
    for one, other in pairs:
        if not torch.equal(local(one), local(other)):
            return "parameters differ"
        a, b = states(expected.optimizer).get(one, {}), states(case.optimizer).get(other, {})
        if a.keys() != b.keys() or not all(torch.equal(local(a[k]), local(b[k])) for k in a):
            return "the optimizer's state differs"
    return "same"


def meet(path: Path, rank: int, world: int, alone: bool = False) -> None:
    if world > 1 or alone:
        dist.init_process_group(
            "gloo", init_method=f"file://{path}.met", rank=rank, world_size=world
        )


def socket_name(directory: Path) -> str:
    return f"shanty-test-{directory}"


def start_engine(directory: Path) -> None:
    """One for all ranks, as an agent starts it; it ends with this process."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + socket_name(directory))
        listener.listen(max(KINDS))
        command = [os.environ["SHANTY_BINARY"], "ckpt-engine", "--listen-fd"]
        parent = ["--parent-pid", str(os.getpid())]
        fd = listener.fileno()
        subprocess.Popen([*command, str(fd), *parent], pass_fds=[fd], stdout=subprocess.DEVNULL)


def run_rank(mode: str, directory: Path, rank: int, world: int) -> int:
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(HANG_LIMIT_S, exit=True)
    try:
        found = globals()[mode](directory, rank, world)
        (directory / f"{mode} {rank}.json").write_text(json.dumps(found))
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()


def main() -> int:
    mode, world, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if mode == "reshape":
        start_engine(directory)
    pids = []
    for rank in range(world):
        pid = os.fork()
        if not pid:
            os._exit(run_rank(mode, directory, rank, world))
        pids.append(pid)
    codes, left = {}, set(pids)
    while left:
        pid, status = os.wait()
        left.discard(pid)
        codes[pid] = os.waitstatus_to_exitcode(status)
        if codes[pid] == 1:
            # The others would wait for it.
            for other in left:
                os.kill(other, signal.SIGKILL)
    found: dict[str, list[str]] = {}
    for path in sorted(directory.glob(f"{mode} *.json")):
        for key, value in json.loads(path.read_text()).items():
            found.setdefault(key, []).append(value)
    print(json.dumps({"codes": [codes[pid] for pid in pids], "found": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
