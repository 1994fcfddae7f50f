"""shanty doctor on what real torch and the real torchrun print when a job goes wrong (gloo)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import LIMIT_S, SHANTY
from ports import free_port

SCRIPT = Path(__file__).parent / "doctor" / "real_fault.py"
AT_ONCE = 3


@dataclass
class Fault:
    name: str
    classes: set[str]  # right answers
    ranks: set[int] | None = None  # the culprit, where a rank is one
    env: dict = field(default_factory=dict)
    small: str = ""  # a file system of 1 MiB: "shm", "disk"
    launcher: str = "torchrun"
    worlds: tuple[int, ...] = (2, 2)  # WORLD_SIZE as each rank is told, of launcher "ranks"
    options: tuple[str, ...] = ("--nnodes=1", "--node-rank=0")  # of torchrun


FAULTS = [
    Fault("raise", {"rank_died_early"}, {1}),
    Fault("import", {"rank_died_early", "driver_image"}, {1}),
    Fault("shapes", {"collective_desync"}, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    Fault("stopped", {"rank_busy", "process_frozen"}, {1}, launcher="ranks"),
    Fault("late", {"rank_busy"}, {1}, launcher="ranks"),
    Fault("memory", {"host_oom"}, {1}),
    Fault("killed", {"host_oom"}, {1}),
    Fault("shm", {"shm"}, small="shm"),
    Fault("descriptors", {"host_limits"}, {1}),
    Fault("disk", {"checkpoint"}, {0}, small="disk"),
    Fault("truncated", {"checkpoint"}),
    Fault("port", {"port_in_use"}),
    Fault("missing", {"launch_config", "rendezvous_store"}, {2}, launcher="ranks", worlds=(3, 3)),
    Fault("world", {"launch_config"}, {1}, launcher="ranks", worlds=(2, 3)),
    Fault("world-0", {"launch_config"}, {2}, launcher="ranks", worlds=(3, 2)),  # as if rank 2 were missing
    Fault("nodes", {"launch_config", "rendezvous_store"},
          options=("--nnodes=2", "--rdzv-backend=c10d", "--rdzv-conf=join_timeout=6,is_host=1")),
    Fault("static-nodes", {"launch_config", "rendezvous_store"},
          options=("--nnodes=2", "--node-rank=0", "--rdzv-conf=timeout=6")),
    Fault("cgroup", {"host_oom"}, {1}),
    Fault("skew-class", {"driver_image"}, {1}, launcher="ranks"),
    Fault("skew-model", {"driver_image", "launch_config"}, {0, 1}, launcher="ranks"),
    Fault("none", set()),
]


def environment(fault, **more):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **fault.env, **more}
    if fault.launcher == "torchrun":
        env["FAULT_TIMEOUT_S"] = str(LIMIT_S)  # it ends the other ranks; none is to wait in vain
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if name not in more:
            env.pop(name, None)
    return env


def in_small_file_system(fault, directory, command):
    """The command with 1 MiB of /dev/shm or of disk, in a mount namespace of its own."""
    if not fault.small:
        return command
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root to mount a small file system")
    where = "/dev/shm" if fault.small == "shm" else str(directory)
    size = "1m" if fault.small == "shm" else "64k"
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} none {where} && exec "$@"', "-", *command]


# Two releases of a package that ranks share: what rank 0 has, and what is left on the node of rank 1.
RECIPES = [("2.0", """
import torch
class Schedule:
    warmup = 100
def plan():
    return Schedule()
def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False))
"""), ("1.3", """
import torch
def plan():
    return {"warmup": 100}
def model():
    return torch.nn.Linear(4, 4)
