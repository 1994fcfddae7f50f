"""Flight Recorder dumps: shanty doctor beside PyTorch's own analyser, and a set of 16,384 ranks.

    build/venv/bin/python bench/doctor_flight.py [--large]

--large writes 6.8 GB below build/ and takes minutes to write them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from flight_dumps import write_set

ROOT = Path(__file__).resolve().parent.parent
SHANTY = ROOT / "build" / "shanty"
WORK = ROOT / "build" / "bench-flight"
ENTRIES = 2000


def timed(command: list[str]) -> dict:
    """Wall and CPU seconds, peak memory and output of a command; os.wait4 tells its own."""
    began = time.monotonic()
    with open(WORK / "out", "w+b") as out, open(WORK / "err", "w+b") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {"wall_s": time.monotonic() - began, "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_mb": usage.ru_maxrss / 1024, "code": process.returncode,
            "out": (WORK / "out").read_text(), "err": (WORK / "err").read_text()}


def shanty(directory: Path, culprit: int) -> dict:
    run = timed([str(SHANTY), "doctor", str(directory), "--json"])
    findings = json.loads(run["out"])["findings"]
    run["right"] = bool(findings) and findings[0]["subject"]["ranks"] == [culprit]
    return run


def fr_trace(directory: Path, culprit: int) -> dict:
    run = timed([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(directory),
                 "-p", "nccl_trace_rank_"])
    text = run["out"] + run["err"]
    run["right"] = f"missing ranks: {{{culprit}}}" in text
    return run


def row(name: str, run: dict) -> str:
    right = "yes" if run["right"] else "no"
    return (f"| {name} | {right} | {run['wall_s']:.2f} s | {run['cpu_s']:.2f} s | "
            f"{run['peak_mb']:.0f} MB |")


def side_by_side(ranks: int):
    directory = WORK / str(ranks)
    culprit = ranks // 2 + 5
    # Without sends: torch's analyser takes those of one pair for each other by their place alone.
    size = write_set(directory, ranks, ENTRIES, culprit, p2p=False)
    ours, theirs = shanty(directory, culprit), fr_trace(directory, culprit)
    print(row(f"{ranks} ranks, {size / 1e6:.0f} MB: shanty doctor", ours))
    print(row("torch's fr_trace", theirs))
    print(f"| ratio | | {theirs['wall_s'] / ours['wall_s']:.0f}x | "
          f"{theirs['cpu_s'] / ours['cpu_s']:.0f}x | {theirs['peak_mb'] / ours['peak_mb']:.1f}x |")
    shutil.rmtree(directory)


def large():
    directory = WORK / "16384"
    size = write_set(directory, 16384, ENTRIES, 12345)
    print(row(f"16384 ranks x {ENTRIES} entries, {size / 1e9:.2f} GB: shanty doctor",
              shanty(directory, 12345)))
    shutil.rmtree(directory)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    print("| Flight Recorder dumps | rank named | wall | CPU | memory |")
    print("| --- | --- | --- | --- | --- |")
    for ranks in (64, 256):
        side_by_side(ranks)
    if "--large" in sys.argv:
        large()
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
