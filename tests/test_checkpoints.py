"""Checkpoints of a job under `shanty run`: what a death costs, and where the job goes on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conftest import LIMIT_S, ROOT, SHANTY, Run, wait_until

KILL_ENGINES = """
    import os, signal

    def kill_engines(of_all):
        for entry in os.listdir("/proc"):
            try:
                line = open(f"/proc/{entry}/cmdline").read()
                marker = os.environ["SHANTY_TEST_RUN"] in open(f"/proc/{entry}/environ").read()
            except OSError:
                continue
            # This node's is the one whose parent is this rank's.
            mine = of_all or f"\\0{os.getppid()}\\0" in line
            if marker and "ckpt-engine" in line and mine:
                os.kill(int(entry), signal.SIGKILL)
"""

# Prints where it begins and, at the end, a digest of all parameters; rank 1 dies after step 12 of
# the first generation when told so.
SCRIPT = KILL_ENGINES + """
    import sys, time, hashlib
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from shanty import Checkpointer

    root, steps, dies, pause = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    layers = torch.nn.Linear(64, 256), torch.nn.Dropout(0.1), torch.nn.Linear(256, 8)
    model = DDP(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpointer = Checkpointer(root, every=5, keep=10)
    checkpointer.attach(model=model, optimizer=optimizer)
    found = checkpointer.load()
    begin = found.step if found else 0
    print("begin", begin, found.source if found else None, flush=True)
    for finding in found.findings if found else []:
        print("finding", finding, flush=True)
    for step in range(begin + 1, steps + 1):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).pow(2).mean().backward()
        optimizer.step()
        handle = checkpointer.maybe_save(step)
        if handle and step <= 10:
            handle.wait(60)
        if step == 12 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if dies == "rank":
                os.kill(os.getpid(), signal.SIGKILL)
            if dies in ("engine", "node"):
                kill_engines(of_all=dies == "engine")
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print("end", digest.hexdigest(), flush=True)
    checkpointer.close()
    dist.destroy_process_group()
"""


def words(run, rank: int, generation: int, first: str) -> list[str]:
    lines = run.log(rank, generation).decode().splitlines()
    return [line for line in lines if line.startswith(first + " ")]


def ckpt(*args: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(SHANTY), "ckpt", *map(str, args)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The digest of a run in which nothing happens."""
    path = tmp_path_factory.mktemp("undisturbed")
    script = path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    run = Run(path, "--nproc-per-node", 2, script, path / "ckpt", 20, "never", 0)
    run.wait()
    assert run.code == 0, run.describe()
    return words(run, 0, 1, "end")[0], path / "ckpt"


def test_a_killed_rank_costs_no_read_of_storage(start, script, tmp_path, undisturbed):
    run = start("--nproc-per-node", 2, script(SCRIPT), tmp_path / "ckpt", 20, "rank", 0).wait()
    assert run.code == 0, run.describe()
    for rank in (0, 1):
        assert words(run, rank, 2, "begin") == ["begin 10 memory"], run.describe()
    # Bit for bit what an undisturbed run ends with.
    assert words(run, 0, 2, "end") == [undisturbed[0]]
    report = run.report()
    assert report["outcome"] == "succeeded" and report["steps"] == 20
    assert 1 <= report["repeated_steps"] <= 3, report
    assert report["checkpoints_saved"] >= 2, report
    assert "step-000000020" in report["newest_usable_checkpoint"]
    assert [c["step"] for c in report["checkpoints"]] == [20, 15, 10, 5]
    run.assert_nothing_left()


def test_a_dead_node_costs_no_read_of_storage_either(start, script, tmp_path, undisturbed):
    run = start("--nnodes", 2, script(SCRIPT), tmp_path / "ckpt", 20, "node", 0).wait()
    assert run.code == 0, run.describe()
    # Rank 1's slot died with its node's engine: node 0 has kept a copy.
    for rank in (0, 1):
        assert words(run, rank, 2, "begin") == ["begin 10 memory"], run.describe()
    assert words(run, 0, 2, "end") == [undisturbed[0]]
    run.assert_nothing_left()


def test_without_the_engine_storage_has_it(start, script, tmp_path, undisturbed):
    run = start("--nproc-per-node", 2, script(SCRIPT), tmp_path / "ckpt", 20, "engine", 0).wait()
    assert run.code == 0, run.describe()
    assert words(run, 0, 2, "begin") == ["begin 10 disk"], run.describe()
    assert words(run, 0, 2, "end") == [undisturbed[0]]
    run.assert_nothing_left()


