"""The demonstration behind `make demo`: a real training job that loses a rank and goes on.

Trains a small character-level transformer with DistributedDataParallel over gloo on two nodes of
one rank each, played on this machine; kills rank 1 half-way; recovers from the last checkpoint;
prints the report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--kill-at", type=int, help="default: soon after half-way; 0 = do not")
    parser.add_argument("--run-dir", help="default: below the state directory")
    arguments = parser.parse_args()
    kill_at = arguments.steps * 5 // 9 if arguments.kill_at is None else arguments.kill_at

    with tempfile.TemporaryDirectory(prefix="shanty-demo-") as work:
        job = Path(work) / "chargpt.yaml"
        job.write_text(
            "job: chargpt-demo\n"
            f"run: {{script: {ROOT}/examples/chargpt/train.py, args: [--steps, '{arguments.steps}',"
            f" --checkpoint, {work}/checkpoints, --checkpoint-every, '20']}}\n"
            "nodes: 2\n"
            "gpus_per_node: 1\n"
            f"steps: {arguments.steps}\n"
        )
        command = [str(ROOT / "build/shanty"), "run", "--python", sys.executable]
        if arguments.run_dir:
            command += ["--run-dir", arguments.run_dir]
        if kill_at:
            command += ["--inject", f"kill:rank=1,step={kill_at}"]
        command.append(str(job))
        print("$", " ".join(os.path.relpath(c) if c.startswith(str(ROOT)) else c for c in command),
              flush=True)
        return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
