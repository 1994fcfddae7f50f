"""What an import finds and leaves of the garbage collector."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from ring_reader import PYTHON_DIR, TestRing, run
from shanty.collector import Still


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def cycles(count: int) -> None:
    for _ in range(count):
        cycle: list[object] = []
        cycle.append(cycle)


def test_nothing_is_collected_within() -> None:
    gc.collect()
    with Still():
        before = collections()
        cycles(100_000)
        assert collections() == before


def test_what_became_garbage_within_is_collected_later() -> None:
    gc.collect()
    with Still():
        cycles(1000)
    assert gc.collect() >= 1000


def test_the_thresholds_are_as_before_also_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ImportError):
        with Still():
            with Still():
                raise ImportError("torch")
    assert gc.get_threshold() == before


def test_what_the_imported_code_sets_stands() -> None:
    before = gc.get_threshold()
    try:
        with Still():
            gc.set_threshold(1234, 5, 6)
        assert gc.get_threshold() == (1234, 5, 6)
    finally:
        gc.set_threshold(*before)


def test_what_was_frozen_stays_frozen() -> None:
    code = (
        "import gc; from shanty.collector import Still; gc.freeze(); n = gc.get_freeze_count()\n"
        "with Still(): kept = [[] for _ in range(1000)]\n"
        "assert gc.get_freeze_count() == n > 0"
    )
    path = {"PYTHONPATH": str(PYTHON_DIR)}
    subprocess.run([sys.executable, "-c", code], env=path, check=True, timeout=300)


def test_a_worker_imports_what_is_watched_without_collections(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import gc\n"
        "before = sum(g['collections'] for g in gc.get_stats())\n"
        "kept = [[] for _ in range(100_000)]\n"
        "during = sum(g['collections'] for g in gc.get_stats()) - before\n"
    )
    ring = TestRing()
    path = tmp_path / "script.py"
    path.write_text("import gc, torch; print(torch.during, gc.get_threshold()[0] > 0)")
    ended = run(ring, str(path))
    assert ended.out == "0 True\n"
