"""A stand-in for the engine's storage: it speaks the protocol of docs/formats/checkpoint-engine.md
and keeps checkpoints in this process. Nothing here says that the real engine works."""

from __future__ import annotations

import array
import base64
import ctypes
import json
import mmap
import os
import secrets
import socket
import struct
import threading
from typing import Any

import numpy as np

PAGE = 4096
WINDOW = 64 << 20


class Store:
    """What is stored, by step, from any number of ranks; and what the test wants to go wrong."""

    def __init__(self, pull: bool = True) -> None:
        self.pull = pull
        self.checkpoints: dict[int, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.fail_save = ""
        self.bad_reads: set[int] = set()
        self.frame_bytes = 1 << 28
        self.trials: list[dict[str, Any]] = []  # answers to preflight
        self.excluded: set[int] = set()
        self.hold = threading.Event()  # copying ends when it is set
        self.hold.set()
        self.lock = threading.Lock()

    def ops(self) -> list[str]:
        return [request["op"] for request in self.requests]

    def put(self, step: int, rank: int, world_size: int, content: dict[str, Any]) -> bool:
        """Whether the checkpoint is complete."""
        with self.lock:
            found = self.checkpoints.setdefault(
                step,
                {
                    "tensors": {},
                    "aliases": {},
                    "states": {},
                    "global": {},
                    "world_size": world_size,
                },
            )
            for piece, data in content["pieces"]:
                self._put_piece(found["tensors"], piece, data)
            found["aliases"].update(content["aliases"])
            found["states"][rank] = content["state"]
            if rank == 0:
                found["global"] = content["global"]
            return len(found["states"]) == world_size

    def check_coverage(self, step: int) -> None:
        for name, tensor in self.checkpoints[step]["tensors"].items():
            assert (tensor["seen"] == 1).all(), f"{name} is not covered exactly once"

    def _put_piece(self, tensors: dict[str, Any], piece: dict[str, Any], data: bytes) -> None:
        size, shape = piece["element_bytes"], tuple(piece["shape"])
        tensor = tensors.setdefault(
            piece["name"],
            {
                "dtype": piece["dtype"],
                "group": piece["group"],
                "data": np.zeros(shape, dtype=f"V{size}"),
                "seen": np.zeros(shape, dtype=np.int32),
            },
        )
        assert tensor["dtype"] == piece["dtype"] and tensor["data"].shape == shape
        values = np.frombuffer(data, dtype=f"V{size}")
        if "flat" in piece:
            start, count = piece["flat"]
            tensor["data"].reshape(-1)[start : start + count] = values
            tensor["seen"].reshape(-1)[start : start + count] += 1
            return
        box = tuple(slice(o, o + n) for o, n in zip(piece["offsets"], piece["piece_shape"]))
        tensor["data"][box] = values.reshape(piece["piece_shape"])
        tensor["seen"][box] += 1


class Double:
    """Listens on an abstract socket, whose name is `name`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = f"shanty-test-{os.getpid()}-{secrets.token_hex(4)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.name)
        self._listener.listen(8)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            threading.Thread(target=Session(self.store, sock).run, daemon=True).start()

    def die(self) -> None:
        # A thread that accepts would keep a closed one open.
        for sock in [self._listener, *self._open]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._listener.close()


class Session:
    def __init__(self, store: Store, sock: socket.socket) -> None:
        self.store, self.sock = store, sock
        self.layouts = 0
        self.saves: dict[int, dict[str, Any]] = {}
        self.slot = 1
        self.ended = threading.Condition()

    def run(self) -> None:
        while True:
            body = self._receive_message()
            if body is None:
                return
            request = json.loads(body)
            self.store.requests.append(request)
            self.fd = -1
            answer = getattr(self, request["op"])(request)
            frame = self._frames(json.dumps(answer).encode())
            rights = []
            if self.fd >= 0:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.fd]))]
            try:
                sent = self.sock.sendmsg([frame], rights)
                if sent < len(frame):
                    self.sock.sendall(frame[sent:])
            except OSError:
                return

    def _receive_message(self) -> bytes | None:
        body, more = b"", True
        while more:
            head = self._receive(4)
            if head is None:
                return None
            word = struct.unpack("<I", head)[0]
            part, more = self._receive(word & ~(1 << 31)), bool(word >> 31)
            assert part is not None
            body += part
        return body

    def _frames(self, data: bytes) -> bytes:
        size = self.store.frame_bytes
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        words = [len(part) | (1 << 31) for part in parts[:-1]] + [len(parts[-1])]
        return b"".join(struct.pack("<I", word) + part for word, part in zip(words, parts))

    def _receive(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self.sock.recv(size - len(data))
            except OSError:
                return None
            if not more:
                return None
            data += more
        return data

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request["protocol"] == 1 and request["root"].startswith("/")
        self.rank, self.world_size = request["rank"], request["world_size"]
        return {"leader": "127.0.0.1:1", "token": "t"} if self.rank == 0 else {}

    def join(self, request: dict[str, Any]) -> dict[str, Any]:
        return {}

    def preflight(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.store.trials:
            return self.store.trials.pop(0)
        return {"findings": []}

    def layout(self, request: dict[str, Any]) -> dict[str, Any]:
        self.tensors, self.aliases = request["tensors"], request["aliases"]
        if not self.store.pull and any(t["mode"] == "pull" for t in self.tensors):
            return {"pull": False}
        self.layouts, self.pointers = self.layouts + 1, ""
        # As the real one: large elements first, so that all are aligned.
        order = sorted(range(len(self.tensors)), key=lambda i: -self.tensors[i]["element_bytes"])
        self.offsets, end = [0] * len(order), 0
        for i in order:
            self.offsets[i] = end
            end += self.tensors[i]["nbytes"]
        self.slot_bytes = max(-(-end // PAGE) * PAGE, PAGE)
        fd = os.memfd_create("arena")
        os.ftruncate(fd, 2 * (PAGE + self.slot_bytes))
        self.arena = mmap.mmap(fd, 0)
        self.fd = fd
        return {
            "layout": self.layouts,
            "slot_bytes": self.slot_bytes,
            "slots": 2,
            "offsets": self.offsets,
            "pull": True,
        }

    def begin(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request["layout"] == self.layouts
        self.slot = 1 - self.slot
        struct.pack_into("<QQ", self.arena, self.slot * PAGE + 8, request["step"], 1)
        return {"slot": self.slot}

    def save(self, request: dict[str, Any]) -> dict[str, Any]:
        self.pointers = request.get("pointers", self.pointers)
        if self.store.fail_save:
            self._end(request["step"], "failed", self.store.fail_save, request["slot"])
            return {}
        self.saves[request["step"]] = {"state": "copying", "error": ""}
        threading.Thread(target=self._copy, args=(request, self.pointers), daemon=True).start()
        return {}

    def _copy(self, request: dict[str, Any], pointers: str) -> None:
        self.store.hold.wait()
        raw = base64.b64decode(pointers)
        addresses = list(struct.unpack(f"<{len(raw) // 8}Q", raw))
        pieces = []
        for tensor, offset in zip(self.tensors, self.offsets):
            if tensor["mode"] == "pull":
                data = ctypes.string_at(addresses.pop(0), tensor["nbytes"])
            else:
                at = 2 * PAGE + request["slot"] * self.slot_bytes + offset
                data = self.arena[at : at + tensor["nbytes"]]
            pieces.append((tensor, data))
        assert not addresses
        content = {
            "pieces": pieces,
            "aliases": self.aliases,
            "state": request["state"],
            "global": request["global"],
        }
        self.store.put(request["step"], self.rank, self.world_size, content)
        self._end(request["step"], "committed", "", request["slot"])

    def _end(self, step: int, state: str, error: str, slot: int) -> None:
        with self.ended:
            self.saves[step] = {"state": state, "error": error}
            word = 4 if state == "committed" else 5
            struct.pack_into("<Q", self.arena, slot * PAGE + 16, word)
            self.ended.notify_all()

    def status(self, request: dict[str, Any]) -> dict[str, Any]:
        save = self.saves.get(request["step"])
        return (
            {**save, "seconds": {"copy": 0.5, "durable": 1}} if save else {"error": "no such step"}
        )

    def wait(self, request: dict[str, Any]) -> dict[str, Any]:
        with self.ended:
            self.ended.wait_for(
                lambda: self.saves[request["step"]]["state"] != "copying", request["limit_s"]
            )
        return self.status(request)

    def abandon(self, request: dict[str, Any]) -> dict[str, Any]:
        self.store.checkpoints.pop(request["step"], None)
        return {}

    def find(self, request: dict[str, Any]) -> dict[str, Any]:
        steps = [s for s in self.store.checkpoints if s not in self.store.excluded]
        if "step" in request:
            steps = [s for s in steps if s == request["step"]]
        if not steps:
            return {"source": None, "findings": []}
        self.found = max(steps)
        checkpoint = self.store.checkpoints[self.found]
        return {
            "step": self.found,
            "source": "memory",
            "world_size": checkpoint["world_size"],
            "global": checkpoint["global"],
            "state": checkpoint["states"].get(self.rank),
            "tensors": {
                "names": list(checkpoint["tensors"]),
                "kinds": [
                    {"dtype": t["dtype"], "shape": list(t["data"].shape)}
                    for t in checkpoint["tensors"].values()
                ],
                "kind_of": list(range(len(checkpoint["tensors"]))),
            },
            "aliases": checkpoint["aliases"],
            "findings": [],
        }

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.found in self.store.bad_reads:
            self.store.excluded.add(self.found)
            return {"error": f"step {self.found}: a checksum does not match"}
        checkpoint = self.store.checkpoints[self.found]
        data, offsets = b"", []
        for want in request["wants"]:
            name = checkpoint["aliases"].get(want["name"], want["name"])
            whole = checkpoint["tensors"][name]["data"]
            if "flat" in want:
                start, count = want["flat"]
                part = whole.reshape(-1)[start : start + count]
            else:
                part = whole[tuple(slice(o, o + n) for o, n in zip(want["offsets"], want["shape"]))]
            data += b"\0" * (-len(data) % 64)
            offsets.append(len(data))
            data += part.tobytes()
        if len(data) > getattr(self, "window_bytes", 0):
            self.window_bytes = max(WINDOW, len(data))
            fd = os.memfd_create("window")
            os.ftruncate(fd, self.window_bytes)
            self.window = mmap.mmap(fd, 0)
            self.fd = fd
        self.window[: len(data)] = data
        return {"offsets": offsets}

    def release(self, request: dict[str, Any]) -> dict[str, Any]:
        self.window_bytes = 0
        return {"all_ok": request["ok"]}
