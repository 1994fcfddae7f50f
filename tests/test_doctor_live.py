"""`shanty doctor` on real jobs: who holds up whom, what was slow, what a resume lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import LIMIT_S, SHANTY, Run, wait_until

pytest.importorskip("torch")

SCRIPT = '''
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
mode, steps = sys.argv[1], int(sys.argv[2])
rank = int(os.environ["RANK"])
batch = 64 if mode == "resume" else 4  # a loss without much noise
generation = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return batch * steps
    def __getitem__(self, i):
        if mode == "data" and rank == 1 and i == 60:
            time.sleep(600)
        if mode == "loader":
            time.sleep(0.02)
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(16, generator=generator)
        return x, x.sum().reshape(1)

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
first = 0
path = os.environ.get("CHECKPOINT", "")
enough = os.environ.get("ENOUGH", "")
if path and os.path.exists(path):
    first = torch.load(path)["step"] + 1          # the weights are forgotten
model = DDP(model)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.97 ** s)
loader = torch.utils.data.DataLoader(Data(), batch_size=batch)
for step, (x, y) in enumerate(loader, first):
    if mode == "loop" and rank == 1 and step == 15:
        while True:
            pass
    if mode == "resume" and generation == 0 and step == 35:
        sys.exit(3)
    out = model(x)
    if mode in ("straggler", "stop", "healthy"):
        time.sleep(0.4 if mode == "straggler" and rank == 1 else 0.1)
    loss = ((out - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0:
        lr = schedule.get_last_lr()[0]
        print(f"step={step} loss={loss.item():.5f} lr={lr:.6f}", flush=True)
    schedule.step()
    if path and rank == 0 and step == 30:
        torch.save({"step": step, "model": model.module.state_dict()}, path)
    if enough:
        over = torch.tensor(float(os.path.exists(enough)))
        dist.all_reduce(over)
        if over:
            break
dist.destroy_process_group()
'''


MANY_STEPS = 10**6


@pytest.fixture
def train(start, tmp_path):
    """train(mode, steps, ranks, *options, env=...) -> Run."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def start_training(mode: str, steps: int, ranks: int, *options: str, env=None) -> Run:
        return start("--nproc-per-node", str(ranks), *options, str(script), mode, str(steps),
                     env=env)

    return start_training


def live(run: Run) -> dict:
    try:
        return json.loads((run.dir / "live.json").read_text())
    except (OSError, ValueError):
        return {}


def wait_for_step(run: Run, step: int):
    def done():
        assert run.process.poll() is None, run.wait().stderr
        ranks = live(run).get("ranks", [])
        return ranks and all(r["has_step"] and r["step"] >= step for r in ranks)
    wait_until(done, f"step {step}")


def wait_until_it_stands(run: Run):
    """Until so long after the last step that no look at it takes the job for a moving one."""
    wait_until(lambda: all(r["has_step"] and time.time_ns() - r["last_step_unix_ns"] > 3e9
                           for r in live(run).get("ranks", [{"has_step": False}])),
               "the job stands")


def doctor(run: Run, expected_code: int | None = 1) -> list[dict]:
    # With a slash at the end, as a shell completes it.
    done = subprocess.run([str(SHANTY), "doctor", f"{run.dir}/", "--json"], env=run.env,
                          capture_output=True, timeout=LIMIT_S, check=False)
    findings = json.loads(done.stdout)["findings"]
    if expected_code is None:
        expected_code = 1 if loud(findings) else 0
    assert done.returncode == expected_code, done.stdout + done.stderr
    return findings


def loud(findings: list[dict]) -> list[dict]:
    return [f for f in findings if f["severity"] != "info"]


def alive(run: Run) -> bool:
    return all(r["alive"] for r in live(run)["ranks"])


@pytest.fixture
def enough(tmp_path):
    """What a job is told with ENOUGH: it trains until this is there."""
    return tmp_path / "enough"


def end(run: Run):
    if run.process.poll() is None:
        run.process.send_signal(signal.SIGTERM)
    run.wait()


@pytest.mark.parametrize("mode", ["data", "loop"])
def test_a_rank_that_never_arrives_is_named_while_all_still_live(train, mode):
    run = train(mode, 1000, 3)
    try:
        wait_for_step(run, 14)
        wait_until_it_stands(run)
        findings = doctor(run)
        assert alive(run)
        assert findings[0]["code"] == "HANG102", findings
        assert findings[0]["subject"]["ranks"] == [1]
        assert any("py-spy" in fix for fix in findings[0]["fix"])
    finally:
        end(run)
    if mode == "data":  # and after it was stopped
        after = loud(doctor(run))
        assert after[0]["code"] == "HANG102"
        assert after[0]["subject"]["ranks"] == [1]


def test_a_stopped_rank_is_named_and_goes_on(train, enough):
    run = train("stop", MANY_STEPS, 2, env={"ENOUGH": str(enough)})
    try:
        wait_for_step(run, 5)
        pid = next(r["pid"] for r in live(run)["ranks"] if r["rank"] == 1)
        os.kill(pid, signal.SIGSTOP)
        try:
            findings = doctor(run)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert findings[0]["code"] == "HANG104"
        assert findings[0]["subject"]["ranks"] == [1]
        assert f"kill -CONT {pid}" in findings[0]["fix"][0]
        enough.touch()
        assert run.wait().process.returncode == 0
    finally:
        end(run)


def look_at_a_healthy_run(train, enough) -> list[dict]:
    """What is found while it runs, and afterwards."""
    enough.unlink(missing_ok=True)
    run = train("healthy", MANY_STEPS, 2, env={"ENOUGH": str(enough)})
    try:
        wait_for_step(run, 40)
        findings = doctor(run, expected_code=None)
        enough.touch()
        assert run.wait().process.returncode == 0
    finally:
        end(run)
    after = doctor(run, expected_code=None)
    assert "PERF108" in {f["code"] for f in after}
    return findings + after


def test_a_healthy_run_is_left_in_peace(train, enough):
    for _ in range(3):
        said = loud(look_at_a_healthy_run(train, enough))
        # What else a busy machine does may slow a job down; not each time.
        if not all(f["class"] == "slow" for f in said) or not said:
            break
    assert not said


def test_a_straggler_is_named(train):
    run = train("straggler", 40, 2).wait()
    assert run.process.returncode == 0, run.stderr
    found = {f["code"]: f for f in loud(doctor(run))}
    assert found["PERF102"]["subject"]["ranks"] == [1]
    assert "steadily" in found["PERF102"]["message"]


def test_a_slow_loader_is_named(train):
    run = train("loader", 50, 2).wait()
    assert run.process.returncode == 0, run.stderr
    assert "PERF107" in {f["code"] for f in loud(doctor(run))}


def test_a_resume_without_weights_and_schedule_is_audited(train, tmp_path):
    run = train("resume", 40, 2, "--max-restarts", "1",
                env={"CHECKPOINT": str(tmp_path / "last.pt")}).wait()
    assert run.process.returncode == 0, run.stderr
    found = {f["code"]: f for f in doctor(run)}
    assert "weights" in found["RES101"]["message"], found
    assert "begins anew" in found["RES102"]["message"], found
