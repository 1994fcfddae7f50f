"""Helpers for tests that drive the real program."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHANTY = ROOT / "build" / "shanty"
LIMIT_S = 300  # ends what hangs: no single run of a test takes longer, however busy the machine
COUNTER = itertools.count()

# Under nohup, or in the background of a script, these are ignored; programs that the tests start
# would inherit that and, as they should, not end by them.
for ignored in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


def wait_until(condition, what: str, limit_s: float = LIMIT_S):
    """Polls until `condition()` is true and returns its value; fails after limit_s."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what}: did not happen within {limit_s} s")


def processes_with(marker: str) -> dict[int, str]:
    """Living processes whose environment or command line holds `marker`: {pid: command line}."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            cmdline = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and (marker.encode() in environ or marker.encode() in cmdline):
            found[int(entry.name)] = cmdline.replace(b"\0", b" ").decode(errors="replace")
    return found


class Run:
    """One `shanty run` in a directory of its own, with everything it left readable."""

    def __init__(self, tmp_path: Path, *args: str, env: dict | None = None, cwd=None,
                 program: Path = SHANTY, verb: str = "run", **popen):
        self.dir = tmp_path / f"run-{next(COUNTER)}"
        self.marker = f"SHANTY_TEST_RUN={os.getpid()}-{id(self)}-{time.time_ns()}"
        name, value = self.marker.split("=")
        self.env = {
            **os.environ,
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "OMP_NUM_THREADS": "1",
            name: value,
            **(env or {}),
        }
        self.process = subprocess.Popen(
            [str(program), verb, "--run-dir", str(self.dir), "--python", sys.executable,
             *map(str, args)],
            env=self.env,
            cwd=cwd or tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **popen,
        )
        self.stdout = b""
        self.stderr = b""

    def wait(self, limit_s: float = LIMIT_S) -> "Run":
        try:
            self.stdout, self.stderr = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            left = self.processes()
            self.kill_everything()  # an orphan would hold the pipes open
            self.stdout, self.stderr = self.process.communicate()
            raise AssertionError(
                f"shanty run did not end within {limit_s} s; alive: {left}\n{self.describe()}"
            ) from None
        return self

    @property
    def code(self) -> int:
        return self.process.returncode

    def describe(self) -> str:
        events = "\n".join(f"{e['source']}: {e['kind']}: {e.get('text', '')}" for e in self.events())
        return (
            f"exit {self.process.poll()}\n--- stdout\n{self.stdout.decode(errors='replace')[-4000:]}"
            f"\n--- stderr\n{self.stderr.decode(errors='replace')[-4000:]}\n--- events\n{events}"
        )

    def report(self) -> dict:
        return json.loads((self.dir / "report.json").read_text())

    def events(self) -> list[dict]:
        events = []
        for path in sorted((self.dir / "events").glob("*.jsonl")):
            for line in path.read_text(errors="replace").splitlines():
                try:
                    events.append(json.loads(line))
                except ValueError:
                    continue
        return sorted(events, key=lambda event: event["unix_ns"])

    def has_event(self, kind: str, **fields) -> bool:
        return any(
            event["kind"] == kind and all(event.get(k) == v for k, v in fields.items())
            for event in self.events()
        )

    def log(self, rank: int, generation: int = 1, suffix: str = "log") -> bytes:
        name = f"rank-{rank:05}.{suffix}"
        return (self.dir / "logs" / f"gen-{generation:04}" / name).read_bytes()

    def processes(self) -> dict[int, str]:
        return processes_with(self.marker)

    def part(self, what: str, node: int | None = None) -> int | None:
        """The pid of the "coordinator" or an "agent"."""
        found = [pid for pid, line in self.processes().items() if f"shanty {what} " in line]
        return min(found) if found else None

    def assert_nothing_left(self):
        left = {}

        def gone():
            left.clear()
            left.update(self.processes())
            return not left

        try:
            wait_until(gone, "all processes of the run end")
        except AssertionError:
            raise AssertionError(f"left behind: {left}\n{self.describe()}") from None

    def kill_everything(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + 60
        while self.processes() and time.monotonic() < deadline:
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def clean_up(self):
        self.kill_everything()
        for stream in (self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                stream.close()


@pytest.fixture
def start(tmp_path):
    """start(*args, env=...) -> Run; what is still alive at the end of the test is killed."""
    runs = []

    def start_run(*args, **kwargs) -> Run:
        run = Run(tmp_path, *args, **kwargs)
        runs.append(run)
        return run

    yield start_run
    for run in runs:
        run.clean_up()


@pytest.fixture
def script(tmp_path):
    """script(text, name="train.py") writes a script and returns its path."""

    def write(text: str, name: str = "train.py") -> Path:
        import textwrap

        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def shanty(*args, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(SHANTY), *map(str, args)], capture_output=True, text=True, errors="replace",
        timeout=LIMIT_S, **kwargs
    )
