"""Which call ends a step, and where its time goes. No torch: the hooks are played by hand."""

from __future__ import annotations

import gc
import os
import struct
import threading

import pytest

from ring_reader import TestRing
from shanty import recorder as parts
from shanty.recorder import BACKWARD, CHECKPOINT, DATA, EVAL, FORWARD, OTHER, Recorder
from shanty.ring import Ring, open_ring

MS = 1_000_000


class Optimizer:
    pass


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, ms: float) -> None:
        self.now_ns += int(ms * MS)


@pytest.fixture
def ring() -> TestRing:
    return TestRing()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(parts, "monotonic_ns", clock)
    return clock


@pytest.fixture
def rec(ring: TestRing, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("SHANTY_RING_FD", str(ring.fd))
    monkeypatch.setattr(parts, "_PUT_EVERY_NS", -1)
    opened = open_ring()
    assert opened is not None
    recorder = Recorder(opened)
    recorder.begin("3.x")
    return recorder


def optimize(
    rec: Recorder, optimizer: Optimizer, clock: Clock | None = None, ms: float = 0
) -> None:
    rec.optimizer_begins(optimizer)
    if clock is not None:
        clock.pass_ms(ms)
    rec.optimizer_ends(optimizer)


def test_the_parts_of_a_step_are_told_apart(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    sgd = Optimizer()
    for _ in range(2):
        token = rec.enter_data()
        clock.pass_ms(1)
        rec.leave(token)
        clock.pass_ms(10)
        for phase, ms in ((FORWARD, 2), (BACKWARD, 4)):
            token = rec.enter(phase)
            clock.pass_ms(ms)
            rec.leave(token)
        optimize(rec, sgd, clock, 8)
    rec.done()
    for record in ring.records():
        assert record.whole_us == 25_000
        assert (record.data_us, record.forward_us) == (1_000, 2_000)
        assert (record.backward_us, record.optimizer_us) == (4_000, 8_000)
    assert ring.head == 2 and ring.phase == "done" and ring.pid == os.getpid()


def test_a_nested_phase_pauses_the_outer(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    closure_optimizer = Optimizer()
    rec.optimizer_begins(closure_optimizer)
    clock.pass_ms(1)
    for _ in range(3):
        token = rec.enter(BACKWARD)
        clock.pass_ms(2)
        rec.leave(token)
    clock.pass_ms(1)
    rec.optimizer_ends(closure_optimizer)
    rec.done()
    (record,) = ring.records()
    assert (record.optimizer_us, record.backward_us, record.whole_us) == (2_000, 6_000, 8_000)


def test_two_optimizers_of_a_loop_make_one_step(rec: Recorder, ring: TestRing) -> None:
    discriminator, generator = Optimizer(), Optimizer()
    for _ in range(5):
        optimize(rec, discriminator)
        optimize(rec, generator)
    rec.done()
    assert [r.step for r in ring.records()] == [0, 1, 2, 3, 4]


def test_an_optimizer_that_takes_over_sets_the_pace(rec: Recorder, ring: TestRing) -> None:
    warm_up, main = Optimizer(), Optimizer()
    for _ in range(3):
        optimize(rec, warm_up)
    for _ in range(3):
        optimize(rec, main)
    rec.done()
    # Its first step could still have been the second optimizer of a loop.
    assert ring.head == 3 + 2


def test_an_optimizer_that_is_gone_hands_over_at_once(rec: Recorder, ring: TestRing) -> None:
    for _ in range(3):
        optimizer = Optimizer()
        optimize(rec, optimizer)
        optimize(rec, optimizer)
        del optimizer
        gc.collect()
    rec.done()
    assert [r.step for r in ring.records()] == [0, 1, 2, 3, 4, 5]


def test_the_loss_is_the_mean_of_the_backwards(rec: Recorder, ring: TestRing) -> None:
    sgd = Optimizer()
    rec.add_loss(1.0)
    rec.add_loss(3.0)
    optimize(rec, sgd)
    optimize(rec, sgd)
    rec.done()
    first, second = ring.records()
    assert first.loss == 2.0
    assert second.loss != second.loss and second.samples != second.samples


def test_named_steps_replace_the_optimizers(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    sgd = Optimizer()
    for step in range(100, 103):
        token = rec.enter(BACKWARD)
        clock.pass_ms(2)
        rec.leave(token)
        optimize(rec, sgd, clock, 1)
        clock.pass_ms(1)
        rec.named_step(0.5, 32.0, step, 500)
    rec.done()
    records = ring.records()
    assert [r.step for r in records] == [100, 101, 102]
    assert all(r.named and r.loss == 0.5 and r.samples == 32.0 for r in records)
    assert [r.whole_us for r in records] == [4_000] * 3
    assert [r.backward_us for r in records] == [2_000] * 3
    assert (ring.total, ring.first_step, ring.bits & 128) == (500, 101, 128)
    assert ring.step_in_work == 103


def test_named_steps_work_with_two_optimizers(rec: Recorder, ring: TestRing) -> None:
    a, b = Optimizer(), Optimizer()
    for _ in range(3):
        optimize(rec, a)
        optimize(rec, b)
        rec.named_step(None, None, None, None)
    assert [r.step for r in ring.records()] == [0, 1, 2]


def test_evaluation_absorbs_what_happens_in_it(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    sgd = Optimizer()
    token = rec.enter(EVAL)
    inner = rec.enter_data()
    clock.pass_ms(50)
    assert ring.phase == "eval"
    rec.leave(inner)
    rec.leave(token)
    optimize(rec, sgd)
    rec.done()
    (record,) = ring.records()
    assert record.data_us == 0 and record.whole_us == 50_000


def test_the_start_of_loader_workers_is_no_data_stall(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    sgd = Optimizer()
    for leave in (rec.leave_first_data, rec.leave):
        token = rec.enter_data()
        clock.pass_ms(30)
        leave(token)
    optimize(rec, sgd)
    rec.done()
    (record,) = ring.records()
    assert record.data_us == 30_000 and record.whole_us == 60_000
    assert record.first_item_excluded


def test_a_step_that_raised_does_not_stay_in_its_phase(rec: Recorder, ring: TestRing) -> None:
    sgd = Optimizer()
    rec.optimizer_begins(sgd)
    rec.leave(rec.enter_data())
    assert ring.phase == "other"
    optimize(rec, sgd)
    assert ring.phase == "other"


def test_threads_that_do_not_train_are_ignored(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    sgd = Optimizer()
    optimize(rec, sgd)
    tokens: list[int] = []

    def elsewhere() -> None:
        tokens.append(rec.enter(CHECKPOINT))
        rec.leave(tokens[0])
        optimize(rec, Optimizer())
        rec.add_checkpoint(1, 0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    optimize(rec, sgd)
    assert tokens == [-1]
    assert ring.head == 2
    rec.done()
    assert ring.head == 2
    # A checkpoint counts wherever it is written.
    assert ring.checkpoints["written"] == 1


def test_a_script_may_train_in_a_thread_of_its_own(rec: Recorder, ring: TestRing) -> None:
    def train() -> None:
        sgd = Optimizer()
        optimize(rec, sgd)
        optimize(rec, sgd)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert [r.step for r in ring.records()] == [0, 1]


def test_a_failure_switches_off_and_says_so_once(
    rec: Recorder, ring: TestRing, capsys: pytest.CaptureFixture[str]
) -> None:
    sgd = Optimizer()
    optimize(rec, sgd)

    class Broken:
        def __getitem__(self, _: int) -> int:
            return os.getpid()

        def __setitem__(self, *_: object) -> None:
            raise RuntimeError("no ring\nhere")

    rec.words = Broken()
    for _ in range(3):
        token = rec.enter(BACKWARD)
        rec.leave(token)
        optimize(rec, sgd)
    assert capsys.readouterr().err == "shanty: step hooks are off: RuntimeError: no ring here\n"
    assert ring.reason == "step hooks are off: RuntimeError: no ring here"
    assert not rec.on and ring.bits == 0


def test_a_ring_of_another_process_is_left_alone(rec: Recorder, ring: TestRing) -> None:
    struct.pack_into("<Q", ring.map, 64, 1)
    before = bytes(ring.map)
    sgd = Optimizer()
    token = rec.enter(FORWARD)
    rec.leave(token)
    optimize(rec, sgd)
    rec.add_checkpoint(1, 1)
    rec.done()
    assert bytes(ring.map) == before and not rec.on


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf"), float("nan"), 3.5e38])
def test_any_loss_fits(rec: Recorder, ring: TestRing, value: float) -> None:
    rec.named_step(value, value, 1 << 70, -5)
    (record,) = ring.records()
    assert rec.on and (record.loss != record.loss or abs(record.loss) == float("inf"))


def test_long_durations_saturate(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    token = rec.enter(DATA)
    clock.pass_ms(10_000_000)
    rec.leave(token)
    rec.named_step(None, None, None, None)
    (record,) = ring.records()
    assert record.whole_us == record.data_us == (1 << 32) - 1


def test_a_forked_child_never_writes(rec: Recorder, ring: TestRing) -> None:
    rec.turn_off()
    before = bytes(ring.map)
    token = rec.enter(OTHER)
    rec.leave(token)
    optimize(rec, Optimizer())
    rec.named_step(1.0, 1.0, 1, 1)
    rec.add_checkpoint(1, 1)
    rec.done()
    assert bytes(ring.map) == before


def test_a_save_in_a_signal_handler_does_not_wait_for_the_save_it_interrupted(
    rec: Recorder, ring: TestRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Ring.put_checkpoint
    inner = [True]

    def interrupted(*args: int) -> None:
        if inner:
            inner.pop()
            rec.add_checkpoint(1, 0)
        put(*args)

    monkeypatch.setattr(Ring, "put_checkpoint", interrupted)
    thread = threading.Thread(target=rec.add_checkpoint, args=(1, 0), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_records_of_short_steps_are_written_together(
    rec: Recorder, ring: TestRing, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PUT_EVERY_NS", 50 * MS)
    sgd = Optimizer()
    heads = []
    for _ in range(120):
        optimize(rec, sgd, clock, 1)
        heads.append(ring.head)
    assert 2 < len(set(heads)) < 6
    # The step in work is shown at once.
    assert ring.step_in_work == 120 > heads[-1]
    rec.done()
    assert [r.step for r in ring.records()] == list(range(120))


def test_a_resumed_process_counts_from_the_jobs_beginning(rec: Recorder, ring: TestRing) -> None:
    rec.resumed_at(20)
    sgd = Optimizer()
    for _ in range(3):
        optimize(rec, sgd)
    rec.done()
    records = ring.records()
    assert [r.step for r in records] == [20, 21, 22]
    assert all(r.named for r in records) and ring.first_step == 21


def test_a_script_that_names_its_steps_overrides_where_it_resumed(
    rec: Recorder, ring: TestRing
) -> None:
    rec.resumed_at(20)
    sgd = Optimizer()
    for step in (7, 8):
        optimize(rec, sgd)
        rec.named_step(None, None, step, None)
    assert [r.step for r in ring.records()] == [7, 8]


def train(rec: Recorder, clock: Clock, optimizer: Optimizer, steps: int, ms: float) -> None:
    """Steps of `ms`, half of it backward, with a loss."""
    for _ in range(steps):
        if rec.counting != threading.get_ident():
            token = rec.enter(BACKWARD)
            clock.pass_ms(ms / 2)
            rec.leave(token)
            rec.add_loss(0.5)
        else:
            clock.pass_ms(ms / 2)
        optimize(rec, optimizer, clock, ms / 2)


def test_of_short_steps_one_each_two_hundred_ms_is_timed(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    train(rec, clock, Optimizer(), 2000, 1)
    rec.done()
    records = ring.records()
    assert [r.step for r in records] == list(range(2000))
    assert all(r.whole_us == 1000 for r in records)
    assert not any(r.counted for r in records[:64])
    timed = [r for r in records[1000:] if not r.counted]
    assert {r.step % 128 for r in timed} == {0} and len(timed) == 1000 // 128 + 1
    assert {(r.backward_us, r.optimizer_us, r.loss) for r in timed} == {(500, 500, 0.5)}
    assert all(r.backward_us == 0 and r.loss != r.loss for r in records if r.counted)


def test_of_long_steps_all_are_timed(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    train(rec, clock, Optimizer(), 200, 26)
    rec.done()
    assert not any(r.counted for r in ring.records())


def test_steps_that_grow_long_are_timed_again_at_once(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    sgd = Optimizer()
    train(rec, clock, sgd, 1000, 0.25)
    train(rec, clock, sgd, 60, 200)
    rec.done()
    long = ring.records()[1000:]
    assert sum(r.counted for r in long) < 20 and not any(r.counted for r in long[-20:])


def test_a_counted_step_shows_its_phase(rec: Recorder, clock: Clock, ring: TestRing) -> None:
    sgd = Optimizer()
    while rec.counting == -1:
        train(rec, clock, sgd, 1, 1)
    rec.optimizer_begins(sgd)
    assert ring.phase == "optimizer"
    rec.optimizer_ends(sgd)
    assert ring.phase == "other" and ring.step_in_work == rec.step


def test_a_checkpoint_within_a_counted_step_is_timed(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    sgd = Optimizer()
    while rec.counting == -1:
        train(rec, clock, sgd, 1, 1)
    token = rec.enter(CHECKPOINT)
    clock.pass_ms(5)
    rec.leave(token)
    optimize(rec, sgd, clock, 1)
    rec.done()
    record = ring.records()[-1]
    assert record.counted and (record.checkpoint_us, record.whole_us) == (5_000, 6_000)
    assert record.loss != record.loss and record.samples != record.samples


def test_the_last_counted_steps_are_written_at_the_end(
    rec: Recorder, clock: Clock, ring: TestRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PUT_EVERY_NS", 50 * MS)
    train(rec, clock, Optimizer(), 1001, 1)
    assert rec.counting != -1 and ring.head < 1001
    rec.done()
    assert [r.step for r in ring.records()] == list(range(1001))


def test_a_script_that_begins_to_name_its_steps_loses_no_counted_one(
    rec: Recorder, clock: Clock, ring: TestRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PUT_EVERY_NS", 50 * MS)
    train(rec, clock, Optimizer(), 1001, 1)
    for _ in range(3):
        clock.pass_ms(1)
        rec.named_step(1.0, 4.0, None, None)
    rec.done()
    records = ring.records()
    assert [r.step for r in records] == list(range(1004))
    assert all(r.named and r.loss == 1.0 for r in records[1001:])


def test_steps_that_the_script_names_are_counted_with_what_it_says(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    for step in range(500):
        clock.pass_ms(1)
        rec.named_step(2.0, 8.0, step, None)
    records = ring.records()
    assert any(r.counted for r in records)
    assert {(r.loss, r.samples, r.named, r.whole_us) for r in records[1:]} == {(2, 8, True, 1000)}


def test_a_second_optimizer_ends_no_counted_step(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    discriminator, generator = Optimizer(), Optimizer()
    for _ in range(300):
        optimize(rec, discriminator, clock, 1)
        optimize(rec, generator, clock, 1)
    rec.done()
    assert [r.step for r in ring.records()] == list(range(300))


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process may have.
    monkeypatch.setattr(parts, "_has_compiled", lambda: False)


class Hook:
    def __init__(self) -> None:
        self.inside = True

    def take(self) -> None:
        self.inside = False

    def put(self) -> None:
        self.inside = True


@pytest.mark.usefixtures("nothing_compiled")
def test_hooks_are_out_while_steps_are_counted(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    hook, sgd = Hook(), Optimizer()
    rec.switches.append(hook)
    while rec.counting == -1:
        assert hook.inside
        train(rec, clock, sgd, 1, 1)
    assert not hook.inside
    token = rec.enter(CHECKPOINT)
    assert hook.inside
    rec.leave(token)
    optimize(rec, sgd, clock, 1)
    states = set()
    for _ in range(100):
        states.add((hook.inside, rec.counting != -1))
        train(rec, clock, sgd, 1, 1)
    assert states == {(True, False), (False, True)}
    rec.done()
    assert ring.phase == "done"


@pytest.mark.usefixtures("nothing_compiled")
def test_hooks_that_are_needed_stay(rec: Recorder, clock: Clock) -> None:
    hook, sgd = Hook(), Optimizer()
    rec.switches.append(hook)
    rec.keeps_hooks = True
    for _ in range(100):
        train(rec, clock, sgd, 1, 1)
        assert hook.inside


@pytest.mark.usefixtures("nothing_compiled")
def test_the_stack_tells_the_phase_while_hooks_are_out(
    rec: Recorder, clock: Clock, ring: TestRing
) -> None:
    def loads() -> None:
        rec.show_phase()

    rec.codes[loads.__code__] = DATA
    rec.switches.append(Hook())
    rec._watched = True  # by this test alone
    sgd = Optimizer()
    while rec.counting == -1:
        train(rec, clock, sgd, 1, 1)
    loads()
    assert ring.phase == "data"
    rec.show_phase()
    assert ring.phase == "other"
    rec.leave(rec.enter(CHECKPOINT))
    loads()
    assert ring.phase == "other"  # told by the hooks again
    rec.done()
