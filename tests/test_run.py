"""`shanty run`: what a job sees, how it ends, what it leaves behind."""

import ctypes
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from conftest import LIMIT_S, SHANTY, shanty, wait_until

IDENTITY = """
    import os, sys
    print(os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"],
          os.environ["GROUP_RANK"], flush=True)
"""

AT_ONCE_NS = 100_000_000  # much less than StopCount::kSameSignal

# Waits for a file, so that a test decides when the ranks go on.
WAITING = """
    import os, sys, time
    rank = int(os.environ["RANK"])
    print("rank", rank, "ready", flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print("rank", rank, "done", flush=True)
"""


def ready(run, ranks, generation=1):
    def all_ready():
        try:
            return all(b"ready" in run.log(rank, generation) for rank in range(ranks))
        except OSError:
            return False

    wait_until(all_ready, f"{ranks} ranks of generation {generation} are ready")


def test_every_rank_gets_its_identity_and_the_job_succeeds(start, script):
    run = start("--nnodes", 2, "--nproc-per-node", 2, script(IDENTITY)).wait()
    assert run.code == 0, run.describe()
    lines = sorted(line.split("] ")[-1] for line in run.stdout.decode().splitlines())
    assert lines == ["0 0 4 0", "1 1 4 0", "2 0 4 1", "3 1 4 1"], run.describe()
    report = run.report()
    assert report["outcome"] == "succeeded"
    assert report["generations"] == 1
    assert report["failures"] == []
    run.assert_nothing_left()


def test_a_job_file_runs_with_its_environment_and_arguments(start, script, tmp_path):
    script("import os, sys; print(os.environ['COLOUR'], sys.argv[1:])")
    job = tmp_path / "job.yaml"
    job.write_text(
        "job: coloured\nrun: {script: train.py, args: [--lr, '0.1'], env: {COLOUR: blue}}\n"
        "nodes: 1\ngpus_per_node: 1\n"
    )
    run = start(job, "--more").wait()
    assert run.code == 0, run.describe()
    assert run.stdout.decode().strip().endswith("blue ['--lr', '0.1', '--more']"), run.describe()


def test_arguments_that_are_no_text_reach_the_script_as_they_are(start, script):
    run = start(script("import os, sys; print(os.fsencode(sys.argv[1]))"), "a\udcffb").wait()
    assert run.code == 0, run.describe()
    assert b"b'a\\xffb'" in run.stdout


def test_a_failing_rank_fails_the_job_with_its_own_words(start, script):
    run = start(
        "--nproc-per-node", 2,
        script("""
            import os, time
            if os.environ["RANK"] == "1":
                raise ValueError("bad batch 17")
            time.sleep(60)
        """),
    ).wait()
    assert run.code == 1, run.describe()
    report = run.report()
    assert report["outcome"] == "failed"
    (failure,) = report["failures"]
    assert failure["rank"] == 1
    assert "ValueError: bad batch 17" in failure["first_error"], run.describe()
    assert "bad batch 17" in run.stderr.decode(), "the traceback reaches stderr"
    run.assert_nothing_left()


def test_a_killed_rank_restarts_the_whole_gang(start, script, tmp_path):
    go = tmp_path / "go"
    run = start("--nproc-per-node", 2, script(WAITING), go)
    ready(run, 2)
    started = wait_until(lambda: next((e for e in run.events() if e["kind"] == "workers_started"), None),
                         "the agent says whom it has started")
    victim = started["extra"]["pids"][1]
    os.kill(victim, signal.SIGKILL)
    ready(run, 2, generation=2)
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    report = run.report()
    assert report["outcome"] == "succeeded" and report["generations"] == 2
    (failure,) = report["failures"]
    assert failure["rank"] == 1 and "SIGKILL" in failure["reason"]
    run.assert_nothing_left()


def test_a_failure_is_dated_by_its_error_and_not_by_the_end_of_its_process(start, script, tmp_path):
    left = tmp_path / "left"
    run = start(script("""
        import atexit, sys, time
        def leave():
            with open(sys.argv[1], "w") as file:
                file.write(str(time.time_ns()))
        atexit.register(leave)
        raise ValueError("slow to leave")
    """), left).wait()
    assert run.code == 1, run.describe()
    ended = next(e for e in run.events() if e["kind"] == "generation_ended")
    assert ended["extra"]["unix_ns"] < int(left.read_text()), run.describe()


