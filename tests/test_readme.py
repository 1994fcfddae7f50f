"""The README's commands, in its order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import LIMIT_S, ROOT

# Run by themselves or far too long for one test: demo and test are what CI runs anyway.
LEFT_OUT = ("make demo", "make test")


def commands():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    for line in "".join(blocks).splitlines():
        line = line.split("#")[0].strip()
        if line and line not in LEFT_OUT:
            yield line


def test_the_commands_of_the_readme_work(tmp_path):
    (ROOT / "build/hello.yaml").unlink(missing_ok=True)
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    seen = list(commands())
    assert len(seen) >= 8
    for command in seen:
        result = subprocess.run(command, shell=True, cwd=ROOT, env=env, capture_output=True,
                                text=True, timeout=LIMIT_S)
        assert result.returncode == 0, (command, result.stdout, result.stderr)


def test_the_demonstration_recovers_from_a_kill(tmp_path):
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    result = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py", "--steps", "24", "--run-dir", tmp_path / "run"],
        env=env, capture_output=True, text=True, timeout=2 * LIMIT_S,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["outcome"] == "succeeded" and report["generations"] == 2
    assert report["failures"][0]["rank"] == 1
    assert report["final_loss"] < 4.5
