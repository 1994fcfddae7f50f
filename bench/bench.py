"""`make bench`: shanty's figures next to torchrun's, from one run on this machine.

Every pair is measured in turn (peer, shanty, peer, shanty ...), medians are printed with the ratio.
What falls short is printed as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHANTY = str(ROOT / "build/shanty")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]

ROWS: list[tuple[str, str, str, str, str]] = []


def row(what: str, ours: str, peer: str, ratio: str, goal: str) -> None:
    ROWS.append((what, ours, peer, ratio, goal))
    print(f"  {what:<58} {ours:>14} {peer:>14} {ratio:>8}   {goal}", flush=True)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Work:
    """A directory with scripts, and the environment every measured command gets."""

    def __init__(self, path: Path):
        self.path = path
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SHANTY_", "PET_"))},
            "XDG_STATE_HOME": str(path / "state"),
            "OMP_NUM_THREADS": "1",
        }

    def script(self, name: str, text: str) -> str:
        path = self.path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def popen(self, command: list[str], **kwargs) -> subprocess.Popen:
        return subprocess.Popen(command, env={**self.env, **kwargs.pop("env", {})},
                                cwd=self.path, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, **kwargs)


def shanty_run(*flags: object) -> list[str]:
    return [SHANTY, "run", "--quiet", "--python", sys.executable, *map(str, flags)]


def start_of_agents(work: Work, agents: int, launcher: str) -> float:
    """Seconds from starting all agents to the first line of the last worker."""
    marks = Path(tempfile.mkdtemp(dir=work.path))
    worker = work.script(
        "first_line.sh", f"#!/bin/sh\ndate +%s.%N > $MARKS/$RANK.tmp; mv $MARKS/$RANK.tmp $MARKS/$RANK\n"
    )
    port = free_port()
    flags = ["--nnodes", agents, "--nproc-per-node", 1, "--rdzv-backend", "c10d",
             "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench", "--no-python",
             "/bin/sh", worker]
    command = shanty_run(*flags) if launcher == "shanty" else TORCHRUN + list(map(str, flags))
    begin = time.time()
    processes = [work.popen(command, env={"MARKS": str(marks)}) for _ in range(agents)]
    for process in processes:
        process.wait(timeout=300)
    return max(float((marks / str(rank)).read_text()) for rank in range(agents)) - begin


def one_command_start(work: Work, agents: int) -> float:
    marks = Path(tempfile.mkdtemp(dir=work.path))
    worker = str(work.path / "first_line.sh")
    begin = time.time()
    work.popen(shanty_run("--nnodes", agents, "--no-python", "/bin/sh", worker),
               env={"MARKS": str(marks)}).wait(timeout=300)
    return max(float((marks / str(rank)).read_text()) for rank in range(agents)) - begin


def bench_start(work: Work, quick: bool) -> None:
    for agents in (2, 8, 16):
        repeats = 1 if quick or agents > 8 else 2
        peer = [start_of_agents(work, agents, "torchrun") for _ in range(repeats)]
        ours = [start_of_agents(work, agents, "shanty") for _ in range(max(3, repeats))]
        a, b = statistics.median(ours), statistics.median(peer)
        row(f"{agents} agents started -> all first lines", f"{a:.2f} s", f"{b:.2f} s",
            f"{b / a:.0f}x", ">= 10x at 16" if agents == 16 else "")
    row("16 agents by one command -> all first lines",
        f"{statistics.median(one_command_start(work, 16) for _ in range(3)):.2f} s", "-", "", "")


RESTART = """
    import os, time
    generation = os.environ["TORCHELASTIC_RESTART_COUNT"]
    marks = os.environ["MARKS"]
    def mark(name):
        path = os.path.join(marks, f"{name}-{os.environ['RANK']}-{generation}")
        with open(path + ".tmp", "w") as f:
            f.write(f"{time.time()} {os.getpid()}")
        os.rename(path + ".tmp", path)
    mark("begin")
    import torch
    mark("imported")
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step():
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    step()
    mark("step")
    while generation == "0":
        step()
        time.sleep(0.01)
