"""Finds the engine's process, or starts one."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.wire import Connection

SOCKET_VARIABLE = "SHANTY_CKPT_SOCKET"
BINARY_VARIABLE = "SHANTY_BINARY"
CONNECT_LIMIT_S = 30.0
END_LIMIT_S = 10.0
GONE_LIMIT_S = 2.0


class Engine:
    """A connection, and the process behind it where it is ours."""

    def __init__(self, name: str, process: subprocess.Popen[bytes] | None) -> None:
        self._name = name
        self._process = process
        self.connection = _connect(name)

    @property
    def is_own(self) -> bool:
        """This process has started it, for itself alone."""
        return self._process is not None

    def again(self) -> Engine:
        """A new connection to the same process, or to one that takes its place when it has ended.
        This one is closed."""
        ended = self._process is not None and self._has_ended(self._process)
        self.connection.close()
        return find_engine() if ended else Engine(self._name, self._process)

    def _has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        """A process that hung up may need a moment to end."""
        try:
            process.wait(GONE_LIMIT_S if self.connection.is_lost() else 0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self, alone: bool) -> None:
        """An engine of ours that is `alone` is told to end: it finishes first what was saved, which
        is waited for a moment only. Others may still need what rank 0's has to say; it ends with
        this process."""
        self.connection.close()
        if self._process is None:
            return
        if not alone:
            # Popen would warn of a process that is left running.
            self._process.returncode = 0
            return
        self._process.terminate()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass


def find_engine() -> Engine:
    name = os.environ.get(SOCKET_VARIABLE)
    if name:
        return Engine(name, None)
    return _start()


def _connect(name: str) -> Connection:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(CONNECT_LIMIT_S)
    try:
        sock.connect("\0" + name)
    except OSError as error:
        sock.close()
        raise CheckpointError(
            f"cannot connect to the checkpoint engine at @{name}: {error}"
        ) from None
    return Connection(sock)


def _start() -> Engine:
    binary = _find_binary()
    name = f"shanty-ckpt-{os.getpid()}-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + name)
        listener.listen(4)
        command = [binary, "ckpt-engine", "--listen-fd", str(listener.fileno())]
        try:
            # A session of its own: an interrupt from the terminal must not end a save in flight.
            process = subprocess.Popen(
                [*command, "--parent-pid", str(os.getpid())],
                pass_fds=(listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise CheckpointError(f"cannot start the checkpoint engine {binary}: {error}") from None
    return Engine(name, process)


def _find_binary() -> str:
    given = os.environ.get(BINARY_VARIABLE)
    beside = Path(__file__).resolve().parents[1] / "bin" / "shanty"
    for path in (given, str(beside), shutil.which("shanty")):
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise CheckpointError(
        f"cannot find the program shanty, which writes the checkpoints: {given or 'it'} is no "
        f"program, and there is none on PATH; set {BINARY_VARIABLE} to its path"
    )
