"""The memory shared with the engine: two slots to save into, and the window to load from."""

from __future__ import annotations

import mmap
import os

import torch
from torch import Tensor

PAGE = 4096
FILLING, COPIED, DURABLE, COMMITTED, FAILED = 1, 2, 3, 4, 5
_STEP, _STATE = 1, 2
_WORDS = PAGE // 8
_SLOTS = 2


class Mapping:
    """A descriptor's memory as bytes. It is never closed: tensors made of it would be left behind
    pointing nowhere. It goes when the last of them does."""

    def __init__(self, fd: int, size: int = 0) -> None:
        self.size = size or os.fstat(fd).st_size
        self.map = mmap.mmap(fd, self.size)
        self.bytes: Tensor = torch.frombuffer(self.map, dtype=torch.uint8)

    def view(self, at: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        count = dtype.itemsize
        for length in shape:
            count *= length
        if not count:
            return torch.empty(shape, dtype=dtype)
        return self.bytes[at : at + count].view(dtype).view(shape)


class Arena(Mapping):
    def __init__(self, fd: int, slot_bytes: int) -> None:
        self._pitch = -(-slot_bytes // PAGE) * PAGE
        super().__init__(fd, _SLOTS * (PAGE + self._pitch))
        self._words = memoryview(self.map)[: _SLOTS * PAGE].cast("Q")

    def at(self, slot: int, offset: int) -> int:
        return _SLOTS * PAGE + slot * self._pitch + offset

    def state(self, slot: int, step: int) -> int:
        """The state of `step` in that slot; 0 where the slot holds another step by now."""
        state = self._words[slot * _WORDS + _STATE]
        return state if self._words[slot * _WORDS + _STEP] == step else 0
