"""kill -9 of any single process: the job goes on or ends with a true account, nothing is left."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from conftest import LIMIT_S, SHANTY, processes_with, wait_until
from ports import free_port

WORKER = """
    import os, subprocess, sys, time
    helper = subprocess.Popen(["sleep", "1000"])
    print("ready", flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    helper.kill()
"""


def generations_ready(run, generation, ranks=4):
    def check():
        try:
            return all(b"ready" in run.log(rank, generation) for rank in range(ranks))
        except OSError:
            return False

    return check


def highest_generation(run):
    return max((int(p.name.split("-")[1]) for p in (run.dir / "logs").glob("gen-*")), default=0)


@pytest.fixture
def job(start, script, tmp_path):
    go = tmp_path / "go"
    run = start("--nnodes", 2, "--nproc-per-node", 2, script(WORKER), go)
    wait_until(generations_ready(run, 1), "the first generation is up")
    return run, go


def workers(run):
    return [pid for pid, line in run.processes().items() if "train.py" in line and "run" not in
            line.split()[1:2]]


def is_whole_without(run, killed):
    """All parts and ranks are there again: the next kill is one of a single process, too."""
    lines = run.processes()
    agents = sum("shanty agent " in line for line in lines.values())
    return (killed not in lines and agents == 2 and run.part("coordinator")
            and len(workers(run)) == 4 and generations_ready(run, highest_generation(run))())


def test_a_killed_coordinator_comes_back_and_costs_the_job_nothing(job):
    run, go = job
    before = sorted(workers(run))
    first = run.part("coordinator")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: run.has_event("coordinator_restarted"), "the coordinator is started again")
    wait_until(lambda: run.has_event("recovered"), "it has heard its agents")
    assert sorted(workers(run)) == before, run.describe()
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    assert run.report()["generations"] == 1 and run.report()["failures"] == []
    run.assert_nothing_left()


def test_parts_come_back_though_the_program_was_replaced(start, script, tmp_path):
    program = tmp_path / "shanty"
    shutil.copy(SHANTY, program)
    go = tmp_path / "go"
    run = start("--nproc-per-node", 2, script(WORKER), go, program=program)
    wait_until(generations_ready(run, 1, 2), "the first generation is up")
    program.unlink()
    program.write_text("an upgrade")
    for part in ("coordinator", "agent"):
        os.kill(run.part(part), signal.SIGKILL)
        wait_until(lambda: run.has_event(f"{part}_restarted"), f"the {part} is started again")
    wait_until(generations_ready(run, 2, 2), "a second generation is up")
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    run.assert_nothing_left()


def test_a_killed_agent_is_a_dead_node_and_the_job_goes_on(job):
    run, go = job
    os.kill(run.part("agent"), signal.SIGKILL)
    wait_until(generations_ready(run, 2), "the second generation is up")
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    report = run.report()
    assert report["generations"] == 2 and len(report["failures"]) == 1
    assert report["failures"][0]["rank"] in (-1, None)
    run.assert_nothing_left()


def test_a_killed_command_ends_the_job_with_a_true_account(job):
    run, _ = job
    run.process.kill()
    run.assert_nothing_left()
    report = run.report()
    assert report["outcome"] == "stopped", report
    assert "died" in report["reason"]


def test_a_killed_helper_of_a_worker_is_the_workers_own_affair(job):
    run, go = job
    helper = next(pid for pid, line in run.processes().items() if line.startswith("sleep"))
    os.kill(helper, signal.SIGKILL)
    go.touch()
    run.wait()
    assert run.code == 0 and run.report()["generations"] == 1, run.describe()
    run.assert_nothing_left()


def test_a_coordinator_killed_together_with_a_worker_still_restarts_the_gang(job):
    run, go = job
    victim = workers(run)[0]
    os.kill(run.part("coordinator"), signal.SIGKILL)
    os.kill(victim, signal.SIGKILL)
    wait_until(generations_ready(run, 2), "the second generation is up")
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    assert run.report()["generations"] == 2
    run.assert_nothing_left()


@pytest.mark.parametrize("seed", range(int(os.environ.get("SHANTY_RANDOM_KILLS", "12"))))
def test_random_kills_never_leave_an_orphan_or_a_false_account(job, seed):
    run, go = job
    rng = random.Random(seed)
    kills = 0
    for _ in range(3):
        candidates = sorted(run.processes().items())
        if not candidates:
            break
        pid, line = rng.choice(candidates)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills += 1
        if pid == run.process.pid:
            break
        wait_until(lambda: run.process.poll() is not None or is_whole_without(run, pid),
                   f"the job settles after kill {kills} ({line})")
    go.touch()
    run.wait()
    run.assert_nothing_left()
    report = run.report()
    if run.process.returncode == -signal.SIGKILL:
        assert report["outcome"] == "stopped", run.describe()
    else:
        assert (run.code == 0) == (report["outcome"] == "succeeded"), run.describe()
        assert run.code == 0, run.describe()


def test_a_checkpoint_engine_that_always_dies_is_not_started_for_ever(start, script):
    run = start(script("""
        import os, signal, socket, time
        from pathlib import Path

        def engines():
            for children in Path(f"/proc/{os.getppid()}/task").glob("*/children"):
                for child in children.read_text().split():
                    try:
                        words = Path(f"/proc/{child}/cmdline").read_bytes()
                    except OSError:
                        continue
                    if b"ckpt-engine" in words:
                        yield int(child)

        killed = set()
        try:
            while len(killed) < 200:
                with socket.socket(socket.AF_UNIX) as knock:
                    knock.connect("\\0" + os.environ["SHANTY_CKPT_SOCKET"])
                    for engine in set(engines()) - killed:
                        os.kill(engine, signal.SIGKILL)
                        killed.add(engine)
        except ConnectionRefusedError:
            print("refused after", len(killed))
    """)).wait()
    assert b"refused after" in run.stdout, run.describe()
    assert b"not started again" in run.stderr, run.describe()
    run.assert_nothing_left()


def rank_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as environ:
        words = environ.read().split(b"\0")
    return int(next(word for word in words if word.startswith(b"RANK=")).split(b"=")[1])


def is_zombie(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


# Of two ranks, 0 dies by what became of the other one.
FEELS_THE_OTHER = """
    import ctypes, os, sys, time
    libc = ctypes.CDLL(None, use_errno=True)
    first = os.environ["SHANTY_GENERATION"] == "1"
    libc.prctl(0x59616d61, -1, 0, 0, 0)  # anybody may trace this process, where Yama asks
    print("ready", flush=True)
    while first:
        time.sleep(0.01)
        if os.environ["RANK"] == "0" and os.path.exists(sys.argv[1]):
            raise RuntimeError("Connection closed by peer")
"""


def within_the_lease(attempt):
    """The run of attempt() that holds an agent up, for less than its lease: a busy machine may make
    it longer, which is another case."""
    for _ in range(5):
        run = attempt()
        if not run.has_event("agent_lost"):
            return run
    raise AssertionError(f"no agent was held up for less than its lease\n{run.describe()}")


def test_of_deaths_that_are_found_together_the_kill_is_the_cause(start, script, tmp_path):
    """An agent that is held up finds the killed rank and those that felt it dead at one look."""
    felt = tmp_path / "felt"

    def attempt():
        felt.unlink(missing_ok=True)
        run = start("--nproc-per-node", 2, script(FEELS_THE_OTHER), felt)
        wait_until(generations_ready(run, 1, 2), "the first generation is up")
        ranks = {rank_of(pid): pid for pid in workers(run)}
        agent = run.part("agent")
        os.kill(agent, signal.SIGSTOP)
        os.kill(ranks[1], signal.SIGKILL)
        felt.touch()
        wait_until(lambda: is_zombie(ranks[0]) and is_zombie(ranks[1]), "both ranks are dead")
        os.kill(agent, signal.SIGCONT)
        return run.wait()

    run = within_the_lease(attempt)
    assert run.code == 0, run.describe()
    report = run.report()
    assert report["generations"] == 2, report
    assert [(f["rank"], f["reason"]) for f in report["failures"]] == [(1, "killed by SIGKILL")]


def test_who_was_dead_before_a_stop_came_did_not_end_by_it(start, script, tmp_path):
    """The stop and the word of the death wait side by side for an agent that was held up."""
    dies = [tmp_path / f"die{rank}" for rank in (0, 1)]
    worker = script("""
        import os, sys, time
        rank = os.environ["RANK"]
        first = os.environ["SHANTY_GENERATION"] == "1"
        print("ready", flush=True)
        while first:
            time.sleep(0.01)
            if os.path.exists(sys.argv[1] + rank):
                raise RuntimeError("Connection closed by peer" if rank == "0" else "mine")
    """)

    def attempt():
        for path in dies:
            path.unlink(missing_ok=True)
        run = start("--nnodes", 2, "--max-restarts", 1, worker, tmp_path / "die")
        wait_until(generations_ready(run, 1, 2), "the first generation is up")
        ranks = {rank_of(pid): pid for pid in workers(run)}
        with open(f"/proc/{ranks[1]}/stat") as stat:
            agent = int(stat.read().rpartition(")")[2].split()[1])
        os.kill(agent, signal.SIGSTOP)
        dies[1].touch()
        wait_until(lambda: is_zombie(ranks[1]), "rank 1 is dead")
        dies[0].touch()
        wait_until(lambda: run.has_event("stopping", source="coordinator"), "the stop is on its way")
        os.kill(agent, signal.SIGCONT)
        return run.wait()

    run = within_the_lease(attempt)
    assert run.code == 0, run.describe()
    assert [(f["rank"], f["first_error"]) for f in run.report()["failures"]] == [
        (1, "RuntimeError: mine")]


def test_a_kill_is_the_cause_though_its_process_ends_last(start, script, tmp_path):
    """As one does whose GPU has to be given back first; here a tracer holds the dying process."""
    run = start("--nproc-per-node", 2, script(FEELS_THE_OTHER), tmp_path / "felt")
    wait_until(generations_ready(run, 1, 2), "the first generation is up")
    victim = next(pid for pid in workers(run) if rank_of(pid) == 1)
    # PTRACE_SEIZE with PTRACE_O_TRACEEXIT: it stops when it is about to end, until it is let go.
    tracer = subprocess.Popen([sys.executable, "-c", """
import ctypes, os, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if ptrace(0x4206, pid, None, 0x40) != 0:
    sys.exit("cannot trace")
print("holds", flush=True)
sys.stdin.read()
""", str(victim)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if tracer.stdout.readline() != b"holds\n":
            pytest.skip("this machine does not let a process trace another")
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "felt").touch()
        wait_until(lambda: run.has_event("worker_failed", rank=0), "the one that felt it is dead")
    finally:
        tracer.communicate()
    run.wait()
    assert run.code == 0, run.describe()
    report = run.report()
    assert [(f["rank"], f["reason"]) for f in report["failures"]] == [(1, "killed by SIGKILL")]


def test_a_job_that_is_interrupted_again_and_again_was_stopped(start, script):
    run = start(script("""
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            time.sleep(1)
    """))
    wait_until(generations_ready(run, 1, 1), "the rank is up")
    for count in (1, 2, 3):
        run.process.send_signal(signal.SIGINT)
        wait_until(lambda: sum(e["kind"] == "stopping" and e["source"] == "command-0"
                               for e in run.events()) == count, "the signal was taken")
        time.sleep(0.25)  # what comes sooner is the same signal (StopCount::kSameSignal)
    run.wait()
    assert run.code == 1, run.describe()
    report = run.report()
    assert report["outcome"] == "stopped" and "SIGINT" in report["reason"], report
    run.assert_nothing_left()


def test_children_that_it_did_not_start_are_left_alone(tmp_path, script):
    """The script of a container starts a helper and then becomes `shanty run` by exec."""
    program = script("print('done')")
    helper = subprocess.Popen(
        ["bash", "-c", 'sleep 1000 > /dev/null & echo $!; exec "$@"', "bash", SHANTY, "run", "-q",
         "--python", sys.executable, "--run-dir", tmp_path / "run", program],
        stdout=subprocess.PIPE, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    pid, *rest = helper.communicate(timeout=LIMIT_S)[0].split()
    try:
        assert rest == [b"done"] and helper.returncode == 0
        assert not is_zombie(int(pid))
    finally:
        os.kill(int(pid), signal.SIGKILL)


def test_a_node_whose_agent_cannot_come_back_ends_and_says_so(start, script):
    common = ("--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
              script("import time; print('ready', flush=True); time.sleep(1000)"))
    host = start("--node-rank", 0, *common)
    wait_until(lambda: host.part("coordinator"), "the coordinator is there")
    other = start("--node-rank", 1, *common)
    wait_until(lambda: other.has_event("workers_started"), "the other node works")
    hard = resource.prlimit(other.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(other.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    os.kill(other.part("agent"), signal.SIGKILL)
    other.wait()
    assert other.code == 1, other.describe()
    assert any("Too many open files" in event.get("text", "") for event in other.events()
               if event["kind"] == "warning"), other.describe()
    other.assert_nothing_left()


@pytest.fixture
def open_path():
    """Pytest keeps other users out of its own directories."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a program that changes its user")
