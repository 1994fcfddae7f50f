"""Faults on request, in a real training loop, and what the job makes of them."""

import json

import pytest

from conftest import ROOT, shanty, wait_until

TRAIN = """
    import sys, torch
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(int(sys.argv[1])):
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
def test_a_fault_ends_one_generation_and_the_next_one_finishes(start, script, inject, reason):
    run = start("--nproc-per-node", 2, "--max-restarts", 3, "--inject", inject,
                script(TRAIN), 3000).wait()
    assert run.code == 0, run.describe()
    report = run.report()
    assert report["generations"] == 2
    (failure,) = report["failures"]
    assert failure["rank"] == 1 and reason in failure["reason"], failure
    assert run.has_event("injected")
    assert report["wall_time_s"] == pytest.approx(
        report["useful_time_s"] + sum(loss["seconds"] for loss in report["losses"]), abs=0.01
    )


def test_a_rank_without_memory_fails_with_its_own_words(start, script):
    run = start("--nproc-per-node", 2, "--inject", "oom:rank=0,step=40",
                script(TRAIN.replace("1 << 20", "1 << (20 if step < 45 else 26)")), 30000).wait()
    assert run.code == 1, run.describe()
    failure = run.report()["failures"][0]
    assert failure["rank"] == 0
    assert "memory" in failure["first_error"].lower(), failure


def test_a_cut_connection_costs_the_job_nothing(start, script):
    run = start("--nnodes", 2, "--inject", "netcut:node=1,step=20,seconds=1",
                script(TRAIN + "\n        import time; time.sleep(0.001)\n"), 2500).wait()
    assert run.code == 0, run.describe()
    assert run.has_event("injected") and run.report()["generations"] == 1


def test_a_stopped_rank_stands_still_and_can_be_seen(start, script):
    run = start("--nproc-per-node", 2, "--inject", "stop:rank=1,step=40", script(TRAIN), 10**9)
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
