"""The script that `shanty render --target slurm` writes, on a real Slurm of two nodes."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest

from conftest import SHANTY
from slurm_cluster import Slurm, why_not

JOB = """
job: tiny
run: {script: train.py, python: python}
nodes: 2
gpus_per_node: 1
restart: {max: 2, grace: 60s}
"""
HEAD = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    made = Slurm(tmp_path_factory.mktemp("slurm"))
    yield made
    made.close()


@pytest.fixture
def submit(slurm, tmp_path):
    """Renders the job for a training script and runs sbatch: submit(script, *options)."""

    def run(script, *options):
        (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(script))
        (tmp_path / "job.yaml").write_text(JOB)
        rendered = subprocess.run([str(SHANTY), "render", "job.yaml", "--target", "slurm"],
                                  cwd=tmp_path, capture_output=True, text=True, check=True)
        (tmp_path / "job.sbatch").write_text(rendered.stdout)
        # The two nodes have no GPUs.
        return slurm.run("sbatch", "--gpus-per-node=0", *options, "job.sbatch", cwd=tmp_path)

    return run


def log(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.glob("tiny-*.log"))


REPORT = ".shanty/tiny-*/run/report.json"


def report(directory: Path) -> dict:
    [path] = directory.glob(REPORT)
    return json.loads(path.read_text())


def test_trains_and_shows_each_line_once(slurm, submit, tmp_path):
    done = submit("""
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        sum = torch.ones(1)
        dist.all_reduce(sum)
        print(f"rank {rank} of {int(sum)} on {os.environ['SLURM_NODEID']}", flush=True)
        dist.destroy_process_group()
    """, "--wait")
    text = log(tmp_path)
    assert done.returncode == 0, done.stderr + text + slurm.describe()
    for rank in range(2):
        assert text.count(f"rank {rank} of 2 on {rank}") == 1, text
    assert text.count("tiny succeeded after") == 1, text
    assert report(tmp_path)["outcome"] == "succeeded"


def test_a_failure_is_the_jobs(slurm, submit, tmp_path):
    done = submit("sys.exit(5 if rank == 1 else 0)", "--wait")
    text = log(tmp_path)
    assert done.returncode == 1, done.stderr + text + slurm.describe()
    assert report(tmp_path)["outcome"] == "failed" and "rank 1" in text, text


def test_a_killed_rank_is_started_again(slurm, submit, tmp_path):
    done = submit("""
        if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    """, "--wait")
    text = log(tmp_path)
    assert done.returncode == 0, done.stderr + text + slurm.describe()
    assert report(tmp_path)["generations"] == 2, text


def test_scancel_lets_the_ranks_save_and_leaves_nothing(slurm, submit, tmp_path):
    done = submit("""
        def save(*_):
            # Slurm signals every process of a step, and the agent passes on what it got.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(f"rank {rank} saves", flush=True)
            os._exit(0)
        signal.signal(signal.SIGTERM, save)
        print(f"rank {rank} trains", flush=True)
        while True: time.sleep(0.1)
    """, "--parsable")
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    slurm.wait(lambda: log(tmp_path).count(" trains") == 2, "both ranks train")
    slurm.run("scancel", job)
    slurm.wait(lambda: slurm.ask("squeue", "-h", "-j", job) == "", "the job is gone")
    slurm.wait(lambda: not slurm.processes("train.py"), "no rank is left")
    slurm.wait(lambda: any(tmp_path.glob(REPORT)), "shanty has told how it ended")
    slurm.wait(lambda: log(tmp_path).count(" saves") == 2, "both ranks have said that they save")
    assert report(tmp_path)["outcome"] == "stopped"
