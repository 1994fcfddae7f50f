"""All ranks save at the same step, whoever sees first that it is time."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from shanty.checkpoint.world import World


class Orders:
    """The n-th order is one word in the store of the process group: the count of maybe_save's calls
    at which all save. A rank that gives it at its call c orders c + 1. Ranks that meet in a
    collective in each step are at most one call apart, so each sees it in time. Whoever orders
    first wins.
    """

    def __init__(self, world: World, token: str) -> None:
        self._store = _get_default_store() if world.size > 1 and dist.is_initialized() else None
        self._prefix = f"shanty-checkpoint/{token}/{world.generation}"
        self._number = 0
        self._calls = 0
        self._at = -1

    def poll(self, wanted: bool) -> bool:
        """Once per call of maybe_save: whether all ranks save now. `wanted`: this one orders it."""
        self._calls += 1
        if self._store is None:
            return wanted
        key = f"{self._prefix}/{self._number}"
        if self._at < 0:
            if wanted:
                given = self._store.compare_set(key, "", str(self._calls + 1))
                self._at = int(given)
            elif self._store.check([key]):
                self._at = int(self._store.get(key))
        if 0 <= self._at <= self._calls:
            self._number, self._at = self._number + 1, -1
            return True
        return False