"""


def wait_for(path: Path) -> tuple[float, int]:
    deadline = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.002)
    moment, pid = path.read_text().split()
    return float(moment), int(pid)


def restart(work: Work, launcher: str) -> dict[str, float]:
    marks = Path(tempfile.mkdtemp(dir=work.path))
    script = work.script("restart.py", RESTART)
    flags = ["--nproc-per-node", 2, "--max-restarts", 3, script]
    command = (shanty_run(*flags) if launcher == "shanty"
               else TORCHRUN + ["--standalone"] + list(map(str, flags)))
    process = work.popen(command, env={"MARKS": str(marks)})
    wait_for(marks / "step-0-0")
    _, victim = wait_for(marks / "step-1-0")
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    begin = max(wait_for(marks / f"begin-{rank}-1")[0] for rank in (0, 1))
    step = max(wait_for(marks / f"step-{rank}-1")[0] for rank in (0, 1))
    process.wait(timeout=120)
    figures = {"begin": begin - killed, "step": step - killed}
    if launcher == "shanty":
        figures.update(restart_parts(max((work.path / "state/shanty/runs").iterdir(),
                                         key=os.path.getmtime), killed))
    return figures


def restart_parts(run: Path, killed: float) -> dict[str, float]:
    """By the run's own events: until the killed process had ended, until its neighbour had, and
    from there to the new processes."""
    events = []
    for file in (run / "events").glob("*.jsonl"):
        events += [json.loads(line) for line in file.read_text().splitlines()]

    def moments(generation: int, *kinds: str) -> list[float]:
        return [event["unix_ns"] / 1e9 for event in events
                if event.get("generation") == generation and event["kind"] in kinds]

    ends = sorted(moments(1, "worker_exited", "worker_failed"))
    started = moments(2, "workers_started")[0]
    return {"killed": ends[0] - killed, "neighbour": ends[-1] - ends[0],
            "shanty": started - ends[-1]}


def bench_restart(work: Work, quick: bool) -> None:
    ours, peer = [], []
    for _ in range(2 if quick else 5):
        peer.append(restart(work, "torchrun"))
        ours.append(restart(work, "shanty"))

    def median(samples, key):
        return statistics.median(sample[key] for sample in samples)

    for key, what, goal in (
        ("step", "kill -9 of a rank -> first step of the next generation", "faster"),
        ("begin", "... of that, up to the script's first line", ""),
    ):
        a, b = median(ours, key), median(peer, key)
        row(what, f"{a * 1000:.0f} ms", f"{b * 1000:.0f} ms", f"{b / a:.1f}x", goal)
    for key, what, goal in (
        ("killed", "the kernel ends the killed process", ""),
        ("neighbour", "its neighbour ends, after SIGTERM", ""),
        ("shanty", "shanty: last end -> new processes", "<= 50 ms"),
    ):
        row(f"... ... {what}", f"{median(ours, key) * 1000:.0f} ms", "", "", goal)
    python = statistics.median(two_python_starts() for _ in range(5))
    row("... ... for comparison: two bare Pythons start at once", f"{python * 1000:.0f} ms",
        "", "", "")


def two_python_starts() -> float:
    begin = time.time()
    pair = [subprocess.Popen([sys.executable, "-u", "-c", "import time; print(time.time())"],
                             stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return max(float(python.communicate()[0]) for python in pair) - begin


def pss_and_cpu(pid: int) -> tuple[int, float]:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    pss = int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.M).group(1))
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return pss, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def precise_cpu_s(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def find_child(process: subprocess.Popen, marker: str) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, ValueError):
                    continue
                if parent == process.pid and marker in line:
                    return int(entry.name)
        time.sleep(0.05)
    raise TimeoutError(marker)


def bench_idle(work: Work, quick: bool) -> None:
    seconds = 5 if quick else 20
    flags = ["--nproc-per-node", "2", "--no-python", "/bin/sleep", str(seconds + 30)]
    peer = work.popen(TORCHRUN + ["--standalone"] + flags)
    ours = work.popen(shanty_run(*flags))
    agent = find_child(ours, "shanty agent")
    time.sleep(8)  # both have settled
    before = {pid: precise_cpu_s(pid) for pid in (agent, peer.pid)}
    time.sleep(seconds)
    shares = {pid: (precise_cpu_s(pid) - before[pid]) / seconds for pid in before}
    a, b = pss_and_cpu(agent)[0] / 1024, pss_and_cpu(peer.pid)[0] / 1024
    row("agent memory (PSS), two idle workers", f"{a:.1f} MB", f"{b:.0f} MB", f"{b / a:.0f}x",
        "< 10 MB")
    row("agent CPU, two idle workers", f"{shares[agent]:.3%}", f"{shares[peer.pid]:.3%}",
        f"{shares[peer.pid] / max(shares[agent], 1e-9):.1f}x", "< 0.1 % of a core")
    for process in (ours, peer):
        process.terminate()
        process.wait(timeout=60)


def bench_output(work: Work, quick: bool) -> None:
    lines = 200_000 if quick else 5_000_000
    script = work.script("output.py", f"""
        import os, time
        block = b"".join(b"%06d " % i + b"x" * 92 + b"\\n" for i in range(1000))
        begin = time.time()
        for _ in range({lines // 1000}):
            os.write(1, block)
        with open(os.path.join(os.environ["MARKS"], os.environ["RANK"]), "w") as f:
            f.write(str(time.time() - begin))
    """)
    ours, peer, wall_ours, wall_peer = [], [], [], []
    launchers = [("torchrun", peer, wall_peer), ("shanty", ours, wall_ours)]
    for turn in range(2 if quick else 11):
        # The first of two finds the machine as the second leaves it, so they change places.
        for launcher, figures, walls in launchers if turn % 2 else reversed(launchers):
            marks = Path(tempfile.mkdtemp(dir=work.path))
            logs = Path(tempfile.mkdtemp(dir=work.path))
            flags = ["--nproc-per-node", "2", "-r", "3", "--log-dir", str(logs), script]
            command = (shanty_run(*flags) if launcher == "shanty"
                       else TORCHRUN + ["--standalone"] + flags)
            begin = time.time()
            work.popen(command, env={"MARKS": str(marks)}).wait(timeout=300)
            walls.append(time.time() - begin)
            figures.append(max(float((marks / str(rank)).read_text()) for rank in (0, 1)))
            for file in logs.rglob("*"):
                if file.is_file():
                    file.unlink()
    megabytes = 2 * lines * 100 / 1e6
    a, b = statistics.median(ours), statistics.median(peer)
    ratio = statistics.median(theirs / mine for mine, theirs in zip(ours, peer))
    row(f"{megabytes:.0f} MB of output to files, as the workers see it",
        f"{megabytes / a:.0f} MB/s", f"{megabytes / b:.0f} MB/s", f"{ratio:.2f}x", ">= 1x")
    a, b = statistics.median(wall_ours), statistics.median(wall_peer)
    row("... whole job, start to exit", f"{a:.2f} s", f"{b:.2f} s", f"{b / a:.1f}x", ">= 1x")


def bench_simulation() -> None:
    test = "GangSimulation.TenThousandAgentsFormAWorldInOneRoundTrip"
    subprocess.run(["cmake", "--build", str(ROOT / "build"), "--target", "gang_test"],
                   check=True, capture_output=True)
    begin = time.time()
    out = subprocess.run([str(ROOT / "build/tests/gang_test"), f"--gtest_filter={test}"],
                         capture_output=True, text=True)
    verdict = "one round trip" if out.returncode == 0 else "FAILED"
    row(f"10,000 simulated agents form a world: {verdict}", f"{time.time() - begin:.2f} s", "-",
        "", "< 10 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--json", help="also write the rows to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shanty-bench-") as directory:
        work = Work(Path(directory))
        print(f"  {'':<58} {'shanty':>14} {'torchrun':>14} {'ratio':>8}   to reach")
        bench_start(work, arguments.quick)
        bench_restart(work, arguments.quick)
        bench_idle(work, arguments.quick)
        bench_output(work, arguments.quick)
        bench_simulation()
    print("\nstep hooks, with and without:", flush=True)
    subprocess.run([sys.executable, str(ROOT / "bench/hooks.py")])
    print("\nlinting scripts:", flush=True)
    subprocess.run([sys.executable, str(ROOT / "bench/lint_scripts.py")])
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(ROWS, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
