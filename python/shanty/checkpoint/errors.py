"""What the checkpointer raises."""

from __future__ import annotations

from operator import index
from typing import Any


class CheckpointError(Exception):
    """Says what was attempted, on what, what happened, and what to do."""


class EngineLost(CheckpointError):
    """The engine's process ended, or does not answer any more."""


def whole_number(name: str, value: Any, least: int) -> int:
    """`value` as an int, whatever its type is, for a parameter called `name`."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise CheckpointError(f"{name}={value!r}: give a whole number from {least} on")
    return number
