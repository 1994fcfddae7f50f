"""Two ranks and one checkpoint engine, as on a node under `shanty run`: what the engine reads of the
storage when the ranks were killed and come back, and when another engine loads for both.

    python bench/ckpt_ranks.py save|load DIRECTORY      one rank, started by `measure`
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
RANKS = 2
LIMIT_S = 240


class Node:
    """An engine that outlives the ranks."""

    def __init__(self, binary: str) -> None:
        self.name = f"shanty-bench-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind("\0" + self.name)
            listener.listen(8)
            fd = listener.fileno()
            command = [binary, "ckpt-engine", "--listen-fd", str(fd)]
            self.engine = subprocess.Popen(
                [*command, "--parent-pid", str(os.getpid())], pass_fds=(fd,)
            )

    def start(self, mode: str, directory: Path) -> list[subprocess.Popen[str]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return [
            subprocess.Popen(
                [sys.executable, __file__, mode, str(directory)],
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "SHANTY_CKPT_SOCKET": self.name,
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(RANKS),
                    "LOCAL_WORLD_SIZE": str(RANKS),
                },
            )
            for rank in range(RANKS)
        ]

    def bytes_read(self) -> int:
        """From storage, which does not count what the page cache had."""
        for line in Path(f"/proc/{self.engine.pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
        raise ValueError("no read_bytes")

    def load(self, directory: Path) -> tuple[dict[str, Any], int]:
        """What rank 0 says of it, and the bytes read for both."""
        before = self.bytes_read()
        ranks = self.start("load", directory)
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        return json.loads(said[0].splitlines()[-1]), self.bytes_read() - before

    def close(self) -> None:
        self.engine.terminate()
        self.engine.wait(LIMIT_S)


def measure(binary: str, directory: Path, drop_cache: Callable[[], bool]) -> dict[str, Any]:
    node = Node(binary)
    try:
        ranks = node.start("save", directory)
        for rank in ranks:
            assert rank.stdout is not None and rank.stdout.readline() == "saved\n"
        for rank in ranks:
            rank.kill()
            rank.communicate()
        cold = drop_cache()
        memory, from_memory = node.load(directory)
    finally:
        node.close()
    node = Node(binary)
    try:
        cold = drop_cache() and cold
        disk, from_disk = node.load(directory)
    finally:
        node.close()
    unique = sum(path.stat().st_size for path in directory.glob("step-*/*/*"))
    return {
        "cold": cold,
        "memory": {**memory, "bytes_read": from_memory},
        "disk": {**disk, "bytes_read": from_disk, "amplification": from_disk / unique},
    }


def run_rank(mode: str, directory: str) -> None:
    sys.path.insert(0, str(ROOT / "python"))
    sys.path.insert(0, str(ROOT / "bench"))
    import torch
    import torch.distributed as dist

    from ckpt import make_state
    from shanty import Checkpointer

    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model, optimizer = make_state("layers")
    checkpointer = Checkpointer(directory).attach(model=model, optimizer=optimizer)
    if mode == "save":
        checkpointer.save(1).wait(LIMIT_S)
        print("saved", flush=True)
        time.sleep(LIMIT_S)  # until it is killed
    else:
        began = time.perf_counter()
        found = checkpointer.load()
        assert found is not None
        took = time.perf_counter() - began
        print(json.dumps({"source": found.source, "seconds": took}), flush=True)
        dist.barrier()
    checkpointer.close()


if __name__ == "__main__":
    run_rank(*sys.argv[1:])
