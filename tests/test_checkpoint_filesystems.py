"""Checkpoints on file systems of their own: an ext4 whose power is cut while saves go on, two
clients with caches that know nothing of each other, and one that is full."""

import concurrent.futures
import itertools
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conftest import LIMIT_S, ROOT, SHANTY, wait_until
from test_checkpoint_kills import FLOATS, Engine, newest

PASSTHROUGH = ROOT / "build" / "tests" / "passthrough"
DISK_MIB = 48
CUTS = 12
# What another client does is seen after so long that no test takes.
STALE = ",".join(f"{kind}_timeout={2 * LIMIT_S}" for kind in ("attr", "entry", "negative"))


class Client:
    """A mount namespace in which `directory` is also at `point`, through a cache of its own."""

    def __init__(self, directory: Path, point: Path, options: str = "default_permissions"):
        command = ["unshare", "-m", PASSTHROUGH, directory, point, "-o", options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        self.inside = ("nsenter", "-m", "-t", str(self.process.pid))
        mounts = Path(f"/proc/{self.process.pid}/mounts")

        def is_there() -> bool:
            if self.process.poll() is not None:
                raise OSError(self.process.stderr.read().decode().strip())
            return f" {point} fuse" in mounts.read_text()

        wait_until(is_there, "the mount is there")

    def run(self, *command: object, check: bool = True) -> int:
        return subprocess.run([*self.inside, *map(str, command)], check=check).returncode

    def stop(self):
        """Between two operations: nothing is written any more."""
        os.kill(self.process.pid, signal.SIGSTOP)
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it stops")

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        self.go_on()
        self.process.terminate()
        self.process.wait(LIMIT_S)


def fuse_problem() -> str:
    if os.geteuid() != 0:
        return "only root may mount"
    if not PASSTHROUGH.exists():
        return "libfuse3-dev was not there when tests/fuse was built"
    with tempfile.TemporaryDirectory() as under, tempfile.TemporaryDirectory() as point:
        try:
            Client(under, point).end()
        except OSError as error:
            return f"FUSE may not be mounted here: {error}"
    return ""


def loop_problem() -> str:
    if not shutil.which("mkfs.ext4"):
        return "there is no mkfs.ext4"
    found = subprocess.run(["losetup", "-f"], capture_output=True, text=True)
    return f"no loop devices here: {found.stderr.strip()}" if found.returncode else ""


NO_FUSE, NO_LOOP = fuse_problem(), loop_problem()
needs_fuse = pytest.mark.skipif(bool(NO_FUSE), reason=NO_FUSE)
needs_loop = pytest.mark.skipif(bool(NO_LOOP), reason=NO_LOOP)


@pytest.fixture
def quick_path():
    """In memory, where a sync costs nothing."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


@pytest.fixture
def client(quick_path):
    """client(directory, point, options) -> Client."""
    clients = []

    def make(*args) -> Client:
        clients.append(Client(*args))
        return clients[-1]

    yield make
    for one in clients:
        one.end()


class Saves(threading.Thread):
    """Saves step after step until told to stop."""

    def __init__(self, root: Path, inside: tuple[str, ...]):
        super().__init__()
        self.root, self.inside = root, inside
        self.begun = self.promised = 0
        self.enough = threading.Event()
        self.failed = False

    def run(self):
        for step in itertools.count(1):
            if self.enough.is_set():
                return
            self.begun = step
            engine = Engine(inside=self.inside)
            self.failed = not engine.save(self.root, step)
            engine.end()
            if self.failed:
                return
            self.promised = step


@needs_fuse
@needs_loop
def test_an_ext4_that_loses_power_has_all_that_was_promised(quick_path, client):
    under, shown, root = (quick_path / name for name in ("under", "shown", "root"))
    for path in (under, shown, root):
        path.mkdir()
    subprocess.run(["truncate", "-s", f"{DISK_MIB}M", under / "disk"], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", under / "disk"], check=True)
    device = client(under, shown)
    device.run("mount", "-o", "loop", shown / "disk", root)
    saves = Saves(root / "ckpt", device.inside)
    saves.start()
    wait_until(lambda: saves.promised or saves.failed, "a first save is committed")
    for cut in range(CUTS):
        begun = saves.begun
        wait_until(lambda: saves.begun > begun or saves.failed, "the next save begins")
        time.sleep(0.01 * cut)  # any moment of it will do
        promised = saves.promised
        device.stop()
        begun = saves.begun
        shutil.copyfile(under / "disk", quick_path / "copy")
        device.go_on()
        check_copy(quick_path / "copy", promised, begun)
    saves.enough.set()
    saves.join()
    device.run("umount", root)
    assert not saves.failed and saves.promised > CUTS


def check_copy(disk: Path, promised: int, begun: int):
    """The journal is replayed by the mount; then a save must go on from there."""
    point = disk.with_suffix(".mounted")
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", disk, point], check=True)
    try:
        step, directory = newest(point / "ckpt")
        assert promised <= step <= begun, (promised, step, begun)
        shard = next(Path(directory).glob("model/*.safetensors")).read_bytes()
        assert shard[-4 * FLOATS :] == struct.pack("<f", step) * FLOATS
        engine = Engine()
        assert engine.save(point / "ckpt", begun + 1)
        engine.end()
        assert newest(point / "ckpt")[0] == begun + 1
    finally:
        subprocess.run(["umount", point], check=True)


class Job:
    """Two ranks, each with an engine at a client of its own."""

    def __init__(self, root: Path, clients: list[Client], generation: int):
        self.engines = [Engine(inside=one.inside) for one in clients]
        self.size = len(clients)
        said = self.engines[0].hello(root, 0, self.size, generation=generation,
                                     address="127.0.0.1", node="0")
        for rank, engine in enumerate(self.engines[1:], 1):
            engine.hello(root, rank, self.size, generation=generation, address="127.0.0.1",
                         node=str(rank))
            engine.ask(op="join", leader=said["leader"], token=said["token"])

    def all_ask(self, **request) -> list[dict]:
        with concurrent.futures.ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(lambda engine: engine.ask(**request), self.engines))

    def save(self, step: int) -> list[str]:
        for engine in self.engines:
            engine.begin_save(step)
        ends = self.all_ask(op="wait", step=step, state="committed", limit_s=LIMIT_S / 2)
        return [end["state"] for end in ends]

    def end(self):
        for engine in self.engines:
            engine.end()


@pytest.fixture
def shared(quick_path):
    """(the real directory, where each client shows it)"""
    under, point = quick_path / "under", quick_path / "point"
    under.mkdir()
    point.mkdir()
    return under, point


@needs_fuse
def test_clients_with_stale_caches_save_and_load_together(shared, client):
    under, point = shared
    clients = [client(under, point, STALE) for _ in range(2)]
    for turn in range(1, 5):
        # Another client leads each time, and has seen the directory as it was before.
        job = Job(point / "ckpt", clients, generation=turn)
        last = 2 * (turn - 1)
        check_load(job, last)
        told = job.all_ask(op="preflight", bytes=4 * FLOATS, nodes=2, limit_s=60)
        errors = [f for answer in told for f in answer["findings"] if f["severity"] == "error"]
        assert not errors
        for step in (last + 1, last + 2):
            assert job.save(step) == ["committed"] * 2
        job.end()
        clients.reverse()
    assert newest(under / "ckpt")[0] == 8
    assert len(list((under / "ckpt").glob("step-*"))) == 2
    # So stale are they: what one has seen to be missing stays so.
    assert clients[0].run("test", "-e", point / "new", check=False) == 1
    clients[1].run("mkdir", point / "new")
    assert clients[0].run("test", "-e", point / "new", check=False) == 1
    assert (under / "new").exists()


def check_load(job: Job, step: int):
    """All ranks find `step` (0: nothing) and read it whole."""
    found = job.all_ask(op="find")
    assert [answer.get("step", 0) for answer in found] == [step] * job.size, found
    if step:
        read = job.all_ask(op="read", wants=[dict(name="w", offsets=[0], shape=[FLOATS])])
        assert all("offsets" in answer for answer in read)
    assert all(answer["all_ok"] for answer in job.all_ask(op="release", ok=True))


@needs_fuse
@pytest.mark.parametrize("moment", ["before its save", "during its save"])
def test_a_client_that_hung_does_not_disturb_its_successor(shared, client, moment):
    under, point = shared
    hung, other = (client(under, point, STALE) for _ in range(2))
    old = Job(point / "ckpt", [hung], generation=1)
    assert old.save(1) == ["committed"]
    if moment.startswith("before"):
        hung.stop()
    old.engines[0].begin_save(2)
    if moment.startswith("during"):
        wait_until(lambda: list((under / "ckpt").glob("*step-000000002*")), "its directory is made")
        hung.stop()
    new = Job(point / "ckpt", [other], generation=2)
    assert new.save(3) == ["committed"]
    hung.go_on()
    try:
        committed = old.engines[0].end_of_save(2)["state"] == "committed"
    except RuntimeError as error:
        committed = False
        assert "generation 2 of run" in str(error) or "No such file" in str(error)
    assert not (committed and moment.startswith("before"))
    step, directory = newest(under / "ckpt")
    assert step == 3 and ".g0002." in directory
    assert committed == bool(list((under / "ckpt").glob("step-000000002*")))
    assert not list((under / "ckpt").glob(".inprogress-*"))
    for job in (old, new):
        job.end()


# Each save is waited for; before the last one, rank 0 makes room.
FILLS = """
    import os, shutil, sys
    import torch, torch.distributed as dist
    from shanty import Checkpointer, CheckpointError

    root, steps = sys.argv[1], 8
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 300))
    optimizer = torch.optim.AdamW(model.parameters())
    checkpointer = Checkpointer(root, keep=100).attach(model=model, optimizer=optimizer)
    for step in range(1, steps + 1):
        model(torch.ones(1, 200)).sum().backward()
        optimizer.step()
        if step == steps:
            if dist.get_rank() == 0:
                first = min(name for name in os.listdir(root) if name.startswith("step-"))
                shutil.rmtree(os.path.join(root, first))
            dist.barrier()
        handle = checkpointer.save(step)
        try:
            handle.wait(60)
        except CheckpointError:
            pass
        print("step", step, handle.error, flush=True)
    checkpointer.close()
    dist.destroy_process_group()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_fails_saves_and_not_the_training(start, script, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", small]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"may not mount: {mounted.stderr.strip()}")
    try:
        run = start("--nproc-per-node", 2, script(FILLS), small / "ckpt").wait()
        assert run.code == 0, run.describe()
        check_full_disk(run, small / "ckpt")
    finally:
        subprocess.run(["umount", small], check=True)


def check_full_disk(run, root: Path):
    said = [run.log(rank).decode() for rank in (0, 1)]
    ends = [[line.split(" ", 2)[2] for line in text.splitlines() if line.startswith("step ")]
            for text in said]
    assert all(len(end) == 8 for end in ends), run.describe()
    fits = ends[0].index(next(end for end in ends[0] if end != "None"))
    assert fits >= 1
    for end in ends:
        assert end[:fits] + end[-1:] == ["None"] * (fits + 1)
        assert all("No space left on device" in error for error in end[fits:-1])
    # The preflight has said that it would come to this.
    assert "checkpoints: warning: " in said[0] and "checkpoints and one being written" in said[0]
    note = f"{7 - fits} checkpoints failed, the last, of step 7: "
    assert any(n.startswith(note) and "No space left" in n for n in run.report()["notes"]), (
        run.describe())
    assert newest(root)[0] == 8
    assert not list(root.glob(".inprogress-*"))
    listed = subprocess.run([SHANTY, "ckpt", "verify", root, "--all", "--json"],
                            capture_output=True, text=True)
    assert listed.returncode == 0, listed.stdout