def test_a_damaged_checkpoint_is_passed_over(start, script, tmp_path, undisturbed):
    root = undisturbed[1]
    listed = json.loads(ckpt("ls", root, "--json").stdout)["checkpoints"]
    assert [c["step"] for c in listed] == [20, 15, 10, 5]
    assert ckpt("verify", root, "--all").returncode == 0
    shard = next(Path(listed[0]["directory"]).glob("model/*.safetensors"))
    with open(shard, "r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    verified = ckpt("verify", root)
    assert verified.returncode == 1 and shard.name in verified.stdout and "chunk" in verified.stdout
    # Another world, too: one rank goes on with what two have written.
    run = start("--nproc-per-node", 1, script(SCRIPT), root, 22, "never", 0).wait()
    assert run.code == 0, run.describe()
    assert words(run, 0, 1, "begin") == ["begin 15 disk"], run.describe()
    assert any(shard.name in line for line in words(run, 0, 1, "finding")), run.describe()
    run.assert_nothing_left()


@pytest.mark.parametrize("flags", [("--nproc-per-node", 2),
                                   ("--nnodes", 2, "--nproc-per-node", 2)], ids=["node", "nodes"])
def test_sigterm_saves_and_then_leaves(start, script, tmp_path, flags):
    run = start(*flags, "--shutdown-timeout", 120, script(SCRIPT), tmp_path / "ckpt", 100000,
                "never", 0.05)
    wait_until(lambda: list((tmp_path / "ckpt").glob("step-*")), "a first checkpoint")
    before = max(int(path.name.split("-")[1].split(".")[0])
                 for path in (tmp_path / "ckpt").glob("step-*"))
    run.process.send_signal(signal.SIGTERM)
    run.wait()
    assert run.report()["outcome"] == "stopped", run.describe()
    ends = [e["text"] for e in run.events() if e["kind"] == "worker_exited"]
    assert len(ends) == run.report()["world_size"], run.describe()
    # None was killed because the grace was over.
    assert all(text.endswith("was ended by SIGTERM") for text in ends), ends
    listed = json.loads(ckpt("ls", tmp_path / "ckpt", "--json").stdout)["checkpoints"]
    steps = [c["step"] for c in listed]
    last = run.report()["last_step"] + 1
    told = (steps, last, before, run.describe())
    # Nothing is saved twice: the signal may come before another step has ended.
    assert abs(steps[0] - last) <= 1 and (steps[0] > before or last == before), told
    run.assert_nothing_left()


# Saves three times; before the third one the engines (or only this rank's) are killed, and once
# more while the third one is being written.
SURVIVOR = KILL_ENGINES + """
    import sys
    import torch, torch.distributed as dist
    from shanty import Checkpointer, CheckpointError

    root, whose = sys.argv[1:]
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def say(*words):
        # In one write: the ranks may share the pipe.
        sys.stdout.write(" ".join(map(str, words)) + "\\n")
        sys.stdout.flush()

    def lose_engines(rate):
        if rank == dist.get_world_size() - 1:
            kill_engines(of_all=whose == "all")
        if whose == "all" or rank == dist.get_world_size() - 1:
            assert checkpointer._engine.connection.is_lost(60_000)
            checkpointer._rate = rate  # of the engine that comes
        dist.barrier()

    torch.manual_seed(1)
    model = torch.nn.Linear(2000, 2000)
    checkpointer = Checkpointer(root, keep=5).attach(model=model)
    for step in (1, 2, 3, 4):
        if step == 3:
            lose_engines(1 << 14)  # it would write for minutes
        torch.nn.init.constant_(model.weight, step)
        handle = checkpointer.save(step)
        checkpointer.fence()
        if step == 3:
            lose_engines(0)
        try:
            handle.wait(60)
            say("saved", step)
        except CheckpointError as error:
            say("failed", step, error)
    torch.nn.init.constant_(model.weight, 7)
    found = checkpointer.load()
    say("loaded", found.step, float(model.weight.min()), float(model.weight.max()))
    checkpointer.close()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("arguments, whose", [(["--nproc-per-node", 2], "all"),
                                              (["--nnodes", 2], "mine")])
def test_the_same_trainers_save_again_after_their_engine_was_killed(start, script, tmp_path,
                                                                     arguments, whose):
    root = tmp_path / "ckpt"
    run = start(*arguments, script(SURVIVOR), root, whose).wait()
    assert run.code == 0, run.describe()
    for rank in (0, 1):
        assert words(run, rank, 1, "saved") == ["saved 1", "saved 2", "saved 4"], run.describe()
        assert words(run, rank, 1, "loaded")[0].endswith(" 4.0 4.0"), run.describe()
        said = run.log(rank).decode()
        assert said.count("shanty: the checkpoint of step 3 failed: ") == 1, run.describe()
        if whose == "all":
            assert "the checkpoint engine was lost" in words(run, rank, 1, "failed")[0]
    assert ckpt("verify", root, "--all").returncode == 0
    steps = {c["step"] for c in json.loads(ckpt("ls", root, "--json").stdout)["checkpoints"]}
    assert steps - {3} == {1, 2, 4}
    run.assert_nothing_left()


def test_so_do_the_ranks_of_torchrun_whose_engines_are_their_own(script, tmp_path):
    env = {**os.environ, "SHANTY_BINARY": str(SHANTY), "PYTHONPATH": str(ROOT / "python"),
           "SHANTY_TEST_RUN": f"{os.getpid()}-{time.time_ns()}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
               script(SURVIVOR), tmp_path / "ckpt", "all"]
    done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True,
                          timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line in ("saved 1", "saved 2", "saved 4", "loaded 4 4.0 4.0"):
        assert lines.count(line) == 2, (done.stdout, done.stderr)
