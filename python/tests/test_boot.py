"""What happens to scripts that have no torch, or an odd one: nothing they could notice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ring_reader import BOOT_DIR, PYTHON_DIR, Ended, TestRing, environment, finish, run, start

NAMED_LOOP = """
import shanty
for i in range(3):
    with shanty.phase("forward"):
        pass
    shanty.step(loss=1.0 / (i + 1), samples=4, step=10 + i, total=13)
print(shanty.running())
"""


def script(folder: Path, text: str, name: str = "script.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def with_path(*folders: object) -> str:
    return ":".join(str(folder) for folder in (BOOT_DIR, PYTHON_DIR, *folders))


def test_named_steps_need_no_torch(tmp_path: Path) -> None:
    ring = TestRing()
    ended = run(ring, script(tmp_path, NAMED_LOOP))
    assert (ended.code, ended.out, ended.err) == (0, "True\n", "")
    assert [r.step for r in ring.records()] == [10, 11, 12]
    assert (ring.pid, ring.total, ring.first_step) == (ended.pid, 13, 11)
    assert (ring.phase, ring.reason, ring.bits) == ("done", "", 128)
    assert ring.python_version == sys.version.split()[0]


def test_without_an_agent_the_calls_do_nothing(tmp_path: Path) -> None:
    ended = run(None, script(tmp_path, NAMED_LOOP))
    assert (ended.code, ended.out, ended.err) == (0, "False\n", "")


def test_the_package_alone_works_without_the_start_up_hook(tmp_path: Path) -> None:
    ring = TestRing()
    ended = run(ring, "-S", script(tmp_path, NAMED_LOOP))
    assert (ended.code, ended.out) == (0, "True\n")
    assert ring.head == 3


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_an_isolated_interpreter_runs_unhooked(tmp_path: Path, option: str) -> None:
    ring = TestRing()
    ended = run(ring, option, script(tmp_path, "print('ran')"))
    assert (ended.code, ended.out, ended.err) == (0, "ran\n", "")
    assert ring.python_version == "" and ring.phase == "unknown"


def test_odd_values_never_raise(tmp_path: Path) -> None:
    ring = TestRing()
    text = """
import shanty
class Odd:
    device = property(lambda self: 1 / 0)
shanty.step(loss="abc", samples=Odd(), step="x", total=[])
shanty.step(loss=float("nan"), samples=-1, step=-4, total=float("inf"))
shanty.step(loss=10**400, step=10**30, total=10**30)
shanty.total(None)
with shanty.phase("no such phase"):
    pass
try:
    with shanty.phase("eval"):
        raise KeyError("mine")
except KeyError:
    print(shanty.running())
"""
    ended = run(ring, script(tmp_path, text))
    assert (ended.code, ended.out, ended.err) == (0, "True\n", "")
    assert ring.head == 3


def test_the_hidden_sitecustomize_still_runs(tmp_path: Path) -> None:
    script(
        tmp_path / "site",
        "import sys; VALUE = 7; sys.stdout.write('theirs\\n')",
        "sitecustomize.py",
    )
    text = "import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)"
    ring = TestRing()
    ended = run(ring, script(tmp_path, text), PYTHONPATH=with_path(tmp_path / "site"))
    assert ended.out == f"theirs\n7 {tmp_path / 'site' / 'sitecustomize.py'}\n"
    assert ring.phase == "done"


def test_a_hidden_sitecustomize_that_fails_fails_as_it_always_did(tmp_path: Path) -> None:
    script(tmp_path / "site", "raise ValueError('theirs')", "sitecustomize.py")
    path = script(tmp_path, "print('ran')")
    hooked = run(TestRing(), path, PYTHONPATH=with_path(tmp_path / "site"))
    plain = run(None, path, PYTHONPATH=str(tmp_path / "site"))
    assert (hooked.code, hooked.out, hooked.err) == (plain.code, plain.out, plain.err)
    assert "theirs" in plain.err


ODD_TORCH = {
    "raises": "raise ImportError('libtorch is gone')",
    "empty": "",
    "no_versions": "from types import SimpleNamespace\nautograd = optim = None\n__version__ = 5",
    "exits": "import sys; sys.exit(9)",
}


@pytest.mark.parametrize("kind", ODD_TORCH)
def test_an_odd_torch_changes_nothing(tmp_path: Path, kind: str) -> None:
    script(tmp_path, ODD_TORCH[kind], "torch/__init__.py")
    text = """
import sys
for _ in range(2):
    try:
        import torch
        print(torch.__spec__.name, type(torch.__spec__.loader).__name__)
    except ImportError as error:
        print(error)