""")]


def environment_with(where, recipe):
    """A virtual environment of its own, with this release of `recipe`; torch is that of the tests."""
    version, source = recipe
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True)
    site = next(where.glob("lib/python3*/site-packages"))
    (site / "recipe").mkdir()
    (site / "recipe" / "__init__.py").write_text(source)
    info = site / f"recipe-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: recipe\nVersion: {version}\n")
    (site / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return str(where / "bin" / "python")


@contextlib.contextmanager
def small_cgroup(fault, directory):
    """A control group of our own that the script moves a rank into; left out where none can be made."""
    if fault.name != "cgroup":
        yield
        return
    made = make_memory_cgroup(f"shanty-doctor-{os.getpid()}")
    if not made:
        pytest.skip("no memory control group can be made here; the fault 'memory' covers limits by rlimit")
    group, limit = made
    (directory / "cgroup").write_text(f"{group / 'cgroup.procs'} {group / limit}")
    try:
        yield
    finally:
        group.rmdir()


def make_memory_cgroup(name):
    """Its directory and the name of its limit, in cgroup v2 or v1; None where that is not allowed."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    mine = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup2" and "memory" in (Path(where) / "cgroup.subtree_control").read_text().split():
            parent, limit = Path(where), "memory.max"
        elif kind == "cgroup" and "memory" in options.split(","):
            parent, limit = Path(where) / mine.get("memory", "/").strip("/"), "memory.limit_in_bytes"
        else:
            continue
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            continue
        if os.access(group / limit, os.W_OK):
            return group, limit
        group.rmdir()
    return None


def run_torchrun(fault, directory, logs):
    port, busy = free_port(), None
    if fault.name == "port":
        busy = socket.socket(socket.AF_INET6)
        busy.bind(("::", port))
        busy.listen()
    address = [f"--rdzv-endpoint=localhost:{port}"] if "--rdzv-backend=c10d" in fault.options else [
        "--master-addr=localhost", f"--master-port={port}"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *fault.options, *address,
               "--log-dir", str(logs / "torchrun"), "--tee", "3", str(SCRIPT), fault.name, str(directory)]
    with open(logs / "job.log", "wb") as out:
        subprocess.run(in_small_file_system(fault, directory, command), stdout=out, stderr=subprocess.STDOUT,
                       env=environment(fault), timeout=LIMIT_S, check=False)
    if busy:
        busy.close()


def run_ranks(fault, directory, logs):
    """Ranks without a launcher that would end the others: each has a log of its own."""
    port = free_port()
    pythons = [sys.executable] * len(fault.worlds)
    if fault.name.startswith("skew-"):
        pythons = [environment_with(directory / f"node-{rank}", RECIPES[rank]) for rank in range(2)]
    ranks = []
    for rank, world in enumerate(fault.worlds):
        env = environment(fault, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                          MASTER_ADDR="localhost", MASTER_PORT=str(port), FAULT_STARTED=str(len(fault.worlds)))
        with open(logs / f"rank_{rank}.log", "wb") as out:
            ranks.append(subprocess.Popen([pythons[rank], str(SCRIPT), fault.name, str(directory)], env=env,
                                          stdout=out, stderr=subprocess.STDOUT))
    try:
        for rank, process in enumerate(ranks):
            if fault.name == "stopped" and rank == 1:
                process.kill()  # it stopped itself; rank 0 has given up by now
            process.wait(timeout=LIMIT_S)
    finally:
        for process in ranks:
            process.kill()


@pytest.fixture(scope="module")
def verdicts(request, tmp_path_factory):
    asked = {item.callspec.params["fault"].name for item in request.session.items
             if item.path == request.path and hasattr(item, "callspec")}
    base = tmp_path_factory.mktemp("real")

    def one(fault):
        directory, logs = base / fault.name / "data", base / fault.name / "logs"
        directory.mkdir(parents=True)
        logs.mkdir()
        with small_cgroup(fault, directory):
            (run_torchrun if fault.launcher == "torchrun" else run_ranks)(fault, directory, logs)
        result = subprocess.run([str(SHANTY), "doctor", "--json", str(logs)], capture_output=True, text=True)
        return result.returncode, json.loads(result.stdout)["findings"], logs

    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {fault.name: pool.submit(one, fault) for fault in FAULTS if fault.name in asked}
    return futures


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_finds_real_fault(verdicts, fault):
    code, findings, logs = verdicts[fault.name].result()
    loud = [finding for finding in findings if finding["severity"] != "info"]
    told = json.dumps(loud[:3], indent=1) + "\n" + "\n".join(
        path.read_text(errors="replace")[-3000:] for path in logs.glob("*.log"))
    if not fault.classes:
        assert not loud and code == 0, told
        return
    assert loud and loud[0]["class"] in fault.classes, told
    assert code == 1
    if fault.ranks is not None:
        assert set(loud[0]["subject"]["ranks"]) == fault.ranks, told
