"""For the scripts under test: which records of the ring a stretch of the script wrote."""

from __future__ import annotations

import contextlib
import gc
import json
import mmap
import os
import struct
from typing import Any, Iterator

from shanty.recorder import get_recorder

_found: dict[str, dict[str, Any]] = {}


def head() -> int:
    recorder = get_recorder()
    if recorder is not None:
        recorder.flush()
    # Not when this module is imported: spawned loader workers import it too, without the ring.
    with mmap.mmap(int(os.environ["SHANTY_RING_FD"]), 0) as ring:
        return int(struct.unpack_from("<Q", ring, 384)[0])


@contextlib.contextmanager
def section(name: str) -> Iterator[dict[str, Any]]:
    """What the script itself knows goes into the dictionary, for the test to compare."""
    gc.collect()
    known: dict[str, Any] = {"from": head()}
    yield known
    known["to"] = head()
    _found[name] = known


def report() -> None:
    print(json.dumps(_found))
