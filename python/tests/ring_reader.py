"""The agent's side of a ring, for the tests: creates it, starts a script with it, decodes it."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON_DIR = Path(__file__).resolve().parent.parent
BOOT_DIR = PYTHON_DIR / "shanty_boot"
RETRIES = 4
SCRIPT_TIMEOUT_S = 300
RECORD = struct.Struct("<QQQIIIIIIffII")
PHASES = "unknown start data forward backward optimizer collective checkpoint eval other done"


@dataclass(frozen=True)
class Record:
    seq: int
    step: int
    ended_at_ns: int
    whole_us: int
    data_us: int
    forward_us: int
    backward_us: int
    optimizer_us: int
    checkpoint_us: int
    loss: float
    samples: float
    collective_us: int
    flags: int

    @property
    def named(self) -> bool:
        return bool(self.flags & 1)

    @property
    def counted(self) -> bool:
        return bool(self.flags & 4)

    @property
    def first_item_excluded(self) -> bool:
        return bool(self.flags & 2)


class TestRing:
    __test__ = False

    def __init__(self, capacity: int = 4096, rank: int = 0, name: str = "shanty-ring") -> None:
        self.capacity = capacity
        size = 4096 + 64 * capacity
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.map = mmap.mmap(self.fd, size)
        struct.pack_into("<8sIIII", self.map, 0, b"SHRING01", 1, capacity, rank, 0)
        self.missed = 0
        self._next = 0

    def word(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.map, at)[0])

    def text(self, at: int, size: int) -> str:
        return bytes(self.map[at : at + size]).rstrip(b"\0").decode()

    def order(self, word: int) -> None:
        struct.pack_into("<Q", self.map, 24, word)

    @property
    def pid(self) -> int:
        return self.word(64)

    @property
    def bits(self) -> int:
        return self.word(72)

    @property
    def total(self) -> int:
        return self.word(80)

    @property
    def first_step(self) -> int:
        return self.word(88)

    @property
    def torch_version(self) -> str:
        return self.text(96, 32)

    @property
    def python_version(self) -> str:
        return self.text(128, 32)

    @property
    def reason(self) -> str:
        return self.text(160, 96)

    @property
    def phase(self) -> str:
        return PHASES.split()[self.word(256) & 15]

    @property
    def step_in_work(self) -> int:
        return self.word(264)

    @property
    def checkpoints(self) -> dict[str, int]:
        names = ("written", "at_ns", "step", "read")
        return dict(zip(names, struct.unpack_from("<4Q", self.map, 328)))

    @property
    def head(self) -> int:
        return self.word(384)

    def records(self) -> list[Record]:
        """Those not read before, as the agent would: torn ones are counted as missed."""
        found = []
        head = self.head
        if head - self._next > self.capacity:
            self.missed += head - self.capacity - self._next
            self._next = head - self.capacity
        while self._next < head:
            record = self._read(self._next)
            if record is None:
                self.missed += 1
            else:
                found.append(record)
            self._next += 1
        return found

    def _read(self, k: int) -> Record | None:
        at = 4096 + 64 * (k % self.capacity)
        for _ in range(RETRIES):
            before = self.word(at)
            fields = RECORD.unpack_from(self.map, at)
            if before == self.word(at) == fields[0] == 2 * k + 2:
                return Record(*fields)
        return None


def environment(ring: TestRing | None, **extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SHANTY_", "PYTHON"))}
    kept["PYTHONPATH"] = f"{BOOT_DIR}{os.pathsep}{PYTHON_DIR}"
    kept["OMP_NUM_THREADS"] = "1"
    if ring is not None:
        kept["SHANTY_RING_FD"] = str(ring.fd)
    kept.update(extra)
    return kept


def start(
    ring: TestRing | None, *command: str, stdin: int | None = None, **extra: str
) -> subprocess.Popen[str]:
    """Starts a worker; `extra` are variables of its environment."""
    env = environment(ring, **extra)
    fds = (ring.fd,) if ring is not None else ()
    # Popen clears close-on-exec for pass_fds in the child only, as the agent does.
    return subprocess.Popen(
        [sys.executable, *command],
        env=env,
        pass_fds=fds,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str
    pid: int


def finish(process: subprocess.Popen[str]) -> Ended:
    try:
        out, err = process.communicate(timeout=SCRIPT_TIMEOUT_S)
    finally:
        process.kill()
    return Ended(process.returncode, out, err, process.pid)


def run(ring: TestRing | None, *command: str, **extra: str) -> Ended:
    return finish(start(ring, *command, **extra))
