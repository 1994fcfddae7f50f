"""`make bench-ckpt`: shanty's checkpoints next to their peers', from one run on this machine.

    python bench/ckpt.py [--state small|medium|one|many|frozen ...] [--peer NAME ...]
                         [--directory DIR] [--repeats N]

Each save is made durable: peers that do not sync are followed by an fsync of every file and of its
directory. What is measured of a save, in a loop of equal steps of arithmetic on one thread: how
long the call blocks, how much longer the steps take until it is durable (summed: "slowdown"), and
the time until it is durable. A load ends when the model has the values: what gives them in tensors of
its own is copied from, but for the optimizer's, which takes those over. Peers take turns; medians are printed. Ceilings come first. Peers that
`make bench-peers` installs are left out, with the reason, where they are missing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("SHANTY_BINARY", str(ROOT / "build/shanty"))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")

import ckpt_ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

GB = 1e9
STEP_S = 0.25
BASELINE_STEPS = 8
LIMIT_S = 600
PEERS = ROOT / "build/bench-peers"
sys.path.append(str(PEERS))


# States.


def gpt2(layers: int, width: int) -> list[tuple[int, ...]]:
    """The parameter shapes of a GPT-2, tied head."""
    shapes: list[tuple[int, ...]] = [(50257, width), (1024, width)]
    for _ in range(layers):
        shapes += [(width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,)]
        shapes += [(width,), (width,), (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    return [*shapes, (width,), (width,)]


class Parameters(torch.nn.Module):
    def __init__(self, shapes: list[tuple[int, ...]], trained: float = 1.0) -> None:
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.randn(shape) for shape in shapes)
        for part in list(self.parts)[int(trained * len(shapes)) :]:
            part.requires_grad_(False)


def make_state(name: str) -> tuple[Parameters, torch.optim.Optimizer]:
    shapes, trained = {
        "small": (gpt2(12, 768), 1.0),
        "medium": (gpt2(24, 1024), 1.0),
        "layers": (gpt2(2, 768), 1.0),
        "one": ([(1 << 15, 1 << 15)], 0.0),
        "many": ([(1024,)] * 50_000, 0.0),
        "frozen": (gpt2(12, 768)[::-1], 0.1),
    }[name]
    model = Parameters(shapes, trained)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for part in model.parts:
        if part.requires_grad:
            optimizer.state[part] = {
                "step": torch.tensor(1.0),
                "exp_avg": torch.randn_like(part),
                "exp_avg_sq": torch.rand_like(part),
            }
    return model, optimizer


def tensors_of(model: Parameters, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = {f"model.{k}": v for k, v in model.state_dict().items()}
    for i, part in enumerate(model.parts):
        for key, value in optimizer.state.get(part, {}).items():
            state[f"optim.{i}.{key}"] = value
    return state


def bytes_of(state: dict[str, torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in state.values())


# Ceilings.


def ceilings(directory: Path) -> dict[str, float]:
    """GB/s."""
    size = 1 << 30
    source, target = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    torch.set_num_threads(1)
    found = {"memcpy, 1 thread": size / GB / best(lambda: target.copy_(source), 5)}
    torch.set_num_threads(2)
    found["memcpy, 2 threads"] = size / GB / best(lambda: target.copy_(source), 5)
    torch.set_num_threads(1)
    fresh = best(lambda: torch.empty(size, dtype=torch.uint8).copy_(source), 2)
    found["memcpy into fresh pages"] = size / GB / fresh
    for name, how in (("write", "write"), ("read", "read")):
        rate = fio(directory, how)
        if rate:
            found[f"disk {name} (fio, O_DIRECT, 4 MiB x 8)"] = rate
    return found


def best(run: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def fio(directory: Path, how: str) -> float:
    if shutil.which("fio") is None:
        return 0.0
    path = directory / "fio.bin"
    command = ["fio", "--name=x", f"--filename={path}", f"--rw={how}", "--bs=4M", "--size=2g",
               "--iodepth=8", "--ioengine=libaio", "--direct=1", "--output-format=json"]
    if how == "write":
        command.append("--end_fsync=1")
    out = subprocess.run(command, capture_output=True, text=True)
    if how == "read":
        path.unlink(missing_ok=True)
    if out.returncode:
        return 0.0
    return json.loads(out.stdout)["jobs"][0][how]["bw_bytes"] / GB


# Peers. Each is (save, wait): save returns when training may go on, wait when it is durable.


def sync_tree(path: Path) -> None:
    for directory, _, files in os.walk(path) if path.is_dir() else [(str(path.parent), [], [path.name])]:
        for name in [*(os.path.join(directory, f) for f in files), directory]:
            fd = os.open(name, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


class TorchSave:
    name = "torch.save + fsync"

    def __init__(self, state: dict[str, torch.Tensor], directory: Path) -> None:
        self.state, self.directory = state, directory

    def save(self, step: int) -> None:
        self.path = self.directory / f"{step}.pt"
        torch.save(self.state, self.path)
        sync_tree(self.path)

    def wait(self) -> None:
        pass

    def load(self) -> int:
        return self.take(torch.load(self.path, weights_only=True))

    def take(self, loaded: dict[str, torch.Tensor]) -> int:
        """As load_state_dict of a model and of an optimizer do."""
        with torch.no_grad():
            for name, tensor in loaded.items():
                if name.startswith("model."):
                    self.state[name].copy_(tensor)
        return bytes_of(loaded)


class Safetensors(TorchSave):
    name = "safetensors + fsync"

    def save(self, step: int) -> None:
        from safetensors.torch import save_file

        self.path = self.directory / f"{step}.safetensors"
        save_file(self.state, self.path)
        sync_tree(self.path)

    def load(self) -> int:
        from safetensors.torch import load_file

        # Mapped pages count once they are read.
        loaded = load_file(self.path).items()
        return self.take({k: v if k.startswith("model.") else v.clone() for k, v in loaded})


class Dcp(TorchSave):
    name = "DCP save + fsync"

    def save(self, step: int) -> None:
        self.path = self.directory / str(step)
        dcp.save(self.state, checkpoint_id=str(self.path))
        sync_tree(self.path)

    def load(self) -> int:
        dcp.load(self.state, checkpoint_id=str(self.path))
        return bytes_of(self.state)


class DcpAsync(Dcp):
    name = "DCP async, thread"
    kind = "THREAD"

    def save(self, step: int) -> None:
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

        self.path = self.directory / str(step)
        kind = getattr(AsyncCheckpointerType, self.kind)
        self.future = dcp.async_save(
            self.state, checkpoint_id=str(self.path), async_checkpointer_type=kind
        )

    def wait(self) -> None:
        self.future.result()
        sync_tree(self.path)


class DcpProcess(DcpAsync):
    name = "DCP async, process"
    kind = "PROCESS"


class TorchCheckpointing(Dcp):
    """Its direct writes fail on ext4 with EINVAL, its pinned memory needs a GPU."""

    name = "torch_checkpointing"

    def __init__(self, state: dict[str, torch.Tensor], directory: Path) -> None:
        import torch_checkpointing as peer
        from torch_checkpointing.staging import CheckpointStagerConfig
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        logging.getLogger("torch_checkpointing").setLevel(logging.WARNING)
        super().__init__(state, directory)
        staging = CheckpointStagerConfig(use_pinned_memory=False, use_non_blocking_copy=False)
        self.manager = peer.CheckpointManager.Config(
            save=peer.AsyncCheckpointSaverConfig(staging_config=staging),
            storage_config=LocalFileSystemStorageConfig(use_direct_io=False),
        ).build()

    def save(self, step: int) -> None:
        self.path = self.directory / f"peer-{step}"
        self.future = self.manager.save(str(self.path), {"state": self.state})

    def wait(self) -> None:
        self.future.result()
        sync_tree(self.path)

    def load(self) -> int:
        self.manager.load(str(self.path), into={"state": self.state})
        return bytes_of(self.state)

    def close(self) -> None:
        self.manager.close()


class Dlrover(TorchSave):
    """Without dlrover-run; what it has in memory is dropped before it loads."""

    name = "DLRover flash"

    def __init__(self, state: dict[str, torch.Tensor], directory: Path) -> None:
        # Sockets of its own: it leaves them behind.
        os.environ["ELASTIC_JOB_NAME"] = f"bench-{os.getpid()}-{directory.name}"
        os.environ.setdefault("DLROVER_LOG_LEVEL", "ERROR")
        from dlrover.trainer.torch.flash_checkpoint import ddp

        super().__init__(state, directory)
        self.disk = ddp.StorageType.DISK
        self.checkpointer = ddp.DdpCheckpointer(str(self.directory))

    def save(self, step: int) -> None:
        self.step, self.path = step, self.directory / f"{step}.pt"
        self.checkpointer.save_checkpoint(
            step, {"state": self.state}, path=str(self.path), storage_type=self.disk
        )

    def wait(self) -> None:
        tracker, end = self.directory / "dlrover_latest.txt", time.monotonic() + LIMIT_S
        while not tracker.exists() or tracker.read_text() != str(self.step):
            if time.monotonic() > end:
                raise TimeoutError("its tracker file does not come")
            time.sleep(0.005)
        sync_tree(self.path)

    def load(self) -> int:
        return self.take(torch.load(self.path, weights_only=True)["state"])


class Shanty:
    name = "shanty"

    def __init__(
        self, model: Parameters, optimizer: torch.optim.Optimizer, directory: Path
    ) -> None:
        from shanty import Checkpointer

        self.size = bytes_of(tensors_of(model, optimizer))
        self.checkpointer = Checkpointer(directory / "shanty", keep=2)
        self.checkpointer.attach(model=model, optimizer=optimizer)
        self.fence = self.checkpointer.fence

    def save(self, step: int) -> None:
        self.handle = self.checkpointer.save(step)

    def wait(self) -> None:
        self.handle.wait(LIMIT_S)

    def load(self) -> int:
        found = self.checkpointer.load()
        assert found is not None
        self.source = found.source
        return self.size


# The loop.


class Steps:
    """Equal steps of arithmetic, about STEP_S each."""

    def __init__(self) -> None:
        self.a = torch.randn(512, 512)
        self.count = 1
        self.count = max(1, round(STEP_S / best(lambda: [self.run() for _ in range(5)], 3) * 5))

    def run(self) -> float:
        begin = time.perf_counter()
        for _ in range(self.count):
            self.a @ self.a
        return time.perf_counter() - begin


def measure_save(peer: Any, steps: Steps, number: int) -> dict[str, float]:
    baseline = statistics.median(steps.run() for _ in range(BASELINE_STEPS))
    begin = time.perf_counter()
    peer.save(number)
    blocked = time.perf_counter() - begin
    done = threading.Event()
    failure: list[BaseException] = []

    def wait() -> None:
        try:
            peer.wait()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=wait).start()
    fence = getattr(peer, "fence", lambda: None)
    slow, fenced = blocked, 0.0
    while not done.is_set():
        took = steps.run()
        at = time.perf_counter()
        fence()
        fenced += time.perf_counter() - at
        slow += took - baseline
    durable = time.perf_counter() - begin
    if failure:
        raise failure[0]
    return {"blocked": blocked, "fence": fenced, "slowdown": slow + fenced, "durable": durable}


def drop_cache() -> bool:
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        return True
    except OSError:
        return False


def make_peers(
    names: list[str], state: dict[str, torch.Tensor], directory: Path
) -> list[Any]:
    peers: list[Any] = []
    for kind in (TorchSave, Safetensors, Dcp, DcpAsync, DcpProcess, TorchCheckpointing, Dlrover):
        if names and not any(name in kind.name for name in names):
            continue
        place = directory / kind.__name__
        place.mkdir()
        try:
            peers.append(kind(state, place))
        except Exception as error:
            print(f"  {kind.name} does not run here: {type(error).__name__}: {error}", flush=True)
    return peers


def run_state(name: str, directory: Path, repeats: int, names: list[str]) -> list[dict[str, Any]]:
    model, optimizer = make_state(name)
    state = tensors_of(model, optimizer)
    size = bytes_of(state)
    print(f"\n{name}: {len(state)} tensors, {size / GB:.2f} GB", flush=True)
    steps = Steps()
    peers: list[Any] = [Shanty(model, optimizer, directory)]
    peers += make_peers(names, state, directory)
    rows: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in peers}
    for repeat in range(repeats + 1):
        for peer in list(peers):
            try:
                figures = measure_save(peer, steps, repeat + 1)
            except Exception as error:
                print(f"  {peer.name} does not run here: {type(error).__name__}: {error}")
                peers.remove(peer)
                continue
            # The first warms up: caches, arenas, staging buffers, processes.
            if repeat:
                rows[peer.name].append(figures)
            if peer.name != "shanty" and repeat < repeats:
                path = peer.path
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = []
    columns = f"{'':24} {'blocks':>9} {'fence':>8} {'slowdown':>9} {'durable':>9} {'GB/s':>6}"
    print(f"  {columns} {'load':>8} {'cold':>8}")
    for peer in peers:
        median = {k: statistics.median(r[k] for r in rows[peer.name]) for k in rows[peer.name][0]}
        loads = {}
        if peer.name == "shanty":
            peer.checkpointer.close()
            peer = Shanty(model, optimizer, directory)  # an engine that has nothing in memory
        for kind in ("warm", "cold"):
            times = []
            for _ in range(2):
                if kind == "cold" and not drop_cache():
                    break
                begin = time.perf_counter()
                peer.load()
                times.append(time.perf_counter() - begin)
            loads[kind] = min(times) if times else float("nan")
        if peer.name == "shanty":
            assert peer.source == "disk"
            peer.checkpointer.close()
        elif hasattr(peer, "close"):
            peer.close()
        print(
            f"  {peer.name:24} {median['blocked'] * 1e3:6.0f} ms {median['fence'] * 1e3:5.0f} ms"
            f" {median['slowdown']:7.2f} s {median['durable']:7.2f} s"
            f" {size / GB / median['durable']:6.2f} {loads['warm']:6.2f} s {loads['cold']:6.2f} s",
            flush=True,
        )
        result.append({"state": name, "peer": peer.name, **median, **loads, "bytes": size})
    return result


def bench_list(directory: Path) -> None:
    """A thousand checkpoints, small ones, listed."""
    from shanty import Checkpointer

    root = directory / "thousand"
    model = torch.nn.Linear(4, 4)
    with Checkpointer(root, keep=2000) as checkpointer:
        checkpointer.attach(model=model)
        checkpointer.save(0).wait(LIMIT_S)
    first = next(root.glob("step-*"))
    for step in range(1, 1000):
        # A copy under another name is damaged by its manifest; listing reads as much of it.
        shutil.copytree(first, root / f"step-{step:09}.g0000.a01")
    took = best(lambda: subprocess.run([os.environ["SHANTY_BINARY"], "ckpt", "ls", str(root)],
                                       stdout=subprocess.DEVNULL), 5)
    print(f"\n  1000 checkpoints listed in {took * 1e3:.0f} ms (to reach: 50 ms)")


def bench_ranks(directory: Path) -> None:
    """What two ranks of one node cost the storage."""
    place = directory / "ranks"
    place.mkdir()
    found = ckpt_ranks.measure(os.environ["SHANTY_BINARY"], place, drop_cache)
    for source in ("memory", "disk"):
        one = found[source]
        assert one["source"] == source, one
        print(
            f"\n  two killed ranks load from {source}: {one['seconds']:.2f} s, the engine read "
            f"{one['bytes_read'] / 1e6:.1f} MB of the storage",
            end="",
        )
    where = "" if found["cold"] else " (the page cache could not be dropped)"
    print(f": {found['disk']['amplification']:.3f} times what is there{where}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    states = ["small", "medium", "one", "many", "frozen"]
    parser.add_argument("--state", nargs="*", default=["small"], choices=states)
    parser.add_argument("--peer", nargs="*", default=[], help="only those whose name has one of these")
    parser.add_argument("--directory", type=Path, help="on the storage to measure")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rows: list[dict[str, Any]] = []
    where = arguments.directory or Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="shanty-bench-ckpt-", dir=where) as text:
        directory = Path(text)
        print("ceilings, GB/s")
        for what, rate in ceilings(directory).items():
            print(f"  {what:44} {rate:6.2f}", flush=True)
        for name in arguments.state:
            place = directory / name
            place.mkdir()
            rows += run_state(name, place, arguments.repeats, arguments.peer)
            shutil.rmtree(place)
        bench_ranks(directory)
        bench_list(directory)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
