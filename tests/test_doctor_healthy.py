"""shanty doctor on healthy runs of this project: nothing above info, whatever part of them it gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import LIMIT_S, SHANTY
from ports import free_port

EXAMPLES = Path(__file__).parent.parent / "examples"
STEPS = "30"


def run(command, out, **more):
    env = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        env.pop(name, None)
    with open(out, "wb") as file:
        code = subprocess.run([str(part) for part in command], stdout=file, stderr=subprocess.STDOUT, env=env,
                              timeout=LIMIT_S).returncode
    assert code == 0, out.read_text()[-3000:]


def demo(base):
    run([sys.executable, EXAMPLES / "demo.py", "--steps", STEPS, "--kill-at", 0, "--run-dir", base / "run"],
        base / "screen.log")
    return [base / "run", base / "run" / "logs", base / "screen.log"]


def shanty_hello(base):
    run([SHANTY, "run", "--python", sys.executable, "--nproc-per-node=2", "--run-dir", base / "run",
         EXAMPLES / "hello.py"], base / "screen.log")
    return [base / "run", base / "run" / "logs", base / "screen.log"]


def torchrun_tee(base):
    run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--nnodes=1", "--master-addr=127.0.0.1",
         f"--master-port={free_port()}", "--log-dir", base / "logs", "--tee", "3", EXAMPLES / "chargpt" / "train.py",
         "--steps", STEPS, "--checkpoint", base / "saved", "--checkpoint-every", "10"], base / "screen.log",
        LOGLEVEL="INFO", TORCH_DISTRIBUTED_DEBUG="INFO")
    return [base / "logs", base / "screen.log", base]


def torchrun_redirects(base):
    run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--log-dir",
         base / "logs", "--redirects", "3", EXAMPLES / "hello.py"], base / "screen.log", TORCH_CPP_LOG_LEVEL="INFO")
    return [base / "logs", base / "screen.log"]


def loud_findings(paths):
    said = []
    for path in paths:
        result = subprocess.run([str(SHANTY), "doctor", "--json", str(path)], capture_output=True, text=True)
        loud = [f for f in json.loads(result.stdout)["findings"] if f["severity"] != "info"]
        assert result.returncode == (1 if loud else 0)
        said += loud
    return said


@pytest.mark.parametrize("job", [demo, shanty_hello, torchrun_tee, torchrun_redirects], ids=lambda job: job.__name__)
def test_says_nothing_loud_of_a_healthy_run(job, tmp_path):
    for turn in range(3):
        base = tmp_path / str(turn)
        base.mkdir()
        loud = loud_findings(job(base))
        # What else a busy machine does may slow a job down; not each time.
        if not loud or any(f["class"] != "slow" for f in loud):
            break
    assert not loud, json.dumps(loud, indent=1)
