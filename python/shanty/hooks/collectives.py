"""Collectives that the script calls itself. Off by default: a wrapper changes the functions'
identity, which Dynamo keys on."""

from __future__ import annotations

import sys
from types import ModuleType

from shanty.hooks.wrap import timed
from shanty.recorder import COLLECTIVE, Recorder

NAMES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
)


def install(module: ModuleType, recorder: Recorder) -> None:
    outer = sys.modules.get("torch.distributed")
    for name in NAMES:
        original = getattr(module, name, None)
        if original is None:
            continue
        wrapped = timed(original, recorder, COLLECTIVE)
        setattr(module, name, wrapped)
        if getattr(outer, name, None) is original:
            setattr(outer, name, wrapped)
