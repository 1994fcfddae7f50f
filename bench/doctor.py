"""How fast `shanty doctor` reads logs, beside grep -E of the same patterns and ripgrep.

    make bench-doctor            # 1 GB of each kind, and a stream of 10 GB
    bench/doctor.py --megabytes 100 --stream-gigabytes 1
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHANTY = ROOT / "build" / "shanty"
PIECE_MB = 32


def quiet_piece(rng) -> bytes:
    """Lines in which nothing is recognised."""
    out, size = [], 0
    while size < PIECE_MB << 20:
        line = (f"2025-11-29T10:04:05.{rng.randrange(999999):06d}Z pool {rng.randrange(977)} heartbeat ok "
                f"latency_us={rng.randrange(9999)} queue={rng.randrange(13)} bytes={rng.randrange(1 << 40)}\n")
        out.append(line)
        size += len(line)
    return "".join(out).encode()


def nccl_piece(rng) -> bytes:
    """NCCL INFO of 512 ranks: the mix that NCCL_DEBUG=INFO prints while it connects."""
    out, size = [], 0
    version = "NCCL version 2.21.5+cuda12.4\n"
    rank = 0
    while size < PIECE_MB << 20:
        node, dev = f"dgx-{rank // 8:03d}", rank % 8
        head = f"{node}:{2000 + dev}:{3000 + dev} [{dev}] NCCL INFO "
        lines = [version, f"{head}Bootstrap : Using eth0:10.0.{rank // 8}.1<0>\n",
                 f"{head}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.{rank // 8}.1<0>\n",
                 f"{head}Using network IB\n",
                 f"{head}ncclCommInitRank comm 0x55d0 rank {rank} nranks 512 cudaDev {dev} nvmlDev {dev} busId "
                 f"{dev}b000 commId 0xabc - Init START\n",
                 f"{head}Setting affinity for GPU {dev} to ffffffff,00000000\n"]
        for channel in range(24):
            peer = (rank + 1) % 512
            via = "[send] via NET/IB/0/GDRDMA" if dev == 7 else "via P2P/CUMEM/read"
            lines.append(f"{head}Channel {channel:02d}/0 : {rank}[{dev}] -> {peer}[{peer % 8}] {via}\n")
        trees = " ".join(f"[{c}] {rank + 1}/-1/-1->{rank}->{rank - 1}" for c in range(24))
        lines += [f"{head}Trees {trees}\n", f"{head}P2P Chunksize set to 131072\n", f"{head}Connected all rings\n",
                  f"{head}24 coll channels, 0 nvls channels, 32 p2p channels, 4 p2p channels per peer\n",
                  f"{head}comm 0x55d0 rank {rank} nranks 512 cudaDev {dev} nvmlDev {dev} busId {dev}b000 commId "
                  "0xabc - Init COMPLETE\n"]
        out += lines
        size += sum(map(len, lines))
        rank = (rank + 1) % 512
    return "".join(out).encode()


def needles() -> list[str]:
    found = []
    for path in sorted((ROOT / "src/logs/events").glob("*.cc")):
        for text in re.findall(r'k(?:Cause|Fatal|Victim|Fact),\s*"((?:[^"\\]|\\.)*)"', path.read_text()):
            found.append(text.replace('\\"', '"'))
    return sorted(set(found))


def measure(command, feed=None) -> tuple[float, float]:
    """CPU seconds and peak memory in MiB of one command."""
    # A file: grep stops at the first match where nobody reads what it prints.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.DEVNULL)
    if feed:
        threading.Thread(target=feed, args=(process.stdin,), daemon=True).start()
    peak_kib = 0
    while True:
        pid, _, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:  # not ru_maxrss: that counts this Python before the exec
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak_kib = max(peak_kib, *map(int, re.findall(r"VmHWM:\s+(\d+)", status)), 0)
        except OSError:
            pass
        time.sleep(0.02)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime, peak_kib / 1024


def row(what, size_bytes, command, feed=None):
    cpu, memory = min(measure(command, feed) for _ in range(1 if feed else 3))
    print(f"| {what} | {size_bytes / 1e6 / cpu:,.0f} MB/s | {memory:.0f} MiB |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--stream-gigabytes", type=int, default=10)
    options = parser.parse_args()
    rng = random.Random(1)
    print("Per second of CPU time of one core; logs in the page cache.\n\n| what | speed | memory |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        patterns = Path(directory) / "patterns"
        patterns.write_text("\n".join(re.sub(r"([][\\^$.|?*+(){}])", r"\\\1", n) for n in needles()) + "\n")
        for name, piece in ("nothing matches", quiet_piece(rng)), ("NCCL INFO", nccl_piece(rng)):
            path = Path(directory) / "log"
            with open(path, "wb") as out:
                for _ in range(max(1, (options.megabytes << 20) // len(piece))):
                    out.write(piece)
            size = path.stat().st_size
            row(f"shanty doctor, {name}", size, [SHANTY, "doctor", path])
            row(f"grep -cE of its {len(needles())} patterns, {name}", size, ["grep", "-cE", "-f", patterns, path])
            if not shutil.which("rg"):
                print(f"| ripgrep, {name} | left out: not installed (packages-bench.txt) | |")
            else:
                row(f"ripgrep, {name}", size, ["rg", "-c", "--no-mmap", "-j1", "-f", patterns, path])
        count = (options.stream_gigabytes << 30) // len(piece)

        def feed(pipe):
            try:
                for _ in range(count):
                    pipe.write(piece)
            except BrokenPipeError:
                pass
            pipe.close()

        row(f"shanty doctor -, {options.stream_gigabytes} GiB of NCCL INFO as a stream", count * len(piece),
            [SHANTY, "doctor", "-"], feed)


if __name__ == "__main__":
    main()
