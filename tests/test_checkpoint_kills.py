"""kill -9 of the engine at each of a save's system calls, by strace: what is found afterwards is
whole, is one of the saves, and is none older than the last that was told to be committed."""

import base64
import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import time

import pytest

from conftest import SHANTY

FLOATS = 64 * 1024
CALLS = ("mkdir", "openat", "pwrite64", "ftruncate", "fdatasync", "fsync", "close", "rename",
         "symlink", "unlink,unlinkat", "rmdir,unlinkat")
MAX_NUMBER = 40



def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-D", "-qq", "-o", "/dev/null", "true"],
                          stderr=subprocess.DEVNULL).returncode == 0


needs_strace = pytest.mark.skipif(not strace_works(), reason="strace may not trace here")


class Engine:
    """An engine that dies at the `number`-th `call` of one of its threads, and its only trainer."""

    def __init__(self, call: str = "", number: int = 0):
        name = f"shanty-test-{os.getpid()}-{time.time_ns()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen(1)
            command = [str(SHANTY), "ckpt-engine", "--listen-fd", str(listener.fileno()),
                       "--parent-pid", str(os.getpid())]
            if call:
                command = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                           "-e", f"inject={call}:signal=SIGKILL:when={number}", *command]
            self.process = subprocess.Popen(command, pass_fds=[listener.fileno()],
                                            stderr=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("\0" + name)
        self.socket.settimeout(60)

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

    def save(self, root, step: int) -> bool:
        """Whether it was told to be committed."""
        memory = (ctypes.c_float * FLOATS)(*([float(step)] * FLOATS))
        try:
            self.ask(op="hello", protocol=1, root=str(root), rank=0, world_size=1,
                     local_world_size=1, generation=step, run="test", keep=2)
            layout = self.ask(op="layout", aliases={}, tensors=[dict(
                name="w", group="model", dtype="F32", shape=[FLOATS], offsets=[0],
                piece_shape=[FLOATS], nbytes=4 * FLOATS, mode="pull")])
            slot = self.ask(op="begin", layout=layout["layout"], step=step)["slot"]
            pointer = base64.b64encode(struct.pack("<Q", ctypes.addressof(memory))).decode()
            self.ask(op="save", slot=slot, step=step, pointers=pointer, state={},
                     **{"global": {"step": step}})
            end = self.ask(op="wait", step=step, state="committed", limit_s=30)
            return end["state"] == "committed"
        except (OSError, RuntimeError):
            return False

    def end(self) -> bool:
        """Whether it was killed."""
        self.socket.close()
        self.process.terminate()
        return self.process.wait(30) == -9


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


@needs_strace
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_any_call_of_a_save_loses_nothing_that_was_promised(call, tmp_path):
    root = tmp_path / "ckpt"
    for step in range(1, 4):  # so many that the next one prunes
        engine = Engine()
        assert engine.save(root, step)
        engine.end()
    promised, kills = 3, 0
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
