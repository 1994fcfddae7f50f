"""kill -9 of the engine at each of a save's system calls, and an error of each of them, by strace:
what is found afterwards is whole, is one of the saves, and is none older than the last that was
told to be committed."""

import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from conftest import LIMIT_S, SHANTY, wait_until

FLOATS = 64 * 1024
CALLS = ("mkdir", "openat", "pwrite64", "ftruncate", "fdatasync", "fsync", "close", "rename",
         "symlink", "unlink,unlinkat", "rmdir,unlinkat")
MAX_NUMBER = 40
KEEP = 2
ERRORS = (("mkdir", "EDQUOT"), ("openat", "ESTALE"), ("pwrite64", "ENOSPC"), ("ftruncate", "EIO"),
          ("fdatasync", "EIO"), ("fsync", "EIO"), ("close", "ENOSPC"), ("rename", "ESTALE"),
          ("symlink", "EPERM"), ("unlink,unlinkat", "EIO"))


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-D", "-qq", "-o", "/dev/null", "true"],
                          stderr=subprocess.DEVNULL).returncode == 0


needs_strace = pytest.mark.skipif(not strace_works(), reason="strace may not trace here")


class Engine:
    """An engine that meets `fault` (which is a death) at the `number`-th `call` of one of its
    threads, and one of its trainers. `inside`: a command that runs the engine elsewhere. strace
    writes to `trace`."""

    def __init__(self, call: str = "", number: int = 0, inside: tuple[str, ...] = (),
                 fault: str = "signal=SIGKILL", trace="/dev/null"):
        name = f"shanty-test-{os.getpid()}-{time.time_ns()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen(1)
            command = [str(SHANTY), "ckpt-engine", "--listen-fd", str(listener.fileno()),
                       "--parent-pid", str(os.getpid())]
            if call:
                command = ["strace", "-D", "-f", "-qq", "-I", "2", "-o", str(trace),
                           "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={number}",
                           *command]
            self.process = subprocess.Popen([*inside, *command], pass_fds=[listener.fileno()],
                                            stderr=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("\0" + name)
        self.socket.settimeout(LIMIT_S)

    def ask(self, **request) -> dict:
        body = json.dumps(request).encode()
        self.socket.sendall(struct.pack("<I", len(body)) + body)
        head = self._exactly(4)
        answer = json.loads(self._exactly(struct.unpack("<I", head)[0]))
        if "error" in answer and answer["error"]:
            raise RuntimeError(answer["error"])
        return answer

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the engine has ended")
            data += part
        return data

    def hello(self, root, rank: int = 0, world_size: int = 1, **other) -> dict:
        """`other` has at least the generation."""
        self.rank, self.world_size = rank, world_size
        return self.ask(op="hello", protocol=1, root=str(root), rank=rank, world_size=world_size,
                        local_world_size=1, run="test", keep=KEEP, **other)

    def begin_save(self, step: int, still: bool = False):
        """This rank's share of a tensor whose every element is `step`, or of one that is `still`."""
        count = FLOATS // self.world_size
        self.memory = (ctypes.c_float * count)(*([0.0 if still else float(step)] * count))
        layout = self.ask(op="layout", aliases={}, tensors=[dict(
            name="w", group="model", dtype="F32", shape=[FLOATS], offsets=[self.rank * count],
            piece_shape=[count], nbytes=4 * count, mode="pull", still=still)])
        if not layout["pull"]:
            raise RuntimeError("the engine may not read this process")
        slot = self.ask(op="begin", layout=layout["layout"], step=step)["slot"]
        pointer = base64.b64encode(struct.pack("<Q", ctypes.addressof(self.memory))).decode()
        self.ask(op="save", slot=slot, step=step, pointers=pointer, state={},
                 **{"global": {"step": step}})

    def end_of_save(self, step: int, limit_s: float = LIMIT_S / 2) -> dict:
        return self.ask(op="wait", step=step, state="committed", limit_s=limit_s)

    def save(self, root, step: int, still: bool = False) -> bool:
        """Whether it was told to be committed."""
        try:
            self.hello(root, generation=step)
            self.begin_save(step, still)
            return self.end_of_save(step)["state"] == "committed"
        except (OSError, RuntimeError):
            return False

    def let_go(self):
        """No faults any more."""
        status = Path(f"/proc/{self.process.pid}/status")

        def tracer() -> int:
            return int(status.read_text().split("TracerPid:")[1].split()[0])

        if tracer():
            os.kill(tracer(), signal.SIGTERM)
            wait_until(lambda: not tracer(), "strace lets go")

    def end(self) -> bool:
        """Whether it was killed."""
        self.socket.close()
        self.process.terminate()
        return self.process.wait(LIMIT_S) == -9


def names(root) -> list[str]:
    """Of the visible checkpoints."""
    return [path.name for path in root.glob("step*") if path.is_dir()]


def is_pruned(root) -> bool:
    return len(names(root)) <= KEEP and not list((root / ".trash").glob("*"))


def newest(root) -> tuple[int, str]:
    """The step of the newest checkpoint, which must be whole and must be that step's."""
    out = subprocess.run([str(SHANTY), "ckpt", "ls", str(root), "--json"], capture_output=True,
                         text=True, check=True)
    listed = json.loads(out.stdout)["checkpoints"]
    committed = [c for c in listed if c["state"] in ("committed", "milestone")]
    assert not [c for c in listed if c["state"] == "damaged"], listed
    whole = subprocess.run([str(SHANTY), "ckpt", "verify", committed[0]["directory"]],
                           capture_output=True, text=True)
    assert whole.returncode == 0, whole.stdout
    return committed[0]["step"], committed[0]["directory"]


def fill(root) -> int:
    """So many checkpoints that the next one prunes; returns the newest step."""
    for step in range(1, 4):
        engine = Engine()
        assert engine.save(root, step)
        engine.end()
    return step


@needs_strace
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_any_call_of_a_save_loses_nothing_that_was_promised(call, tmp_path):
    root = tmp_path / "ckpt"
    promised, kills = fill(root), 0
    for number in range(1, MAX_NUMBER):
        step = number + 3
        engine = Engine(call, number)
        committed = engine.save(root, step)
        killed = engine.end()
        found, _ = newest(root)
        assert promised <= found <= step, (call, number)
        if committed:
            assert found == step, (call, number)
        promised = found
        kills += killed
        if not killed:
            break
    assert kills >= 1, f"no save makes the call {call}"


@needs_strace
@pytest.mark.parametrize(("call", "error"), ERRORS)
def test_an_error_of_any_call_of_a_save_costs_that_save_at_most(call, error, tmp_path):
    root = tmp_path / "ckpt"
    promised, faults = fill(root), 0
    for number in range(1, MAX_NUMBER):
        trace = tmp_path / f"trace-{number}"
        step = promised + 2
        engine = Engine(call, number, fault=f"error={error}", trace=trace)
        committed = engine.save(root, step)
        found, _ = newest(root)
        assert found == (step if committed else promised), (call, number)
        if committed:
            wait_until(lambda: "INJECTED" in trace.read_text() or is_pruned(root),
                       "what is old is pruned beside what comes next")
        # The same engine goes on.
        if engine.process.poll() is None:
            engine.let_go()
            engine.begin_save(step + 1)
            assert engine.end_of_save(step + 1)["state"] == "committed", (call, number)
            found, _ = newest(root)
            assert found == step + 1
        engine.end()
        promised = found
        if "INJECTED" not in trace.read_text():
            break
        faults += 1
    assert faults >= 1, f"no save makes the call {call}"


@needs_strace
def test_a_kill_at_the_link_of_what_did_not_change_loses_nothing(tmp_path):
    root = tmp_path / "ckpt"
    engine = Engine("link,linkat", 1)
    assert engine.save(root, 1, still=True)
    assert not engine.save(root, 2, still=True)
    assert engine.end()
    assert newest(root)[0] == 1
    engine = Engine()
    assert engine.save(root, 3, still=True) and engine.save(root, 4, still=True)
    engine.end()
    step, directory = newest(root)
    (shard,) = (root / directory / "model").iterdir()
    assert step == 4 and shard.stat().st_nlink == 2