"""
    path = script(tmp_path, text)
    ring = TestRing()
    hooked, plain = run(ring, path), run(None, path)
    assert (hooked.code, hooked.out) == (plain.code, plain.out)
    assert plain.err == ""
    expected = 0 if kind in ("raises", "exits") else 1
    assert hooked.err.count("\n") == expected and hooked.err.count("shanty: ") == expected
    assert bool(ring.reason) == bool(expected)


def test_an_odd_torch_with_broken_parts(tmp_path: Path) -> None:
    script(
        tmp_path,
        "import torch.optim.optimizer, torch.autograd, torch.serialization",
        "torch/__init__.py",
    )
    for name in ("optim/__init__", "optim/optimizer", "autograd/__init__", "serialization"):
        script(tmp_path, "", f"torch/{name}.py")
    ring = TestRing()
    ended = run(ring, script(tmp_path, "import torch; print('ran')"))
    assert (ended.code, ended.out) == (0, "ran\n")
    assert ring.bits == 0 and "is off" in ring.reason
    assert len(ended.err.splitlines()) == 3


CHILDREN = """
import multiprocessing, os, subprocess, sys
import shanty

def child(how):
    shanty.step(step=666)
    sys.stdout.write(f"{how} {shanty.running()}\\n")

if __name__ == "__main__":
    shanty.step(step=1)
    for how in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(how).Process(target=child, args=(how,))
        process.start()
        process.join()
    code = "import shanty; shanty.step(step=666); print('{}', shanty.running())"
    subprocess.run([sys.executable, "-c", code.format("subprocess")])
    os.system(f'{sys.executable} -c "{code.format("shell")}"')
    shanty.step(step=2)
"""


def test_children_of_the_worker_never_write(tmp_path: Path) -> None:
    ring = TestRing()
    ended = run(ring, "-u", script(tmp_path, CHILDREN))
    assert ended.err == ""
    assert ended.out.split("\n")[:-1] == [
        f"{how} False" for how in ("fork", "spawn", "forkserver", "subprocess", "shell")
    ]
    assert [r.step for r in ring.records()] == [1, 2]
    assert ring.pid == ended.pid


def test_another_interpreter_of_the_process_never_writes(tmp_path: Path) -> None:
    text = """
import shanty
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
shanty.step(step=4)
other = interpreters.create()
interpreters.run_string(other, "import shanty; shanty.step(step=666)")
interpreters.destroy(other)
print("destroyed", flush=True)
input()
"""
    ring = TestRing()
    process = start(ring, script(tmp_path, text), stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "destroyed\n"
    assert (ring.phase, ring.step_in_work) == ("other", 5)
    assert finish(process).pid == ring.pid and [r.step for r in ring.records()] == [4]


def test_a_script_that_executes_itself_again_keeps_its_ring(tmp_path: Path) -> None:
    text = """
import os, sys, shanty
shanty.step(step=len(sys.argv))
if len(sys.argv) < 3:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
"""
    ring = TestRing()
    assert run(ring, script(tmp_path, text)).code == 0
    assert [r.step for r in ring.records()] == [1, 2, 3]


def test_the_injected_exit_happens_at_the_end_of_a_step(tmp_path: Path) -> None:
    text = """
import sys, shanty
for i in range(1000):
    sys.stdin.readline()
    print("working", end="")
    shanty.step(step=i)
    print("never seen" if i else "", flush=True)
"""
    ring = TestRing()
    env = environment(ring)
    process = subprocess.Popen(
        [sys.executable, script(tmp_path, text)],
        env=env,
        pass_fds=(ring.fd,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "working\n"
    ring.order(1 | 42 << 8)
    process.stdin.write("\n")
    process.stdin.flush()
    ended = finish(process)
    assert (ended.code, ended.out, ended.err) == (42, "working", "")
    assert [r.step for r in ring.records()] == [0, 1]


# The file that names the error which ended the script.


def ending(tmp_path: Path, text: str, ring: TestRing | None = None) -> tuple[Ended, Ended, dict]:
    """Runs the script with the error file and plainly: they must look the same."""
    path = script(tmp_path, text)
    file = tmp_path / "error.json"
    plain = run(None, path)
    env = {} if ring is not None else {"SHANTY_WORKER_PID": "1"}
    hooked = run(ring, path, SHANTY_ERROR_FILE=str(file), **env)
    assert (hooked.code, hooked.out, hooked.err) == (plain.code, plain.out, plain.err)
    found = json.loads(file.read_text()) if file.exists() else {}
    assert sorted(p.name for p in tmp_path.glob("error*")) == (["error.json"] if found else [])
    return hooked, plain, found


def test_an_uncaught_exception_is_described(tmp_path: Path) -> None:
    text = "import shanty\nshanty.step(step=4)\nopen('/nowhere/at all')\n"
    before = time.time_ns()
    hooked, _, error = ending(tmp_path, text, TestRing())
    assert hooked.code == 1
    assert (error["type"], error["step"], error["phase"]) == ("FileNotFoundError", 5, "other")
    assert "/nowhere/at all" in error["message"]
    assert "open('/nowhere/at all')" in error["traceback"]
    assert error["pid"] == hooked.pid and error["thread"] == ""
    assert before < error["time_unix_ns"] < time.time_ns()


def test_long_and_unprintable_errors_are_bounded(tmp_path: Path) -> None:
    text = """
