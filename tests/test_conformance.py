"""The same small scripts under the real torchrun and under shanty: what they see must agree."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import LIMIT_S, SHANTY
from ports import free_port

SAVE = """
import json, os, sys
def save(value):
    path = os.path.join(os.environ["OUT"], "rank-" + os.environ["RANK"] + ".json")
    with open(path + ".new", "w") as f:
        json.dump(value, f)
    os.rename(path + ".new", path)  # a neighbour that waits for it may have this rank killed
"""


@dataclass
class Case:
    name: str
    script: str
    args: tuple = ()
    flags: tuple = ("--nproc-per-node", "2")
    module: str = ""  # started with -m
    program: tuple = ()  # started with --no-python
    env: dict = field(default_factory=dict)
    compare_output: bool = False


# Where the first rank to fail would take its neighbours along before they have spoken.
ONE = ("--nproc-per-node", "1")

CASES = [
    Case("environment", "save(dict(os.environ))"),
    Case("environment_of_one", "save(dict(os.environ))", flags=()),
    Case("environment_kept", "save([os.environ.get(k) for k in ('OMP_NUM_THREADS', 'MINE')])",
         env={"OMP_NUM_THREADS": "3", "MINE": "yes"}),
    Case("role_and_id", "save([os.environ[k] for k in ('ROLE_NAME', 'TORCHELASTIC_RUN_ID')])",
         flags=("--role", "trainer", "--rdzv-id", "my-job", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", "localhost:0")),
    Case("master", "save([os.environ[k] for k in ('MASTER_ADDR', 'MASTER_PORT')])",
         flags=("--master-addr", "127.0.0.1", "--master-port", str(free_port()))),
    Case("underscores", "save([os.environ['WORLD_SIZE'], os.environ['TORCHELASTIC_MAX_RESTARTS']])",
         flags=("--nproc_per_node", "2", "--max_restarts", "2", "--rdzv_backend", "c10d",
                "--rdzv_endpoint", "localhost:0")),
    Case("argv", "save(sys.argv)", args=("--lr", "0.1", "a b", "--nproc-per-node=9", "--", "-x")),
    Case("macros", "save(sys.argv)", args=(
        "$local_rank", "${local_rank}.log", "$$", "$local_ranks", "$RANK", "${x", "$", "1$")),
    Case("main_module", """
        import __main__
        save([__name__, __file__, str(__spec__), sys.path[0], __main__.__dict__ is globals(),
              __package__, os.getcwd(), sys.flags.dev_mode, sys.dont_write_bytecode])
    """),
    Case("module", "save([__name__, __file__, str(__package__), sys.path[0], sys.argv])",
         module="pack.inner", args=("one",)),
    Case("no_python", "", program=("/bin/sh", "-c",
         'echo "[\\"$RANK\\", \\"$LOCAL_RANK\\", \\"$0\\", \\"$1\\"]" > "$OUT/rank-$RANK.json"',
         "zero", "one")),
    Case("spawn_loader", """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self): return 8
            def __getitem__(self, i): return i * i
        if __name__ == "__main__":
            out = {}
            for context in ("fork", "spawn", "forkserver"):
                loader = DataLoader(Squares(), batch_size=4, num_workers=1,
                                    multiprocessing_context=context)
                out[context] = [batch.tolist() for batch in loader]
            save(out)
    """, flags=("--nproc-per-node", "1")),
    Case("pickle_of_main", """
        import multiprocessing, pickle
        class Thing:
            def __init__(self, x): self.x = x
        def child(thing, queue): queue.put((thing.x, type(thing).__module__))
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=child, args=(Thing(7), queue))
            process.start()
            out = queue.get()
            process.join()
            save([out, pickle.loads(pickle.dumps(Thing(3))).x, Thing.__module__])
    """),
    Case("exit_0", "save(1); sys.exit(0)"),
    Case("exit_none", "save(1); sys.exit()"),
    Case("exit_3", "save(1); sys.exit(3)", flags=ONE),
    Case("exit_text", "save(1); sys.exit('gave up')", flags=ONE),
    Case("exception", "save(1); raise RuntimeError('broken')", flags=ONE),
    Case("record", """
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def main():
            save(sorted(k for k in os.environ if k == "TORCHELASTIC_ERROR_FILE"))
            raise RuntimeError("recorded " + os.environ["RANK"])
        main()
    """, flags=ONE),
    Case("segfault", "save(1)\nimport ctypes\nctypes.string_at(0)", flags=ONE),
    Case("one_rank_fails", """
        import time
        save(1)
        if os.environ["RANK"] == "1":
            while not os.path.exists(os.path.join(os.environ["OUT"], "rank-0.json")):
                time.sleep(0.01)
            sys.exit(5)
        time.sleep(600)
    """),
    Case("max_restarts", """
        count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        save([count, os.environ["TORCHELASTIC_MAX_RESTARTS"]])
        sys.exit(count < 2)
    """, flags=("--nproc-per-node", "2", "--max-restarts", "3")),
    Case("process_group", """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        x = torch.ones(3) * (dist.get_rank() + 1)
        dist.all_reduce(x)
        save([dist.get_rank(), dist.get_world_size(), x.tolist()])
        dist.destroy_process_group()
    """),
    Case("session", """
        save([os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.isatty(0)])
    """),
    Case("stdin", "save(sys.stdin.read())", flags=ONE),
    Case("output", """
        save(1)
        for i in range(3):
            sys.stdout.write("line %d\\n" % i)
        sys.stderr.write("to stderr\\n")
        os.write(1, bytes([0, 1, 255]) + b" binary\\n")
        sys.stdout.write("end")
    """, flags=("--nproc-per-node", "1"), compare_output=True),
    Case("big_output", """
        save(1)
        for i in range(20000):
            print("%06d " % i + "x" * 200)
    """, flags=("--nproc-per-node", "1"), compare_output=True),
    Case("signals", """
        import signal
        save([str(signal.getsignal(s)) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)])
    """),
    Case("limits", """
        import resource, stat
        fds = []
        for n in sorted(map(int, os.listdir("/proc/self/fd"))):
            try:
                kind = os.readlink("/proc/self/fd/%d" % n)
            except OSError:
                continue
            if n > 2 and "memfd:shanty-ring" not in kind and "/proc/" not in kind:
                fds.append(kind)
        save([fds, resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(0o22)])
    """),
]

# Seen by both launchers' workers but different in every run, or one launcher's own affair.
IGNORED_VARIABLES = {
    "OUT", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "PYTHONPATH", "_",
    "SHLVL", "TORCHELASTIC_USE_AGENT_STORE", "XDG_STATE_HOME",
}


def normalise(name, value, out: Path):
    if name.startswith("environment") and isinstance(value, dict):
        return {
            k: v for k, v in value.items()
            if k not in IGNORED_VARIABLES and not k.startswith("SHANTY_")
        }
    return json.loads(json.dumps(value).replace(str(out.parent), "DIR"))


@dataclass
class Outcome:
    code: int
    saved: dict
    stdout: bytes
    stderr: bytes


def prepare(case: Case, directory: Path) -> list[str]:
    directory.mkdir(parents=True)
    (directory / "out").mkdir()
    text = SAVE + textwrap.dedent(case.script)
    if case.module:
        package = directory / case.module.split(".")[0]
        package.mkdir()
        (package / "__init__.py").touch()
        (package / (case.module.split(".")[1] + ".py")).write_text(text)
        return ["-m", case.module, *case.args]
    if case.program:
        return ["--no-python", *case.program]
    (directory / "script.py").write_text(text)
    return ["script.py", *case.args]


def run_case(case: Case, launcher: list[str], directory: Path) -> Outcome:
    target = prepare(case, directory)
    out = directory / "out"
    flags = list(case.flags)
    if not {"--master-addr", "--rdzv_endpoint", "--rdzv-endpoint"} & set(flags):
        flags.append("--standalone")
    env = {
        k: v for k, v in os.environ.items()
        if not k.startswith(("SHANTY_", "TORCHELASTIC", "OMP_", "PYTHON"))
    }
    env.update({"OUT": str(out), "XDG_STATE_HOME": str(directory / "state"), **case.env})
    result = subprocess.run(
        [*launcher, *flags, *target], cwd=directory, env=env, input=b"typed\n",
        capture_output=True, timeout=LIMIT_S,
    )
    saved = {
        path.name: normalise(case.name, json.loads(path.read_text()), out)
        for path in sorted(out.glob("rank-*.json"))
    }
    return Outcome(result.returncode, saved, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """{case: (torchrun's outcome, shanty's outcome)}; all are run once, two at a time."""
    root = tmp_path_factory.mktemp("conformance")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    shanty = [str(SHANTY), "run", "--python", sys.executable]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        theirs = {c.name: pool.submit(run_case, c, torchrun, root / "torchrun" / c.name)
                  for c in CASES}
        ours = {c.name: pool.submit(run_case, c, shanty, root / "shanty" / c.name) for c in CASES}
        return {c.name: (theirs[c.name].result(), ours[c.name].result()) for c in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_script_sees_the_same(case, outcomes):
    theirs, ours = outcomes[case.name]
    assert theirs.saved, theirs.stderr.decode()[-3000:]
    assert ours.saved == theirs.saved, ours.stderr.decode()[-3000:]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_exit_code_is_the_same(case, outcomes):
    theirs, ours = outcomes[case.name]
    assert ours.code == theirs.code, ours.stderr.decode()[-3000:]


@pytest.mark.parametrize("case", [c for c in CASES if c.compare_output], ids=lambda c: c.name)
def test_stdout_is_the_same_to_the_byte(case, outcomes):
    theirs, ours = outcomes[case.name]
    assert ours.stdout == theirs.stdout


def test_the_recorded_error_is_named_in_the_report(outcomes, tmp_path_factory):
    _, ours = outcomes["record"]
    text = ours.stderr.decode()
    assert re.search(r"RuntimeError: recorded [01]", text.split("Traceback")[0] + text[-2000:])


def test_a_restarted_script_ran_as_often(outcomes):
    theirs, ours = outcomes["max_restarts"]
    assert ours.saved["rank-0.json"][0] == theirs.saved["rank-0.json"][0] == 2