def test_the_restart_budget_ends_the_job(start, script):
    run = start(
        "--max-restarts", 2,
        script("import os, sys; sys.exit(3 + int(os.environ['TORCHELASTIC_RESTART_COUNT']))"),
    ).wait()
    assert run.code == 1, run.describe()
    report = run.report()
    assert report["generations"] == 3 and len(report["failures"]) == 3, run.describe()
    assert "5" in report["failures"][-1]["reason"]


def test_a_job_that_recovers_within_its_budget_succeeds(start, script):
    run = start(
        "--max-restarts", 3,
        script("import os, sys; sys.exit(int(os.environ['TORCHELASTIC_RESTART_COUNT']) < 2)"),
    ).wait()
    assert run.code == 0, run.describe()
    assert run.report()["generations"] == 3


def test_the_same_exception_twice_is_the_programs_fault(start, script):
    run = start("--max-restarts", 10, script("raise ValueError('always')")).wait()
    assert run.code == 1, run.describe()
    report = run.report()
    assert report["generations"] == 2, run.describe()
    assert any("twice" in (e.get("text") or "") for e in run.events()), run.describe()


def test_sigterm_passes_on_and_the_job_is_stopped(start, script, tmp_path):
    run = start(
        "--nproc-per-node", 2,
        script("""
            import os, signal, sys, time
            def leave(number, frame):
                print("saving", flush=True)
                sys.exit(0)
            signal.signal(signal.SIGTERM, leave)
            print("ready", flush=True)
            while True:
                time.sleep(0.05)
        """),
    )
    ready(run, 2)
    run.process.send_signal(signal.SIGTERM)
    run.wait()
    assert run.code == 1, run.describe()
    assert run.report()["outcome"] == "stopped"
    assert b"saving" in run.log(0) and b"saving" in run.log(1)
    run.assert_nothing_left()


@pytest.mark.parametrize("options, number", [
    ([], signal.SIGINT),
    ([], signal.SIGHUP),
    (["--signals-to-handle", "SIGTERM,SIGUSR1"], signal.SIGUSR1),
])
def test_a_stop_signal_reaches_the_ranks_as_it_came(start, script, options, number):
    run = start("--nnodes", 2, *options, script("""
        import signal, time
        def leave(number, frame):
            print("got", signal.Signals(number).name, flush=True)
            raise SystemExit
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(one, leave)
        print("ready", flush=True)
        while True:
            time.sleep(0.05)
    """))
    ready(run, 2)
    run.process.send_signal(number)
    run.wait()
    assert run.code == 1 and run.report()["outcome"] == "stopped", run.describe()
    for rank in (0, 1):
        assert b"got " + number.name.encode() in run.log(rank), run.describe()
    run.assert_nothing_left()


def test_what_nodes_are_busy_with_is_recorded(start, script, tmp_path):
    run = start("--nnodes", 2, script(WAITING), tmp_path / "go")

    def samples():
        return [path.read_text().splitlines() for path in sorted(run.dir.glob("nodes/*.jsonl"))]

    wait_until(lambda: len(samples()) == 2 and all(samples()), "both nodes are sampled")
    (tmp_path / "go").touch()
    run.wait()
    assert run.code == 0, run.describe()
    for lines in samples():
        sample = json.loads(lines[0])
        assert sample["unix_ns"] > 0 and 0 < sample["memory_available"] <= 1
        assert 0 < sample["cpu"] <= 1


def test_an_unknown_signal_to_handle_is_a_usage_error(start, script):
    run = start("--signals-to-handle", "SIGTERM,SIGFOO", script("print(1)")).wait()
    assert run.code == 2 and b"SIGFOO" in run.stderr, run.describe()


