"""Checkpoints of training runs: docs/checkpoints.md. Imports torch."""

from __future__ import annotations

from shanty.checkpoint.checkpointer import Checkpointer
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.load import Loaded
from shanty.checkpoint.sampler import ResumableLoader, ResumableSampler
from shanty.checkpoint.save import SaveHandle

__all__ = [
    "CheckpointError",
    "Checkpointer",
    "Loaded",
    "ResumableLoader",
    "ResumableSampler",
    "SaveHandle",
]
