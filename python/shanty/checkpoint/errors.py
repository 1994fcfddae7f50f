"""What the checkpointer raises."""

from __future__ import annotations


class CheckpointError(Exception):
    """Says what was attempted, on what, what happened, and what to do."""


class EngineLost(CheckpointError):
    """The engine's process ended, or does not answer any more."""
