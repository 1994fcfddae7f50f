"""`shanty agent`: one node of a job, as pods and batch systems start it."""

import os
import signal
import subprocess

from conftest import SHANTY, shanty, wait_until
from ports import free_port

JOB = """
    job: pods
    run: {{script: {script}, args: [{go}]}}
    nodes: 2
    gpus_per_node: 1
"""
WAITS = """
    import os, sys, time
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
"""
SECRET = "the-secret-of-this-job"


class Pods:
    """Nodes of one job, each with the environment of an indexed Job's pod."""

    def __init__(self, start, script, tmp_path):
        self.go = tmp_path / "go"
        path = script(WAITS)
        self.job = script(JOB.format(script=path, go=self.go), "job.yaml")
        (tmp_path / "token").write_text(SECRET)
        self.env = {"SHANTY_TOKEN_FILE": str(tmp_path / "token")}
        self.port = free_port()
        self.start_run = start

    def start(self, index):
        return self.start_run(
            "--master-addr", "127.0.0.1", "--master-port", self.port, "--", self.job,
            verb="agent", env={**self.env, "JOB_COMPLETION_INDEX": str(index)},
        )


def runs_generation(run, generation, rank):
    return (run.dir / f"logs/gen-{generation:04}/rank-{rank:05}.log").exists()


def test_pods_of_an_indexed_job_form_one_world(start, script, tmp_path):
    pods = Pods(start, script, tmp_path)
    pods.go.touch()
    nodes = [pods.start(1), pods.start(0)]
    for node in nodes:
        assert node.wait().code == 0, node.describe()
    assert b"rank 1 of 2" in nodes[0].stdout and b"rank 0 of 2" in nodes[1].stdout
    for node in nodes:
        node.assert_nothing_left()
        assert SECRET.encode() not in node.stdout + node.stderr
        text = subprocess.run(["grep", "-r", SECRET, str(node.dir)], capture_output=True)
        assert text.stdout == b""


def replaced(start, script, tmp_path, index):
    """Ends node `index` by SIGTERM as an eviction does, starts it again; all others stay."""
    pods = Pods(start, script, tmp_path)
    nodes = [pods.start(0), pods.start(1)]
    wait_until(lambda: all(runs_generation(node, 1, i) for i, node in enumerate(nodes)),
               "both nodes run")
    nodes[index].process.send_signal(signal.SIGTERM)
    nodes[index].wait()
    assert nodes[index].code == 128 + signal.SIGTERM, nodes[index].describe()
    nodes[index].assert_nothing_left()
    stayed = nodes[1 - index]
    new = pods.start(index)
    wait_until(lambda: runs_generation(stayed, 2, 1 - index), "the next generation runs")
    pods.go.touch()
    assert new.wait().code == 0, new.describe() + stayed.describe()
    assert stayed.wait().code == 0, stayed.describe()
    for node in (new, stayed):
        node.assert_nothing_left()


def test_a_pod_that_is_evicted_can_be_replaced(start, script, tmp_path):
    replaced(start, script, tmp_path, 1)


def test_the_pod_with_the_coordinator_can_be_replaced(start, script, tmp_path):
    replaced(start, script, tmp_path, 0)


def test_a_pod_that_is_killed_can_be_replaced(start, script, tmp_path):
    pods = Pods(start, script, tmp_path)
    nodes = [pods.start(0), pods.start(1)]
    wait_until(lambda: all(runs_generation(node, 1, i) for i, node in enumerate(nodes)),
               "both nodes run")
    nodes[0].kill_everything()
    new = pods.start(0)
    wait_until(lambda: runs_generation(nodes[1], 2, 1), "the next generation runs")
    pods.go.touch()
    assert new.wait().code == 0 and nodes[1].wait().code == 0, new.describe()


def test_a_single_node_that_is_evicted_says_so(start, script, tmp_path):
    path = script(WAITS)
    run = start(path, tmp_path / "go", verb="agent", env={"JOB_COMPLETION_INDEX": "0"})
    wait_until(lambda: runs_generation(run, 1, 0), "it runs")
    run.process.send_signal(signal.SIGTERM)
    assert run.wait().code == 128 + signal.SIGTERM, run.describe()


def test_a_failed_job_is_no_eviction(start, script):
    run = start(script("raise SystemExit(7)"), verb="agent", env={"JOB_COMPLETION_INDEX": "0"})
    assert run.wait().code == 1, run.describe()


def test_an_index_outside_the_job_is_told(tmp_path, script):
    path = script("pass")
    result = shanty("agent", "--nnodes", 2, "--master-addr", "m", path,
                    env={**os.environ, "JOB_COMPLETION_INDEX": "2"})
    assert result.returncode == 2
    assert "--node-rank 2: expected 0 to 1" in result.stderr
    result = shanty("agent", path, env={**os.environ, "JOB_COMPLETION_INDEX": "x"})
    assert result.returncode == 2 and "JOB_COMPLETION_INDEX=x" in result.stderr


def test_installs_itself(tmp_path):
    result = shanty("agent", "--install", tmp_path / "opt" / "shanty")
    assert result.returncode == 0, result.stderr
    copy = tmp_path / "opt" / "shanty" / "shanty"
    assert copy.read_bytes() == SHANTY.read_bytes() and os.access(copy, os.X_OK)
    assert os.listdir(copy.parent) == ["shanty"]
    (tmp_path / "file").write_text("")
    result = shanty("agent", "--install", tmp_path / "file")
    assert result.returncode == 3 and str(tmp_path / "file") in result.stderr
