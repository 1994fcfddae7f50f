"""ps, top, logs and report from another terminal, on running, finished and broken runs."""

import json
import os
import subprocess

import pytest

from conftest import LIMIT_S, SHANTY, shanty, wait_until

SCRIPT = """
    import os, sys, time
    rank = os.environ["RANK"]
    print("common line", flush=True)
    print("only from rank", rank, flush=True)
    print("an error of rank", rank, file=sys.stderr, flush=True)
    while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
"""


@pytest.fixture
def finished(start, script):
    run = start("--nproc-per-node", 2, script(SCRIPT)).wait()
    assert run.code == 0, run.describe()
    return run


def test_a_running_job_can_be_read_and_followed(start, script, tmp_path):
    go = tmp_path / "go"
    run = start("--nproc-per-node", 2, script(SCRIPT), go)
    wait_until(lambda: "only from rank 1" in shanty("logs", run.dir).stdout, "logs show rank 1")
    follower = subprocess.Popen([SHANTY, "logs", run.dir, "-f"], stdout=subprocess.PIPE, text=True)
    top = json.loads(shanty("top", run.dir, "--json").stdout)
    assert len(top["ranks"]) in (0, 2)
    go.touch()
    run.wait()
    out, _ = follower.communicate(timeout=LIMIT_S)
    assert "only from rank 0" in out and follower.returncode == 0


def test_ps_lists_runs_of_the_state_directory(script, tmp_path):
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    path = script("print(1)", name="listed.py")
    assert shanty("run", "--no-python", "/bin/true", env=env).returncode == 0
    assert shanty("run", "--no-python", "/bin/false", env=env).returncode == 1
    text = shanty("ps", env=env).stdout
    assert "true" in text and "succeeded" in text and "false" in text and "failed" in text, text
    assert path.exists()


def test_a_run_elsewhere_is_found_by_its_name(start, script):
    run = start(script("print(1)", name="elsewhere.py")).wait()
    env = {**os.environ, "XDG_STATE_HOME": run.env["XDG_STATE_HOME"]}
    assert "elsewhere" in shanty("ps", env=env).stdout
    assert shanty("report", "elsewhere", env=env).returncode == 0


def test_logs_can_be_narrowed(finished):
    assert "rank 0" not in shanty("logs", finished.dir, "--rank", 1).stdout
    errors = shanty("logs", finished.dir, "--grep", "error of rank [01]", "--stream", "err")
    assert errors.stdout == "" and errors.stderr.count("an error of rank") == 2, errors
    assert "common line" not in shanty("logs", finished.dir, "--grep", "only").stdout
    bad = shanty("logs", finished.dir, "--grep", "(")
    assert bad.returncode == 2 and bad.stderr


def test_report_and_top_work_on_a_finished_run(finished):
    report = json.loads(shanty("report", finished.dir, "--json").stdout)
    assert report["outcome"] == "succeeded"
    assert shanty("report", finished.dir).returncode == 0
    assert shanty("top", finished.dir, "--once").returncode == 0


def test_torn_files_are_told_and_read(finished):
    for path in [*finished.dir.glob("events/*.jsonl"), *finished.dir.glob("logs/*/*.idx")]:
        data = path.read_bytes()
        path.write_bytes(data[:-7])
    result = shanty("logs", finished.dir)
    assert result.returncode == 0 and "only from rank 1" in result.stdout
    assert shanty("report", finished.dir).stdout


def test_garbage_in_every_file_never_crashes_a_reader(finished):
    files = [path for path in finished.dir.rglob("*") if path.is_file() and "python" not in
             path.parts and path.name != "run.json"]
    for path in files:
        path.write_bytes(os.urandom(5000))
    for verb in (["logs"], ["report"], ["top", "--once"], ["report", "--json"]):
        result = shanty(verb[0], finished.dir, *verb[1:])
        assert result.returncode in (0, 1, 3), (verb, result)


def test_an_unknown_run_is_told(tmp_path):
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    for verb in ("logs", "top", "report"):
        result = shanty(verb, "no-such-run", env=env)
        assert result.returncode in (2, 3) and "no-such-run" in result.stderr
