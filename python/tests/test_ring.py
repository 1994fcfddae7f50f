"""The seam with the agent: what is mapped, and that no reader ever accepts a torn record."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from dataclasses import astuple

import pytest

from ring_reader import TestRing, environment
from shanty.ring import MAGIC, Ring, open_ring

STRESS_S = 1.5
STRESS_LIMIT_S = 120
ENOUGH = 1000


def use(monkeypatch: pytest.MonkeyPatch, ring: TestRing) -> None:
    monkeypatch.setenv("SHANTY_RING_FD", str(ring.fd))


def put(ring: Ring, step: int, **fields: float) -> None:
    payload = {"ended": 1, "whole": 2, "data": 3, "forward": 4, "backward": 5, "optimizer": 6}
    payload.update({"checkpoint": 7, "loss": 0.5, "samples": 8.0, "collective": 9, "flags": 0})
    payload.update(fields)
    ring.put_record(step, *payload.values())


def test_a_valid_ring_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = TestRing(rank=3)
    use(monkeypatch, theirs)
    ring = open_ring()
    assert ring is not None and ring.rank == 3
    put(ring, 41)
    assert theirs.records()[0].step == 41


@pytest.mark.parametrize("number", ["", "abc", "-1", "99999", str(1 << 70), "0x3"])
def test_a_number_that_is_no_open_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setenv("SHANTY_RING_FD", number)
    assert open_ring() is None


def test_a_reused_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TestRing(name="something-else"))
    assert open_ring() is None


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"SHRING99"),
        (8, struct.pack("<I", 2)),
        (12, struct.pack("<I", 0)),
        (12, struct.pack("<I", 3)),
        (12, struct.pack("<I", 8192)),
        (12, struct.pack("<I", 1 << 31)),
    ],
)
def test_a_header_that_is_not_ours_is_refused(
    monkeypatch: pytest.MonkeyPatch, at: int, data: bytes
) -> None:
    theirs = TestRing()
    theirs.map[at : at + len(data)] = data
    use(monkeypatch, theirs)
    assert open_ring() is None


def test_an_empty_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.memfd_create("shanty-ring")
    os.write(fd, MAGIC)
    monkeypatch.setenv("SHANTY_RING_FD", str(fd))
    assert open_ring() is None
    os.close(fd)


def test_texts_are_cut_at_a_whole_character(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = TestRing()
    use(monkeypatch, theirs)
    ring = open_ring()
    assert ring is not None
    ring.set_reason("x" * 95 + "é")
    assert theirs.reason == "x" * 95
    ring.set_reason("short")
    assert theirs.reason == "short"
    assert theirs.phase == "unknown"


def test_an_overrun_reader_counts_what_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = TestRing(capacity=8)
    use(monkeypatch, theirs)
    ring = open_ring()
    assert ring is not None
    for step in range(20):
        put(ring, step)
    assert [r.step for r in theirs.records()] == list(range(12, 20))
    assert theirs.missed == 12


def test_a_writer_goes_on_where_the_one_before_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = TestRing()
    use(monkeypatch, theirs)
    for step in range(2):
        ring = open_ring()
        assert ring is not None and ring.claim()
        # Left odd, as by a writer that died inside.
        struct.pack_into("<Q", theirs.map, 320, 2 * step + 1)
        ring.put_checkpoint(1, 2, 3, 4)
        assert theirs.word(320) % 2 == 0
        ring.put_phase(2, 100, step)
        put(ring, step)
    assert [r.step for r in theirs.records()] == [0, 1]
    assert theirs.phase == "data"


def test_a_second_process_cannot_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = TestRing()
    use(monkeypatch, theirs)
    struct.pack_into("<Q", theirs.map, 64, 1)
    ring = open_ring()
    assert ring is not None and not ring.claim() and not ring.is_free_or_mine()
    assert theirs.pid == 1


WRITER = """
from shanty.ring import open_ring
ring = open_ring()
k = 0
while True:
    v = k & 0xFFFFF
    ring.put_record(k, k, v, v, v, v, v, v, float(v), float(v), v, v)
    k += 1
"""


def test_no_torn_record_is_accepted_under_full_speed() -> None:
    # A small ring, so that the writer laps the reader all the time.
    ring = TestRing(capacity=16)
    writer = subprocess.Popen(
        [sys.executable, "-S", "-c", WRITER], env=environment(ring), pass_fds=(ring.fd,)
    )
    accepted = 0
    try:
        began = time.monotonic()
        while time.monotonic() < began + STRESS_S or accepted < ENOUGH:
            assert time.monotonic() < began + STRESS_LIMIT_S
            for record in ring.records():
                accepted += 1
                assert record.ended_at_ns == record.step
                assert set(astuple(record)[3:]) == {record.step & 0xFFFFF}
            assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert ring.missed > 0
