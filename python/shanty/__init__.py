"""What a training script may tell the agent that supervises it, and its checkpoints.

`phase`, `running`, `step` and `total` do nothing when the script runs without an agent.
"""

from __future__ import annotations

from shanty.api import phase, running, step, total

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shanty.checkpoint import CheckpointError, Checkpointer, ResumableLoader, ResumableSampler

__version__ = "0.1.0"
# Imported when asked for, as they import torch.
_LAZY = ("CheckpointError", "Checkpointer", "ResumableLoader", "ResumableSampler")
__all__ = ["phase", "running", "step", "total"]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from shanty import checkpoint

        return getattr(checkpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