def test_a_process_that_nobody_may_kill_is_named_and_left(open_path, script):
    """A rank that starts something as another user, and not as root: kill() is refused."""
    changer = open_path / "changer"
    shutil.copy(shutil.which("setpriv"), changer)
    changer.chmod(0o4755)
    (open_path / "mine").mkdir()
    os.chown(open_path / "mine", 65534, 65534)
    worker = open_path / "train.py"
    worker.write_text(script("""
        import os, subprocess, sys, time
        subprocess.Popen([sys.argv[1], "--reuid=1", "--clear-groups", "sleep", "1000"])
        print("ready", flush=True)
        time.sleep(1000)
    """).read_text())
    run = subprocess.Popen(
        ["setpriv", "--reuid=65534", "--clear-groups", SHANTY, "run", "--run-dir",
         open_path / "mine" / "run", "--python", "/usr/bin/python3", worker, changer],
        env={**os.environ, "HOME": str(open_path / "mine"),
             "XDG_STATE_HOME": str(open_path / "mine")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=open_path / "mine")
    marker = str(open_path / "mine" / "run")
    try:
        wait_until(lambda: [line for line in processes_with(marker).values()
                            if line.startswith("sleep")], "the other user's process is there")
        agent = next(pid for pid, line in processes_with(str(open_path)).items()
                     if "shanty agent " in line)
        os.kill(agent, signal.SIGKILL)
        _, stderr = run.communicate(timeout=LIMIT_S)
        assert run.returncode == 1, stderr
        assert b"do not end by SIGKILL" in stderr, stderr
    finally:
        for pid in processes_with(str(open_path)):
            os.kill(pid, signal.SIGKILL)
        run.communicate()
