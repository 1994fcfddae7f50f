"""The hooks against the real torch. Each script runs once; many tests look at what it left."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ring_reader import Record, TestRing, finish, run, start

torch = pytest.importorskip("torch")

SCRIPTS = Path(__file__).resolve().parent / "scripts"
DEFAULT_BITS = 1 | 2 | 4 | 8 | 32
LATE_US = 290_000  # of the 0.3 s of two_ranks.py


class Outcome:
    def __init__(self, ring: TestRing, out: str, err: str) -> None:
        self.ring, self.err = ring, err
        self.known: dict[str, Any] = json.loads(out.splitlines()[-1])
        self.records = ring.records()

    def of(self, section: str) -> list[Record]:
        if section not in self.known:
            pytest.skip(f"this torch has nothing for {section}")
        known = self.known[section]
        return self.records[known["from"] : known["to"]]


@pytest.fixture(scope="module")
def hooked() -> Outcome:
    ring = TestRing()
    ended = run(ring, str(SCRIPTS / "one_process.py"))
    assert ended.code == 0, ended.err
    assert ring.pid == ended.pid
    return Outcome(ring, ended.out, ended.err)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    meeting = tmp_path_factory.mktemp("meeting") / "store"
    rings = [TestRing(rank=rank) for rank in range(2)]
    started = [
        start(
            ring,
            str(SCRIPTS / "two_ranks.py"),
            RANK=str(rank),
            MEETING=str(meeting),
            SHANTY_HOOKS="default, collectives",
        )
        for rank, ring in enumerate(rings)
    ]
    outcomes = []
    for ring, process in zip(rings, started):
        ended = finish(process)
        assert ended.code == 0, ended.err
        outcomes.append(Outcome(ring, ended.out, ended.err))
    return outcomes


def test_a_plain_loop_gives_a_record_a_step(hooked: Outcome) -> None:
    # The first one is held until the second step begins, so all are there at the end.
    records = hooked.of("plain")
    losses = hooked.known["plain"]["losses"]
    assert [r.step for r in records] == list(range(len(losses)))
    assert [r.loss for r in records] == pytest.approx(losses)
    assert all(r.samples == 5 and not r.named and not r.first_item_excluded for r in records)
    for record in records[1:]:
        parts = record.data_us + record.backward_us + record.optimizer_us
        assert 0 < parts <= record.whole_us
        assert min(record.data_us, record.backward_us, record.optimizer_us) > 0


def test_accumulated_backwards_are_one_step(hooked: Outcome) -> None:
    records = hooked.of("accumulation")
    assert [r.loss for r in records] == pytest.approx(hooked.known["accumulation"]["losses"])
    assert all(r.samples == 6 for r in records)


def test_two_optimizers_make_one_step_of_an_iteration(hooked: Outcome) -> None:
    assert len(hooked.of("two_optimizers")) == 6


def test_lbfgs_is_one_step_with_its_backwards_apart(hooked: Outcome) -> None:
    records = hooked.of("lbfgs")
    assert len(records) == 2 and hooked.known["lbfgs"]["calls"] > 2
    assert all(r.backward_us > 0 and r.optimizer_us > 0 for r in records)


def test_a_scaled_loss_is_recorded_unscaled_and_a_skipped_step_not_at_all(hooked: Outcome) -> None:
    records = hooked.of("scaler")
    losses = hooked.known["scaler"]["losses"]
    assert len(records) == 3
    assert [r.loss for r in records[:2]] == pytest.approx(losses[:2])
    assert math.isinf(records[2].loss)


def test_an_exception_of_the_optimizer_is_the_scripts(hooked: Outcome) -> None:
    assert hooked.known["own_optimizer"]["raised"] == "mine"
    assert len(hooked.of("own_optimizer")) == 2


def test_an_evaluation_is_not_data(hooked: Outcome) -> None:
    for record in hooked.of("evaluation"):
        assert record.whole_us > 20_000 and record.data_us == 0
        assert math.isnan(record.samples)


def test_checkpoints_are_timed_and_counted(hooked: Outcome) -> None:
    assert all(r.checkpoint_us > 500 for r in hooked.of("checkpoints"))
    assert hooked.ring.checkpoints["written"] == hooked.ring.checkpoints["read"] == 2


def test_a_data_set_that_loads_files_reads_no_checkpoint(hooked: Outcome) -> None:
    for record in hooked.of("loading_dataset"):
        assert record.checkpoint_us == 0 and record.data_us > 0 and record.samples == 4


def test_the_samples_of_odd_batches(hooked: Outcome) -> None:
    samples = [None if math.isnan(r.samples) else r.samples for r in hooked.of("batches")]
    assert samples == [7, 6, None, None, 9, 9]


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_loader_workers_work_and_do_not_write(hooked: Outcome, how: str) -> None:
    records = hooked.of(how)
    assert hooked.known[how]["total"] == sum(range(24)) * 8
    assert len(records) == 6 and all(r.samples == 4 for r in records)
    assert [r.first_item_excluded for r in records] == [True] + [False] * 5
    # The workers' start is in the step, but not in its data.
    assert records[0].data_us < records[0].whole_us / 2


def test_compiled_models_are_traced_whole_and_their_forward_seen(hooked: Outcome) -> None:
    records = hooked.of("compiled")
    assert [r.loss for r in records] == pytest.approx(hooked.known["compiled"]["losses"])
    assert all(r.forward_us > 0 for r in records)


def test_a_compiled_step_is_seen(hooked: Outcome) -> None:
    records = hooked.of("compiled_step")
    assert len(records) == 3 and all(r.backward_us > 0 for r in records)


def test_wrapped_functions_look_like_the_originals(hooked: Outcome) -> None:
    known = hooked.known["identity"]
    assert known["names"] == ["save", "backward"]
    assert known["signature"].startswith("(tensors:")


def test_a_failing_hook_leaves_the_script_alone(hooked: Outcome) -> None:
    assert hooked.of("broken") == []
    assert hooked.err.count("shanty:") == 1
    assert "shanty: step hooks are off: RuntimeError: injected\n" in hooked.err
    assert hooked.ring.reason == "step hooks are off: RuntimeError: injected"
    assert hooked.ring.bits == 0
    assert hooked.ring.torch_version == torch.__version__[:32]


def test_ddp_shows_forward_and_the_wait_in_backward(ranks: list[Outcome]) -> None:
    early, late = ranks[0].of("ddp"), ranks[1].of("ddp")
    assert len(early) == len(late) == 5
    assert all(r.forward_us > 0 for r in early[1:4] + late[1:4])
    assert min(r.backward_us for r in early[1:4]) > LATE_US
    # Of which the machine may hold some up.
    assert min(r.backward_us for r in late[1:4]) < LATE_US
    assert ranks[0].known["ddp"]["weight"] == ranks[1].known["ddp"]["weight"]


def test_ddp_in_evaluation_is_not_forward(ranks: list[Outcome]) -> None:
    for outcome in ranks:
        last = outcome.of("ddp")[-1]
        assert last.forward_us == 0 and last.collective_us > 0


def test_collectives_are_hooked_when_asked(ranks: list[Outcome]) -> None:
    for outcome in ranks:
        assert outcome.ring.bits & (DEFAULT_BITS | 64) == DEFAULT_BITS | 64
        assert outcome.ring.reason == "" and "shanty" not in outcome.err


def test_fsdp2_shows_forward(ranks: list[Outcome]) -> None:
    for outcome in ranks:
        records = outcome.of("fsdp2")
        assert len(records) == 4 and all(r.forward_us > 0 for r in records)
        assert outcome.ring.bits & 16
    # The early rank waits for the late one in backward's reduce-scatter.
    assert all(r.backward_us > LATE_US for r in ranks[0].of("fsdp2")[1:])


def test_hooks_can_be_picked_and_a_misspelled_one_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nsgd = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=1)\n"
        "for _ in range(2):\n    torch.ones(1, requires_grad=True).backward(); sgd.step()\n"
    )
    ring = TestRing()
    picked = start(ring, str(script), SHANTY_HOOKS="optimizer,backwards")
    off_ring = TestRing()
    off = start(off_ring, str(script), SHANTY_HOOKS="off")
    ended = finish(picked)
    assert ended.code == 0 and 'no hook is called "backwards"' in ended.err
    assert ring.bits == 1 and [math.isnan(r.loss) for r in ring.records()] == [True, True]
    assert finish(off).code == 0 and (off_ring.bits, off_ring.head) == (0, 0)
    assert off_ring.phase == "done"


class Remote(os.PathLike):  # type: ignore[type-arg]
    def __fspath__(self) -> str:
        raise RuntimeError("it is on another machine")


def test_where_a_save_went_may_be_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shanty.hooks.checkpoint import tell_place

    (tmp_path / "saves").mkdir()
    monkeypatch.setenv("SHANTY_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    for place in (Remote(), tmp_path / "nowhere", "memory://x", 7, None):
        tell_place(({}, place), {}, 1)
    assert not list((tmp_path / "saves").iterdir())
    tell_place(({}, tmp_path), {}, 1)
    assert list((tmp_path / "saves").iterdir())


@pytest.mark.parametrize("place", ["data", "forward", "backward", "other", "optimizer"])
def test_a_counted_step_that_stands_shows_where(place: str) -> None:
    ring = TestRing()
    process = start(ring, str(SCRIPTS / "counted.py"), place, stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "standing 300\n"
    limit = time.monotonic() + 120
    while ring.phase != place and time.monotonic() < limit:
        time.sleep(0.01)
    assert (ring.phase, ring.step_in_work) == (place, 300)
    process.stdin.write("\n")
    process.stdin.flush()
    ended = finish(process)
    assert ended.code == 0 and "shanty" not in ended.err and ring.phase == "done"
    records = ring.records()
    assert [r.step for r in records] == list(range(600)) and any(r.counted for r in records)
    timed = [r for r in records[64:] if not r.counted]
    assert timed and all(r.forward_us and r.backward_us and r.optimizer_us for r in timed)


def test_hooks_stay_where_code_was_compiled() -> None:
    ring = TestRing()
    ended = run(ring, str(SCRIPTS / "counted.py"), "compiled")
    assert ended.code == 0 and ended.out == "done [True, True]\n"
    assert any(r.counted for r in ring.records())
