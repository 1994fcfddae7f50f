"""What tells one job from another in a directory of checkpoints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TELL = "from shanty.checkpoint.world import World; print(World().run)"


def runs_of_two_workers(name: str) -> list[str]:
    """As a launcher starts two generations, one after the other."""
    launcher = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', {TELL!r}])"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TORCHELASTIC_RUN_ID": name}
    out = subprocess.run([sys.executable, "-c", launcher], env=env, capture_output=True, text=True)
    return out.stdout.split()


def test_a_name_that_is_used_again_is_another_run() -> None:
    first, second = runs_of_two_workers("none"), runs_of_two_workers("none")
    assert len(first) == 2 and len(set(first)) == 1 and first[0].startswith("none@")
    assert set(first).isdisjoint(second)
