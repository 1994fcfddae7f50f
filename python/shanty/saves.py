"""What became of checkpoints, told to the run directory for the report."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from shanty.recorder import get_recorder


def tell_save(**fields: Any) -> None:
    """Appends a line to this rank's file in saves/, see docs/formats/run-directory.md. Does nothing
    where there is no run directory, or none that can be written."""
    run_dir, rank = os.environ.get("SHANTY_RUN_DIR"), os.environ.get("RANK", "")
    if not run_dir or not rank.isdigit():
        return
    data = json.dumps({**fields, "unix_ns": time.time_ns()}).encode() + b"\n"
    file = os.path.join(run_dir, "saves", f"rank-{int(rank):05}.jsonl")
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError:
        pass


def count_save() -> None:
    """A checkpoint of the whole job was committed: rank 0 counts it."""
    recorder = get_recorder()
    if recorder is not None and os.environ.get("RANK", "0") == "0":
        recorder.add_checkpoint(1, 0)