def test_nohup_keeps_a_job_from_the_end_of_its_terminal(start, script, tmp_path):
    go = tmp_path / "go"
    run = start("--nproc-per-node", 2, script(WAITING), go,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    ready(run, 2)
    run.process.send_signal(signal.SIGHUP)
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()


SAVES_SLOWLY = """
    import signal, time
    def leave(number, frame):
        time.sleep(1)
        print("saved", flush=True)
        raise SystemExit
    signal.signal(signal.SIGTERM, leave)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""


def stops(run):
    """When the command took a signal to stop for one."""
    return [e["unix_ns"] for e in run.events()
            if e["kind"] == "stopping" and e["source"] == "command-0"]


def test_a_signal_that_comes_twice_at_once_is_one_signal(start, script):
    """timeout(1) signals the command and then its process group."""
    for _ in range(10):
        run = start(script(SAVES_SLOWLY))
        ready(run, 1)
        run.process.send_signal(signal.SIGTERM)
        wait_until(lambda: stops(run), "the first one was taken")
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        first, *second = stops(run)
        # A machine that held one of the two up for so long made two signals of them.
        if not second or second[0] - first < AT_ONCE_NS:
            break
    assert b"saved" in run.log(0), run.describe()


def test_what_ignores_sigterm_is_killed_after_the_grace_period(start, script):
    run = start(
        "--nproc-per-node", 2, "--shutdown-timeout", 1,
        script("""
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ready", flush=True)
            while True:
                time.sleep(1)
        """),
    )
    ready(run, 2)
    run.process.send_signal(signal.SIGTERM)
    run.wait()
    assert run.report()["outcome"] == "stopped"
    run.assert_nothing_left()


def test_children_of_workers_do_not_outlive_the_job(start, script):
    run = start(
        script("""
            import os, subprocess, sys
            subprocess.Popen(["setsid", "sleep", "1000"])
            subprocess.Popen("sleep 1000 & exec sleep 1000", shell=True, start_new_session=True)
            os._exit(1)
        """),
    ).wait()
    assert run.code == 1
    run.assert_nothing_left()


def test_no_output_is_lost_or_mixed_and_its_end_is_kept(start, script):
    run = start(
        "--nproc-per-node", 2,
        script("""
            import os, sys
            rank = os.environ["RANK"]
            line = (rank * 999 + "\\n").encode()
            for _ in range(20000):
                os.write(1, line)
                os.write(2, line)
            os.write(1, bytes(i for i in range(256) if i not in (10, 13)))
            os.write(1, b"the end without newline")
        """),
    ).wait()
    assert run.code == 0
    for rank in (0, 1):
        log = run.log(rank)
        assert log.count(str(rank).encode() * 999 + b"\n") == 40000
        assert bytes(i for i in range(256) if i not in (10, 13)) in log
        assert b"the end without newline" in log
    assert run.stdout.count(b"\n") >= 40000


# Rank 0 writes the line of every rank once all have started: ranks that each print theirs may be further
# apart on a busy machine than the time within which equal lines become one.
SAYING_THE_SAME_AT_ONCE = """
    import os, sys, time
    here, world = sys.argv[1], int(os.environ["WORLD_SIZE"])
    open(os.path.join(here, str(os.getpid())), "x").close()
    while len(os.listdir(here)) < world:
        time.sleep(0.01)
    if os.environ["RANK"] == "0":
        streams = [os.open(f"/proc/{pid}/fd/1", os.O_WRONLY) for pid in os.listdir(here)]
        for stream in streams:
            os.write(stream, b"hello from somebody\\n")
        open(os.path.join(here, "said"), "x").close()
    while not os.path.exists(os.path.join(here, "said")):
        time.sleep(0.01)
"""


def test_equal_lines_of_many_ranks_are_shown_once_with_their_ranks(start, script, tmp_path):
    started = tmp_path / "started"
    started.mkdir()
    run = start("--nproc-per-node", 4, script(SAYING_THE_SAME_AT_ONCE), started).wait()
    shown = [line for line in run.stdout.decode().splitlines() if "hello" in line]
    assert 1 <= len(shown) < 4, run.describe()
    assert any(re.match(r"\[(rank )?\d[-,]", line.strip()) for line in shown), (shown, run.describe())


@pytest.mark.parametrize("redirect, out, err", [("1", False, True), ("2", True, False),
                                                ("3", False, False), ("0", True, True)])
def test_redirected_streams_stay_off_the_terminal_but_in_the_log(start, script, redirect, out, err):
    run = start(
        "-r", redirect, script("import sys; print('to-out'); print('to-err', file=sys.stderr)")
    ).wait()
    assert (b"to-out" in run.stdout) == out
    assert (b"to-err" in run.stderr) == err
    logs = shanty("logs", run.dir)
    assert "to-out" in logs.stdout and "to-err" in logs.stderr


BOTH_STREAMS = """
    import os, sys
    print("out", os.environ["RANK"])
    print("err", os.environ["RANK"], file=sys.stderr)
"""


@pytest.mark.parametrize("options, shown", [
    (["-r", "3", "-t", "0:3"], {"out 0", "err 0"}),
    (["-r", "0:1,1:2"], {"err 0", "out 1"}),
    (["-r", "0:3,1:3"], set()),
    (["-r", "0:3", "-t", "0:2"], {"err 0", "out 1", "err 1"}),
    (["-r", "0:1", "--local-ranks-filter", "0"], {"err 0"}),
    (["-t", "3", "--local-ranks-filter", "1,5"], {"out 1", "err 1"}),
])
def test_streams_are_shown_by_local_rank(start, script, options, shown):
    run = start("-q", "--nproc-per-node", 2, *options, script(BOTH_STREAMS)).wait()
    assert run.code == 0, run.describe()
    lines = (run.stdout + run.stderr).decode().splitlines()
    assert {line.split("] ")[-1] for line in lines} == shown, run.describe()
    logs = shanty("logs", run.dir)
    assert sorted((logs.stdout + logs.stderr).splitlines()) == [
        "[rank 0] err 0", "[rank 0] out 0", "[rank 1] err 1", "[rank 1] out 1"]


def test_equal_lines_are_folded_among_the_ranks_that_are_shown(start, script):
    run = start("-q", "--nproc-per-node", 3, "-r", "1:1",
                script("import sys; print('same'); print('same', file=sys.stderr)")).wait()
    assert run.code == 0, run.describe()
    assert b"1" not in run.stdout and run.stdout.count(b"same") >= 1, run.describe()
    assert b"1" in run.stderr or b"0-2" in run.stderr, run.describe()


def test_what_goes_to_files_only_is_written_by_the_ranks_themselves(start, script):
    worker = script("""
        import os, sys
        rank = os.environ["RANK"]
        for name in ("stdout", "stderr"):
            fd = getattr(sys, name).fileno()
            os.write(fd, f"{rank} {name} {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}\\n".encode())
        os.write(2, b"no newline")
    """)
    run = start("-r", "3", "--nproc-per-node", 2, worker).wait()
    for rank in (0, 1):
        assert run.log(rank) == f"{rank} stdout rank-0000{rank}.log\n".encode()
        assert run.log(rank, suffix="err") == f"{rank} stderr rank-0000{rank}.err\nno newline".encode()
    errors = shanty("logs", run.dir, "--stream", "err", "--rank", 1).stderr
    assert errors.splitlines() == ["[rank 1] 1 stderr rank-00001.err", "[rank 1] no newline"]


def test_a_rank_that_writes_its_logs_itself_has_new_ones_in_each_generation(start, script):
    run = start("-r", "3", "--max-restarts", 1, script("""
        import os, signal
        print("generation", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    """)).wait()
    assert run.code == 0, run.describe()
    assert shanty("logs", run.dir).stdout.splitlines() == ["generation 0", "generation 1"]


def test_json_gives_events_on_stdout_and_nothing_else(start, script):
    run = start("--json", script("print('hello')")).wait()
    kinds = [json.loads(line).get("kind") for line in run.stdout.decode().splitlines()]
    assert "world_formed" in kinds and "ended" in kinds


def test_the_secret_is_in_no_environment_log_or_file(start, script, tmp_path):
    run = start(
        script("import os; print([k for k in os.environ if 'TOKEN' in k])"),
        env={"SHANTY_TOKEN": "a-secret-that-nobody-may-see"},
    ).wait()
    assert b"[]" in run.log(0)
    for path in run.dir.rglob("*"):
        if path.is_file():
            assert b"a-secret-that-nobody-may-see" not in path.read_bytes(), path


def test_missing_script_missing_python_and_bad_job_file_are_told_apart(start, tmp_path):
    run = start(tmp_path / "missing.py").wait()
    assert run.code == 2 and b"missing.py" in run.stderr
    job = tmp_path / "job.yaml"
    job.write_text("run: {script: a.py}\ngpu_per_node: 2\n")
    run = start(job).wait()
    assert run.code == 2
    assert b'job.yaml:2:1: unknown key "gpu_per_node", did you mean "gpus_per_node"?' in run.stderr


def test_a_working_directory_changes_no_other_path(start, script, tmp_path):
    for name in ("jobs", "work", "bin"):
        (tmp_path / name).mkdir()
    script("import os; print('in', os.getcwd())", "jobs/train.py")
    job = tmp_path / "jobs" / "job.yaml"
    job.write_text("run: {script: train.py, working_dir: work}\n")
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    run = start("--python", "bin/python", "jobs/job.yaml").wait()
    assert run.code == 0, run.describe()
    assert f"in {tmp_path / 'work'}".encode() in run.stdout, run.describe()


def test_a_working_directory_that_is_none_is_a_usage_error(start, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("run: {module: json.tool, working_dir: /no/such/place}\n")
    run = start(job).wait()
    assert run.code == 2 and b"/no/such/place" in run.stderr, run.describe()


def test_output_goes_nowhere_where_there_is_no_stdout(start, script, tmp_path):
    """A file of the run must not take the number of a descriptor that is closed."""
    go = tmp_path / "go"
    run = start("--nproc-per-node", 2, script(WAITING), go,
                preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    ready(run, 2)
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    for path in run.dir.rglob("*"):
        if path.is_file() and "logs" not in path.parts:
            assert b"rank 0 done" not in path.read_bytes(), path
    assert run.log(0) == b"rank 0 ready\nrank 0 done\n"


def test_a_reader_that_had_enough_does_not_fail_the_job(script, tmp_path):
    """As in `shanty run train.py 2>&1 | head -1`: the report finds nobody to take it."""
    command = subprocess.Popen(
        [SHANTY, "run", "--run-dir", tmp_path / "run", "--python", sys.executable,
         script("print('done')")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    command.stdout.readline()
    command.stdout.close()
    assert command.wait(LIMIT_S) == 0
    assert json.loads((tmp_path / "run" / "report.json").read_text())["outcome"] == "succeeded"


def test_no_output_is_lost_in_a_pipe_that_does_not_block(script, tmp_path):
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETFL, os.O_NONBLOCK)
    command = subprocess.Popen(
        [SHANTY, "run", "-q", "--run-dir", tmp_path / "run", "--no-python", "seq", "200000"],
        stdout=write_end)
    os.close(write_end)
    wait_until((tmp_path / "run" / "report.json").exists, "the job is over, and the pipe is full")
    with os.fdopen(read_end, "rb") as output:
        lines = output.read().split()
    assert command.wait(LIMIT_S) == 0
    assert lines == [b"%d" % i for i in range(1, 200001)]


def test_a_limit_that_no_clock_can_count_is_as_good_as_none(start):
    run = start("--rdzv-conf", "timeout=99999999999", "--no-python", "true").wait()
    assert run.code == 0, run.describe()


def test_ranks_keep_their_limit_of_descriptors_and_the_agent_takes_what_it_may(
        start, script, tmp_path):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    go = tmp_path / "go"
    run = start(script("""
        import os, resource, sys, time
        print("limits", *resource.getrlimit(resource.RLIMIT_NOFILE), "ready", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
    """), go, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard)))
    ready(run, 1)
    assert run.log(0) == f"limits 300 {hard} ready\n".encode()
    for pid in (run.process.pid, run.part("agent"), run.part("coordinator")):
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
    go.touch()
    assert run.wait().code == 0, run.describe()


def test_a_limit_of_file_sizes_costs_output_and_not_the_job(start, script):
    """The kernel's answer to a write beyond it is a signal that kills, unless it is ignored."""
    limit = 1 << 20
    run = start("--nproc-per-node", 2, script("""
        for _ in range(4096):
            print("x" * 1023, flush=True)
    """), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))).wait()
    assert run.code == 0, run.describe()
    assert run.report()["generations"] == 1 and b"File too large" in run.stderr, run.describe()
    assert len(run.log(0)) == limit


def test_live_state_is_not_written_for_every_single_note(start, tmp_path):
    """With thousands of ranks that die together it would be written thousands of times."""
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    begin = time.monotonic()
    until_told = f"until test -e {tmp_path / 'go'}; do sleep 0.05; done"
    run = start("--nnodes", 24, "--no-python", "sh", "-c", until_told)
    wait_until(run.dir.exists, "the run directory is there")
    in_moved_to = 0x80
    assert libc.inotify_add_watch(watch, os.fsencode(run.dir), in_moved_to) >= 0
    (tmp_path / "go").touch()
    run.wait()
    took_s = time.monotonic() - begin
    writes = os.read(watch, 1 << 20).count(b"live.json\0")
    os.close(watch)
    assert run.code == 0, run.describe()
    assert 1 <= writes <= 3 + took_s / 0.05


def test_an_existing_run_directory_is_refused(start, script, tmp_path):
    first = start(script("print(1)")).wait()
    again = start(script("print(1)"))
    again.wait()
    second = start("--run-dir", first.dir, script("print(1)")).wait()
    assert second.code == 3 and str(first.dir).encode() in second.stderr
