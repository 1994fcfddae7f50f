"""Faults on request, in a real training loop, and what the job makes of them."""

import json

import pytest

from conftest import ROOT, shanty, wait_until

# Trains until the file is there.
TRAIN = """
    import itertools, os, sys, torch
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in itertools.takewhile(lambda _: not os.path.exists(sys.argv[1]), itertools.count()):
        loss = model(torch.randn(8, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        big = [torch.zeros(1 << 20) for _ in range(4)]
"""


@pytest.mark.parametrize(
    "inject, reason",
    [
        ("kill:rank=1,step=40", "SIGKILL"),
        ("exit:rank=1,step=40,code=7", "code 7"),
    ],
)
def test_a_fault_ends_one_generation_and_the_next_one_finishes(
        start, script, tmp_path, inject, reason):
    run = start("--nproc-per-node", 2, "--max-restarts", 3, "--inject", inject,
                script(TRAIN), tmp_path / "enough")
    wait_until((run.dir / "logs" / "gen-0002").exists, "the next generation is there")
    (tmp_path / "enough").touch()
    run.wait()
    assert run.code == 0, run.describe()
    report = run.report()
    assert report["generations"] == 2
    (failure,) = report["failures"]
    assert failure["rank"] == 1 and reason in failure["reason"], failure
    assert run.has_event("injected")
    assert report["wall_time_s"] == pytest.approx(
        report["useful_time_s"] + sum(loss["seconds"] for loss in report["losses"]), abs=0.01
    )


def test_a_rank_without_memory_fails_with_its_own_words(start, script, tmp_path):
    run = start("--nproc-per-node", 2, "--inject", "oom:rank=0,step=40",
                script(TRAIN.replace("1 << 20", "1 << (20 if step < 45 else 26)")),
                tmp_path / "never").wait()
    assert run.code == 1, run.describe()
    failure = run.report()["failures"][0]
    assert failure["rank"] == 0
    assert "memory" in failure["first_error"].lower(), failure


def test_a_cut_connection_costs_the_job_nothing(start, script, tmp_path):
    run = start("--nnodes", 2, "--inject", "netcut:node=1,step=20,seconds=1", script(TRAIN),
                tmp_path / "enough")

    def heard_again():
        cut_ns = next((e["unix_ns"] for e in run.events() if e["kind"] == "injected"), None)
        ranks = json.loads((run.dir / "live.json").read_text())["ranks"] if cut_ns else []
        return any(r["rank"] == 1 and r["last_step_unix_ns"] > cut_ns + 1e9 for r in ranks)

    wait_until(heard_again, "node 1 tells of steps after the cut")
    (tmp_path / "enough").touch()
    run.wait()
    assert run.code == 0, run.describe()
    assert run.has_event("injected") and run.report()["generations"] == 1


def test_a_stopped_rank_stands_still_and_can_be_seen(start, script, tmp_path):
    run = start("--nproc-per-node", 2, "--inject", "stop:rank=1,step=40", script(TRAIN),
                tmp_path / "never")
    wait_until(lambda: run.has_event("injected"), "the rank is stopped")

    def gap():
        ranks = json.loads(shanty("top", run.dir, "--json").stdout or "{}").get("ranks", [])
        steps = {rank["rank"]: rank.get("step") or 0 for rank in ranks}
        return len(steps) == 2 and steps[0] > steps[1] + 100

    wait_until(gap, "top shows rank 1 behind")


def test_bad_faults_are_usage_errors():
    for text in ("explode:rank=1", "kill", "kill:rank=x", "kill:rank=9,step=1", "slow:rank=0,factor=0"):
        result = shanty("run", "--inject", text, "--nproc-per-node", 2, ROOT / "examples/hello.py")
        assert result.returncode == 2 and "--inject" in result.stderr, (text, result)