class Bad(Exception):
    def __str__(self):
        return "ü" * 100_000
def deep(n):
    if n == 0:
        raise Bad()
    deep(n - 1) if n % 2 else deep(n - 1)
deep(400)
"""
    _, _, error = ending(tmp_path, text, TestRing())
    assert error["type"] == "__main__.Bad"
    assert 0 < len(error["message"].encode()) <= 4096
    assert 0 < len(error["traceback"].encode()) <= 32768


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('said so')", 1),
        ("import os; os._exit(5)", 5),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("raise KeyboardInterrupt", -2),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", 0),
    ],
)
def test_other_ends_leave_no_file_and_keep_their_code(tmp_path: Path, text: str, code: int) -> None:
    hooked, _, error = ending(tmp_path, text, TestRing())
    assert hooked.code == code and error == {}


def test_a_syntax_error_is_described(tmp_path: Path) -> None:
    _, _, error = ending(tmp_path, "def broken(:\n", TestRing())
    assert error["type"] == "SyntaxError"


def test_the_main_threads_error_wins_over_a_threads(tmp_path: Path) -> None:
    threaded = """
import threading
def fail():
    raise ValueError("in a thread")
t = threading.Thread(target=fail, name="helper"); t.start(); t.join()
"""
    ring = TestRing()
    path = script(tmp_path, threaded + "print('goes on')")
    file = tmp_path / "error.json"
    ended = run(ring, path, SHANTY_ERROR_FILE=str(file))
    assert (ended.code, ended.out) == (0, "goes on\n") and "in a thread" in ended.err
    assert json.loads(file.read_text())["thread"] == "helper"
    run(
        TestRing(),
        script(tmp_path, threaded + "raise KeyError('main')"),
        SHANTY_ERROR_FILE=str(file),
    )
    assert json.loads(file.read_text())["type"] == "KeyError"


def test_only_the_worker_writes_the_file(tmp_path: Path) -> None:
    # Neither the claimed pid nor a ring: some other Python program that the worker started.
    _, _, error = ending(tmp_path, "raise ValueError('helper program')")
    assert error == {}
    text = """
import multiprocessing, os
def child():
    raise ValueError("child")
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        p = multiprocessing.get_context(how).Process(target=child); p.start(); p.join()
    if os.fork() == 0:
        raise ValueError("forked")
    os.wait()
"""
    path = script(tmp_path, text)
    ended = run(TestRing(), path, SHANTY_ERROR_FILE=str(tmp_path / "error.json"))
    assert ended.code == 0 and ended.err.count("\nValueError: ") == 3
    assert not (tmp_path / "error.json").exists()


def test_the_claimed_pid_is_enough_without_a_ring(tmp_path: Path) -> None:
    text = "import os, sys\nos.environ['SHANTY_WORKER_PID'] = str(os.getpid())\nraise ValueError(1)"
    _, _, error = ending(tmp_path, text)
    assert error["type"] == "ValueError" and error["step"] is None


def test_a_hook_of_the_script_replaces_ours_or_chains(tmp_path: Path) -> None:
    text = """
import sys
before = sys.excepthook
sys.excepthook = lambda *a: (print("theirs"), before(*a))
raise ValueError("seen by both")
"""
    hooked, _, error = ending(tmp_path, text, TestRing())
    assert hooked.out == "theirs\n" and error["message"] == "seen by both"


def test_a_broken_installation_says_so_and_goes_on(tmp_path: Path) -> None:
    ring = TestRing()
    process = start(ring, script(tmp_path, "print('ran')"), PYTHONPATH=str(BOOT_DIR))
    ended = finish(process)
    assert (ended.code, ended.out) == (0, "ran\n")
    assert ended.err.startswith("shanty: running unhooked: ModuleNotFoundError")
    assert len(ended.err.splitlines()) == 1
