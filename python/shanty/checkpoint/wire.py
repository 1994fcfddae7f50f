"""Frames to and from the engine: docs/formats/checkpoint-engine.md."""

from __future__ import annotations

import array
import base64
import json
import os
import select
import socket
import struct
import threading
from typing import Any, Iterable

from shanty.checkpoint.errors import CheckpointError, EngineLost

MAX_FRAME_BYTES = 256 << 20
MAX_MESSAGE_BYTES = 4 << 30
ANSWER_LIMIT_S = 180.0  # `begin` alone may take 60
MAX_FDS = 4

_LENGTH = struct.Struct("<I")
_MORE = 1 << 31  # in a frame's length: the message goes on
_CREDENTIALS = struct.Struct("3i")
_GONE = select.POLLHUP | select.POLLERR | select.POLLRDHUP


class Answer:
    def __init__(self, fields: dict[str, Any], fd: int | None) -> None:
        self.fields = fields
        self.fd = fd  # the caller's to close


class Connection:
    """One request at a time; any thread may ask. Owns the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._asking = 0  # the thread that has the lock
        self._poll = select.poll()
        self._poll.register(sock.fileno(), _GONE)
        self._lost = ""
        _check_peer(sock)

    def ask(self, op: str, answer_limit_s: float = ANSWER_LIMIT_S, **fields: Any) -> Answer:
        """CheckpointError with the engine's sentence where it failed; EngineLost without one."""
        message = json.dumps({"op": op, **fields}, separators=(",", ":")).encode()
        if len(message) > MAX_MESSAGE_BYTES:
            raise CheckpointError(
                f"cannot ask the checkpoint engine for {op}: the request has {len(message)} bytes, "
                f"more than {MAX_MESSAGE_BYTES}; keep large state in tensors of the model"
            )
        if self._asking == threading.get_ident():
            raise CheckpointError(
                f"cannot ask the checkpoint engine for {op} while it is being asked, as in a "
                "signal handler: note the signal there, and save in the training loop"
            )
        with self._lock:
            if self._lost:
                raise EngineLost(self._lost)
            self._asking = threading.get_ident()
            try:
                self._socket.settimeout(answer_limit_s)
                self._send(message)
                answer = self._receive()
            except (OSError, ValueError, EOFError) as error:
                self._lose(f"the checkpoint engine was lost during {op}: {error or 'it ended'}")
                raise EngineLost(self._lost) from None
            except BaseException:
                # Of a signal handler, as KeyboardInterrupt is. The answer that is still to come
                # would be taken for that of the next request.
                self._lose(f"the request {op} to the checkpoint engine was interrupted")
                raise
            finally:
                self._asking = 0
        if "error" in answer.fields and op not in ("status", "wait"):
            if answer.fd is not None:
                os.close(answer.fd)
            raise CheckpointError(str(answer.fields["error"]))
        return answer

    def _lose(self, why: str) -> None:
        self._lost = why
        self._socket.close()

    def is_lost(self, wait_ms: int = 0) -> bool:
        """Waits up to `wait_ms` for the engine's end."""
        if self._lost:
            return True
        return any(events & (_GONE | select.POLLNVAL) for _, events in self._poll.poll(wait_ms))

    def close(self) -> None:
        with self._lock:
            self._lost = self._lost or "the connection to the checkpoint engine is closed"
            self._socket.close()

    def _send(self, message: bytes) -> None:
        for at in range(0, len(message), MAX_FRAME_BYTES):
            part = message[at : at + MAX_FRAME_BYTES]
            more = _MORE if at + len(part) < len(message) else 0
            self._socket.sendall(_LENGTH.pack(len(part) | more) + part)

    def _receive(self) -> Answer:
        head, fds, _, _ = socket.recv_fds(self._socket, _LENGTH.size, MAX_FDS)
        for fd in fds:
            os.set_inheritable(fd, False)
        for fd in fds[1:]:
            os.close(fd)
        if not head:
            raise EOFError
        head += self._exactly(_LENGTH.size - len(head))
        parts, got = [], 0
        while True:
            word = _LENGTH.unpack(head)[0]
            got += word & ~_MORE
            if got > MAX_MESSAGE_BYTES:
                raise ValueError(f"an answer of {got} bytes")
            parts.append(self._exactly(word & ~_MORE))
            if not word & _MORE:
                break
            head = self._exactly(_LENGTH.size)
        fields = json.loads(b"".join(parts))
        if not isinstance(fields, dict):
            raise ValueError("an answer that is no object")
        return Answer(fields, fds[0] if fds else None)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if not count:
                raise EOFError
            got += count
        return bytes(data)


def pack_addresses(addresses: Iterable[int]) -> str:
    return base64.b64encode(array.array("Q", addresses).tobytes()).decode()


def _check_peer(sock: socket.socket) -> None:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid = _CREDENTIALS.unpack(raw)[1]
    if uid != os.geteuid():
        sock.close()
        raise CheckpointError(f"the checkpoint engine runs as user {uid}, not as {os.geteuid()}")
