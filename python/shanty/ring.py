"""The step ring: shared memory that this process writes and the agent reads.

The layout is docs/formats/step-ring.md. Multi-field entries are seqlocks, and a sequence is made
odd with `| 1`, so that one left odd by a writer that died cannot invert the parity. It is stored
as one word of its own: pack_into clears its whole range, in any order, before it packs.
"""

from __future__ import annotations

import mmap
import os
import struct

MAGIC = b"SHRING01"
VERSION = 1
RECORDS_AT = 4096
RECORD_SIZE = 64
MAX_CAPACITY = 1 << 20
FD_VARIABLE = "SHANTY_RING_FD"

# Word indexes (8 bytes each) of the header.
COMMAND, PID, PHASE, STEP = 3, 8, 32, 33
PHASE_SHIFT = 4
_HOOKS, _TOTAL, _FIRST_STEP, _CKPT_SEQ, _HEAD = 9, 10, 11, 40, 48
# Byte offsets of the texts and the checkpoint fields.
_TORCH_AT, _PYTHON_AT, _REASON_AT, _CKPT_AT = 96, 128, 160, 328
_TEXT_SIZE, _REASON_SIZE = 32, 96

_U64_MAX = (1 << 64) - 1
_CKPT = struct.Struct("<4Q")
_PACK_RECORD = struct.Struct("<QQIIIIIIffII").pack_into


class Ring:
    """The writer's side. One thread writes phases and records; see put_checkpoint for the rest.

    `words` is the whole mapping as 8-byte words, for stores that a step makes many times.
    """

    __slots__ = ("_capacity", "_head", "_map", "generation", "rank", "words")

    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self._map = memory
        # The view keeps the mapping alive: it must never be closed under a running hook.
        self.words = memoryview(memory).cast("Q")
        self._capacity = capacity
        self._head = self.words[_HEAD]
        self.rank, self.generation = struct.unpack_from("<II", memory, 16)

    def owner(self) -> int:
        return self.words[PID]

    def is_free_or_mine(self) -> bool:
        return self.words[PID] in (0, os.getpid())

    def claim(self) -> bool:
        """Makes this process the writer; False when another process is."""
        pid = os.getpid()
        if self.words[PID] == 0:
            self.words[PID] = pid
            self._head = self.words[_HEAD]
        return self.words[PID] == pid

    def command(self) -> int:
        return self.words[COMMAND]

    def set_hooks(self, bits: int) -> None:
        self.words[_HOOKS] = bits

    def set_total(self, steps: int) -> None:
        self.words[_TOTAL] = _u64(steps)

    def set_first_step(self, step: int) -> None:
        self.words[_FIRST_STEP] = _u64(step + 1)

    def set_torch_version(self, text: str) -> None:
        self._put_text(_TORCH_AT, _TEXT_SIZE, text)

    def set_python_version(self, text: str) -> None:
        self._put_text(_PYTHON_AT, _TEXT_SIZE, text)

    def set_reason(self, text: str) -> None:
        self._put_text(_REASON_AT, _REASON_SIZE, text)

    def put_phase(self, phase: int, since_ns: int, step: int) -> None:
        self.words[PHASE] = since_ns << PHASE_SHIFT | phase
        self.words[STEP] = step

    def put_checkpoint(self, written: int, ended_at_ns: int, step: int, read: int) -> None:
        """Any thread, but one at a time: the caller holds a lock."""
        words = self.words
        seq = words[_CKPT_SEQ] | 1
        words[_CKPT_SEQ] = seq
        _CKPT.pack_into(self._map, _CKPT_AT, written, ended_at_ns, step, read)
        words[_CKPT_SEQ] = seq + 1

    def put_record(
        self,
        step: int,
        ended_at_ns: int,
        whole_us: int,
        data_us: int,
        forward_us: int,
        backward_us: int,
        optimizer_us: int,
        checkpoint_us: int,
        loss: float,
        samples: float,
        collective_us: int,
        flags: int,
    ) -> None:
        """Each in the range of its field."""
        head = self._head
        slot = RECORDS_AT + RECORD_SIZE * (head & (self._capacity - 1))
        words = self.words
        words[slot >> 3] = 2 * head + 1
        _PACK_RECORD(
            self._map,
            slot + 8,
            step,
            ended_at_ns,
            whole_us,
            data_us,
            forward_us,
            backward_us,
            optimizer_us,
            checkpoint_us,
            loss,
            samples,
            collective_us,
            flags,
        )
        words[slot >> 3] = 2 * head + 2
        self._head = words[_HEAD] = head + 1

    def _put_text(self, at: int, size: int, text: str) -> None:
        data = text.encode("utf-8", "replace")[:size]
        # A cut may fall inside a character; the reader expects valid UTF-8.
        data = data.decode("utf-8", "ignore").encode("utf-8")
        self._map[at : at + size] = data.ljust(size, b"\0")


def open_ring() -> Ring | None:
    """The ring this process inherited, or None: no agent, or the number now names another file."""
    text = os.environ.get(FD_VARIABLE, "")
    if not text.isdigit():
        return None
    try:
        fd = int(text)
        if not os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:shanty-ring"):
            return None
        memory = mmap.mmap(fd, os.fstat(fd).st_size)
    except (OSError, OverflowError, ValueError):
        return None
    capacity = _capacity(memory)
    return Ring(memory, capacity) if capacity else None


def _capacity(memory: mmap.mmap) -> int:
    """The capacity of a valid ring, or 0."""
    if len(memory) < RECORDS_AT or memory[:8] != MAGIC:
        return 0
    version, capacity = struct.unpack_from("<II", memory, 8)
    valid = (
        version == VERSION
        and 0 < capacity <= MAX_CAPACITY
        and capacity & (capacity - 1) == 0
        and len(memory) >= RECORDS_AT + RECORD_SIZE * capacity
    )
    return capacity if valid else 0


def _u64(value: int) -> int:
    return min(max(value, 0), _U64_MAX)
