"""The program as a file: static, quick to start, at home in an empty root directory."""

import os
import shutil
import subprocess

import pytest

from conftest import ROOT, SHANTY, shanty


def test_is_a_static_pie_without_an_interpreter():
    headers = subprocess.run(["readelf", "-lh", SHANTY], capture_output=True, text=True).stdout
    assert "INTERP" not in headers
    assert "DYN (Position-Independent Executable file)" in headers


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_runs_in_an_empty_root_directory(tmp_path):
    shutil.copy(SHANTY, tmp_path / "shanty")
    (tmp_path / "job.yaml").write_text("job: tiny\nrun: {script: train.py}\n")

    def inside(*args):
        return subprocess.run(
            [f"/{SHANTY.name}", *args],
            capture_output=True,
            text=True,
            preexec_fn=lambda: (os.chroot(tmp_path), os.chdir("/")),
        )

    assert inside("--version").stdout.startswith("shanty ")
    plan = inside("plan", "job.yaml", "--json")
    assert plan.returncode == 0, plan.stderr
    assert '"world_size"' in plan.stdout


def test_usage_errors_have_exit_code_2_and_name_the_way_out():
    for args in ([], ["frobnicate"], ["run"], ["run", "--no-such-option", "x.py"], ["plan"]):
        result = shanty(*args)
        assert result.returncode == 2, (args, result)
        assert result.stdout + result.stderr


def test_a_result_that_cannot_be_written_is_no_success():
    for args in (["schema"], ["ps", "--json"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([SHANTY, *args], stdout=full, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 3 and "stdout" in result.stderr, result
    shut = subprocess.run([SHANTY, "plan", "/no/job.yaml"], stderr=open("/dev/full", "w"))
    assert shut.returncode == 2


def test_every_verb_has_help_with_examples():
    overview = shanty("--help").stdout
    verbs = [line.split()[0] for line in overview.splitlines() if line.startswith("  ")]
    verbs = [verb for verb in verbs if verb != "shanty"]
    assert {"run", "plan", "init", "schema", "ps", "top", "logs", "report"} <= set(verbs)
    for verb in verbs:
        result = shanty(verb, "--help")
        assert result.returncode == 0, verb
        assert result.stdout.count(f"shanty {verb}") >= 2, f"{verb}: fewer than two examples"


def test_no_trace_of_the_build_machine_in_the_tree():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    for name in tracked.splitlines():
        text = (ROOT / name).read_bytes()
        assert b"/work" + b"/main" not in text, name
