"""Which rank this is, and the few words that ranks exchange, in the main thread."""

from __future__ import annotations

import os
import socket
from typing import Any

import torch
import torch.distributed as dist

from shanty.checkpoint.errors import CheckpointError


class World:
    def __init__(self) -> None:
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        else:
            self.rank, self.size = _number("RANK", 0), _number("WORLD_SIZE", 1)
            if self.size > 1:
                raise CheckpointError(
                    f"WORLD_SIZE is {self.size}: call torch.distributed.init_process_group before "
                    "the first save or load, the ranks' checkpoint engines meet through it"
                )
        self.local_size = _number("LOCAL_WORLD_SIZE", self.size)
        self.address = os.environ.get("MASTER_ADDR") or socket.gethostname()
        # Ranks of one node die together; only others keep copies for them.
        self.node = os.environ.get("GROUP_RANK") or socket.gethostname()
        self.generation = _number("TORCHELASTIC_RESTART_COUNT", 0)
        variables = ("SHANTY_RUN_ID", "TORCHELASTIC_RUN_ID")
        name = next((os.environ[v] for v in variables if os.environ.get(v)), "")
        # A name may be used again for another job, whose generations begin anew.
        self.run = f"{name}@{socket.gethostname()}:{_launcher()}"
        self._group: Any = None
        if self.size > 1 and dist.get_backend() != "gloo":
            # Objects over NCCL would wait for the device.
            self._group = dist.new_group(backend="gloo")

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on each of them."""
        if self.size == 1:
            return [value]
        box: list[Any] = [None] * self.size
        dist.all_gather_object(box, value, group=self._group)
        return box

    def any(self, flag: bool) -> bool:
        """Whether it is true on any rank; fit for each save."""
        if self.size == 1:
            return flag
        box = torch.tensor([int(flag)])
        dist.all_reduce(box, dist.ReduceOp.MAX, group=self._group)
        return bool(box.item())


def _launcher() -> str:
    """The parent's pid and when it started: the same for all generations that it launches."""
    pid = os.getppid()
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return f"{pid}.{file.read().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return str(pid)


def _number(variable: str, default: int) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default
