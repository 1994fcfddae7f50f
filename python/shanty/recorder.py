"""Turns hook calls into phases and step records.

Time is exclusive: entering a phase pauses the one before, so the parts of a step add up to it.
Only one thread is followed, the one that ends the steps; calls from others are ignored.

Timing costs some microseconds a phase. Where steps are short, most of them are only counted: their
time as a whole, and the phase that runs, but neither parts, loss nor samples. See `_choose_next`.
Of the hooks only that of the optimizer's end is in place meanwhile; the phase is told by the stack.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import RLock, allocate_lock, get_ident, start_new_thread
from _weakref import ref
from math import copysign, inf, nan
from time import monotonic_ns, time_ns

from shanty.ring import COMMAND, PHASE, PHASE_SHIFT, PID, STEP, Ring, open_ring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Callable, Protocol, Sequence

    class Switch(Protocol):
        """A hook that can be taken out and put back; each does nothing when it is done already."""

        def take(self) -> None: ...
        def put(self) -> None: ...


UNKNOWN, START, DATA, FORWARD, BACKWARD, OPTIMIZER = 0, 1, 2, 3, 4, 5
COLLECTIVE, CHECKPOINT, EVAL, OTHER, DONE = 6, 7, 8, 9, 10
PHASE_NAMES = (
    "unknown",
    "start",
    "data",
    "forward",
    "backward",
    "optimizer",
    "collective",
    "checkpoint",
    "eval",
    "other",
    "done",
)

BIT_COLLECTIVES, BIT_NAMED = 64, 128
FLAG_NAMED, FLAG_FIRST_ITEM, FLAG_COUNTED = 1, 2, 4

_LEFT_BY_ERRORS = (OPTIMIZER, FORWARD)
_NO_THREAD = -1
_IGNORED = -1
_F32_MAX = 3.4e38
_NS_MAX = ((1 << 32) - 1) * 1000
_U64_MAX = (1 << 64) - 1
_PHASES = len(PHASE_NAMES)
# Records of shorter steps are written together: one at a time each would pay for a cold cache.
_PUT_EVERY_NS = 50_000_000
_COMMAND_EXIT = 1
# The first steps are all timed, and longer ones; later one of 2^n, so that one comes about as often
# as this. Each costs more than its own hooks: what was put into torch makes the interpreter learn
# its classes anew, for some hundred calls.
_ALL_TIMED_STEPS = 64
_SHORT_NS = 25_000_000
_TIMED_EVERY_NS = 200_000_000
_OVERDUE_NS = 2 * _TIMED_EVERY_NS
_COUNTED_MAX = (1 << 10) - 1
# As often as the agent tells of it.
_WATCH_EVERY_S = 0.5
_MAX_FRAMES = 200
_NO_PARTS = (0,) * _PHASES


class Recorder:
    """Nothing here raises: a failure switches the recorder off for good and says so once."""

    # What runs in every step lies between operations that leave no cache warm: the fewer functions
    # and attributes it touches the better, so some lines are repeated.
    __slots__ = (
        "__weakref__",
        "_absolute",
        "_batches",
        "_before_optimizer",
        "_begin",
        "_claimed",
        "_ends",
        "_flags",
        "_held",
        "_last_write_ns",
        "_last_write_step",
        "_lock",
        "_loss_sum",
        "_losses",
        "_ns",
        "_others",
        "_others_of",
        "_next_look",
        "_next_put",
        "_out",
        "_pacer",
        "_pending",
        "_read",
        "_samples",
        "_since",
        "_steps_ended",
        "_thread",
        "_timed_mask",
        "_timed_ns",
        "_timed_steps",
        "_watched",
        "_written",
        "bits",
        "codes",
        "counting",
        "keeps_hooks",
        "named",
        "phase",
        "ring",
        "step",
        "switches",
        "words",
    )

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.words = ring.words
        self.step = 0
        self.phase = START
        self.named = False
        self.bits = 0
        self._thread = get_ident()
        self._claimed = False
        self._since = monotonic_ns()
        self._begin = self._since
        self._ns = [0] * _PHASES
        self._loss_sum, self._losses = 0.0, 0
        self._samples, self._batches = 0.0, 0
        self._flags = 0
        # FLAG_NAMED once `step` counts from the job's beginning and not from this process's.
        self._absolute = 0
        self._pacer: Callable[[], Any] = _nothing
        # Optimizers that stepped since the step of that number ended.
        self._others: set[int] = set()
        self._others_of = 0
        self._before_optimizer = OTHER
        # The thread that steps while the step is only counted, else no thread.
        self.counting = _NO_THREAD
        # Hooks that can be taken out while steps are counted, whether they are, and the phases of
        # the functions behind them.
        self.switches: list[Switch] = []
        self._out = self._watched = False
        self.keeps_hooks = False
        self.codes: dict[CodeType, int] = {}
        # When counted steps ended of which no record was made yet.
        self._ends: list[int] = []
        self._next_look = 0
        # Steps whose number has none of these bits are timed; the last that was, and its end.
        self._timed_mask = self._timed_steps = self._timed_ns = 0
        self._held: tuple[int, int, list[int], float, float, int] | None = None
        self._pending: list[tuple[int, int, int, Sequence[int], float, float, int]] = []
        self._next_put = 0
        self._steps_ended = 0
        # A signal handler may save while a save is counted.
        self._lock = RLock()
        self._written = self._read = self._last_write_ns = self._last_write_step = 0

    @property
    def on(self) -> bool:
        return self._thread != _NO_THREAD

    # Phases.

    def enter(self, phase: int) -> int:
        """Starts `phase` and returns the token that `leave` takes to go back."""
        if get_ident() != self._thread:
            return _IGNORED
        if self.counting != _NO_THREAD:
            self._time_the_rest()
            if self._thread == _NO_THREAD:
                return _IGNORED
        before = self.phase
        # An evaluation loads data, and a data set may call torch.load: that time is theirs.
        if before == EVAL or before == DATA:
            return _IGNORED
        try:
            now = monotonic_ns()
            self._ns[before] += now - self._since
            self._since = now
            self.phase = phase
            if self._claimed or not self.words[PID]:
                self.words[PHASE] = now << PHASE_SHIFT | phase
        except Exception as error:
            self.fail(error)
            return _IGNORED
        return before if before != START else OTHER

    def leave(self, token: int) -> None:
        if token == _IGNORED or self._thread == _NO_THREAD:
            return
        try:
            now = monotonic_ns()
            self._ns[self.phase] += now - self._since
            self._since = now
            self.phase = token
            if self._claimed or not self.words[PID]:
                self.words[PHASE] = now << PHASE_SHIFT | token
        except Exception as error:
            self.fail(error)

    # Data.

    def enter_data(self) -> int:
        if self._held is not None:
            self._release()
        # A step or forward that raised may have left its phase behind.
        if self.phase in _LEFT_BY_ERRORS and get_ident() == self._thread:
            self.phase = OTHER
        return self.enter(DATA)

    def leave_first_data(self, token: int) -> None:
        """As leave, for time that is no stall of the data."""
        if token == _IGNORED:
            return
        waited_ns = self._ns[DATA]
        since = self._since
        self.leave(token)
        self._ns[DATA] = waited_ns
        self._ns[OTHER] += self._since - since
        self._flags |= FLAG_FIRST_ITEM

    def add_samples(self, samples: int) -> None:
        self._samples += samples
        self._batches += 1

    # Backward and optimizer.

    def add_loss(self, loss: float) -> None:
        self._loss_sum += loss
        self._losses += 1

    # Torch's own step hooks: the two arguments that they are given besides are not needed.

    def optimizer_begins(self, optimizer: Any, _args: Any = None, _kwargs: Any = None) -> None:
        if self.counting != _NO_THREAD:
            self.words[PHASE] = OPTIMIZER
            return
        if get_ident() != self._thread and not self._adopt_thread():
            return
        if self._held is not None and optimizer is self._pacer():
            self._release()
        before = self.phase
        # Inside an evaluation or a data set its time is theirs; inside another optimizer, its.
        if before == OPTIMIZER:
            return
        if before == EVAL or before == DATA:
            self._before_optimizer = _IGNORED
            return
        self._before_optimizer = before if before != START else OTHER
        try:
            now = monotonic_ns()
            self._ns[before] += now - self._since
            self._since = now
            self.phase = OPTIMIZER
            if self._claimed or not self.words[PID]:
                self.words[PHASE] = now << PHASE_SHIFT | OPTIMIZER
        except Exception as error:
            self.fail(error)

    def optimizer_ends(self, optimizer: Any, _args: Any = None, _kwargs: Any = None) -> None:
        if self.counting != _NO_THREAD and self._pacer() is optimizer and not self.named:
            end = monotonic_ns()
            self._ends.append(end)
            words = self.words
            self.step = words[STEP] = step = self.step + 1
            words[PHASE] = OTHER
            if not step & self._timed_mask or end > self._next_look:
                self._look(end)
            return
        if get_ident() != self._thread:
            return
        if self.counting != _NO_THREAD:
            if self.named or not self._takes_over(optimizer):
                self.words[PHASE] = OTHER
                return
            self._time_the_rest()
        before = self._before_optimizer
        try:
            now = monotonic_ns()
            self._ns[self.phase] += now - self._since
            self._since = now
            if before != _IGNORED:
                self.phase = before
            if not self.named and (self._pacer() is optimizer or self._takes_over(optimizer)):
                self._end_step(self.step, None, None, 0)
            elif self._claimed or not self.words[PID]:
                self.words[PHASE] = now << PHASE_SHIFT | self.phase
        except Exception as error:
            self.fail(error)

    def _takes_over(self, optimizer: Any) -> bool:
        """One optimizer of several counts the steps: the first seen, until it is gone or another
        one steps twice without it."""
        if self._others_of != self.step:
            self._others.clear()
            self._others_of = self.step
        if self._pacer() is not None and id(optimizer) not in self._others:
            self._others.add(id(optimizer))
            return False
        self._pacer = ref(optimizer)
        self._others.clear()
        return True

    def _adopt_thread(self) -> bool:
        """A script may train in a thread of its own: follow it as long as no step was seen."""
        if self._steps_ended or not self.on:
            return False
        self._thread = get_ident()
        return True

    # Steps.

    def named_step(
        self, loss: float | None, samples: float | None, step: int | None, total: int | None
    ) -> None:
        if get_ident() != self._thread and not self._adopt_thread():
            return
        try:
            if self._ends:
                self._take_counted()
            if not self.named:
                self._begin_named(step)
            self.set_total(total)
            now = monotonic_ns()
            self._ns[self.phase] += now - self._since
            self._since = now
            if self.phase == START:
                self.phase = OTHER
            number = self.step if step is None else min(max(step, 0), _U64_MAX - 1)
            self._end_step(number, loss, samples, FLAG_NAMED)
        except Exception as error:
            self.fail(error)

    def resumed_at(self, step: int) -> None:
        """`step` steps of the job were done before this process's first one."""
        try:
            if self.on and not self.named and self.ring.is_free_or_mine():
                self._absolute = FLAG_NAMED
                self.step = min(max(step, 0), _U64_MAX - 1)
                self.ring.set_first_step(self.step)
        except Exception as error:
            self.fail(error)

    def set_total(self, steps: int | None) -> None:
        try:
            if steps is not None and self.on and self.ring.is_free_or_mine():
                self.ring.set_total(steps)
        except Exception as error:
            self.fail(error)

    def _begin_named(self, step: int | None) -> None:
        self.named = True
        self.set_bits(self.bits | BIT_NAMED)
        if step is not None:
            self.ring.set_first_step(step)
        # The optimizer's step just before this call is the same step: merge the two.
        if self._held is not None:
            _, self._begin, ns, loss, samples, flags = self._held
            self._held = None
            self.step = 0
            self._steps_ended = 0
            self._ns = [a + b for a, b in zip(self._ns, ns)]
            if loss == loss:
                self.add_loss(loss)
            if samples == samples:
                self._samples += samples
                self._batches += 1
            self._flags |= flags

    def _end_step(self, step: int, loss: float | None, samples: float | None, flags: int) -> None:
        words = self.words
        if not self._claimed:
            self._claimed = self.ring.claim()
            if not self._claimed:
                self.turn_off()
                return
        if self._held is not None:
            self._release()
        end = self._since
        # What was seen of a step that was not timed from its beginning may be a part only.
        whole = not self._flags & FLAG_COUNTED
        if loss is None:
            loss = self._loss_sum / self._losses if self._losses and whole else nan
        if samples is None:
            samples = self._samples if self._batches and whole else nan
        ns = self._ns
        if not self._steps_ended and not flags:
            # The first one waits: shanty.step may follow and name this very step.
            self._held = (step, self._begin, ns, loss, samples, self._flags)
        else:
            flags |= self._flags | self._absolute
            if self.counting != _NO_THREAD:
                flags |= FLAG_COUNTED
            self._pending.append((step, end, end - self._begin, ns, loss, samples, flags))
            if end > self._next_put:
                self.flush()
        self._ns = [0] * _PHASES
        self._begin = end
        self._flags = 0
        self._loss_sum = self._samples = 0.0
        self._losses = self._batches = 0
        self._steps_ended += 1
        self.step = words[STEP] = step + 1
        words[PHASE] = end << PHASE_SHIFT | self.phase
        if self._steps_ended > _ALL_TIMED_STEPS:
            self._choose_next(end)
        if words[COMMAND]:
            self._obey(words[COMMAND])

    def _take_counted(self) -> None:
        """Makes records of the steps that were counted since it was called last."""
        flags = self._absolute | FLAG_COUNTED
        step = self.step - len(self._ends)
        for end in self._ends:
            self._pending.append((step, end, end - self._begin, _NO_PARTS, nan, nan, flags))
            self._begin = end
            step += 1
        self._steps_ended += len(self._ends)
        self._ends.clear()

    def _look(self, end: int) -> None:
        """After some counted steps, the last of which ended at `end`."""
        try:
            self._take_counted()
            self._since = end
            self._next_look = end + _PUT_EVERY_NS
            if end > self._next_put:
                self.flush()
            self._choose_next(end)
            if self.words[COMMAND]:
                self._obey(self.words[COMMAND])
        except Exception as error:
            self.fail(error)

    def _choose_next(self, end: int) -> None:
        """Whether the step that begins now is timed. Steps are picked by their number, so that two
        runs of one script pick the same."""
        if self.counting != _NO_THREAD:
            if self.step & self._timed_mask and end - self._timed_ns <= _OVERDUE_NS:
                return
            self.counting = _NO_THREAD
            self._put_hooks()
            self.phase = OTHER
            self._flags = self._batches = self._losses = 0
            self._samples = self._loss_sum = 0.0
            return
        steps = self._steps_ended - self._timed_steps
        step_ns = (end - self._timed_ns) // steps if steps else 0
        every_ns = step_ns * (self._timed_mask + 1)
        self._timed_steps, self._timed_ns = self._steps_ended, end
        if step_ns > _SHORT_NS:
            self._timed_mask = 0
        elif every_ns > _TIMED_EVERY_NS:
            self._timed_mask >>= 1
        elif 2 * every_ns <= _TIMED_EVERY_NS and self._timed_mask < _COUNTED_MAX:
            self._timed_mask = 2 * self._timed_mask + 1
        if self.step & self._timed_mask and not self.bits & BIT_COLLECTIVES:
            self.counting = self._thread
            self._next_look = end + _PUT_EVERY_NS
            self._take_hooks()

    def _take_hooks(self) -> None:
        """Dynamo looks at what the hooks replace: compiled code would be compiled anew."""
        if not self.switches or self.keeps_hooks or _has_compiled():
            return
        for switch in self.switches:
            switch.take()
        self._out = True
        if not self._watched:
            self._watched = True
            start_new_thread(_watch, (self,))

    def _put_hooks(self) -> None:
        if self._out:
            self._out = False
            for switch in self.switches:
                switch.put()

    def show_phase(self) -> None:
        """For another thread, while hooks are out: tells the phase by this one's stack."""
        thread = self.counting
        if thread == _NO_THREAD or not self._out:
            return
        frame = sys._current_frames().get(thread)
        phase = OTHER
        for _ in range(_MAX_FRAMES):
            if frame is None:
                break
            if frame.f_code in self.codes:
                phase = self.codes[frame.f_code]
                break
            frame = frame.f_back
        if self._out:
            self.words[PHASE] = phase

    def _time_the_rest(self) -> None:
        """Of a step that was only to be counted, as something in it must be timed."""
        try:
            self._take_counted()
            self.counting = _NO_THREAD
            self._put_hooks()
            self.phase = OTHER
            self._since = self._begin
            self._flags |= FLAG_COUNTED
        except Exception as error:
            self.fail(error)

    def _release(self) -> None:
        """Writes the held first record, now that no name for it has come."""
        held, self._held = self._held, None
        if held is None or not self.on:
            return
        step, begin, ns, loss, samples, flags = held
        flags |= self._absolute
        self._pending.append((step, self._begin, self._begin - begin, ns, loss, samples, flags))
        self.flush()

    def flush(self) -> None:
        """Writes the records that wait for it."""
        try:
            if self._ends:
                self._take_counted()
            now = monotonic_ns()
            self._next_put = now + _PUT_EVERY_NS
            to_unix_ns = time_ns() - now
            for step, end, whole_ns, ns, loss, samples, flags in self._pending:
                self._put(step, end + to_unix_ns, whole_ns, ns, loss, samples, flags)
        except Exception as error:
            self.fail(error)
        self._pending.clear()

    def _put(
        self,
        step: int,
        ended_at_ns: int,
        whole_ns: int,
        ns: Sequence[int],
        loss: float,
        samples: float,
        flags: int,
    ) -> None:
        # The first step begins with the first thing seen, not with the process.
        whole_ns -= ns[START]
        if whole_ns > _NS_MAX:
            whole_ns, ns = _NS_MAX, [min(part, _NS_MAX) for part in ns]
        self.ring.put_record(
            step,
            ended_at_ns,
            whole_ns // 1000,
            ns[DATA] // 1000,
            ns[FORWARD] // 1000,
            ns[BACKWARD] // 1000,
            ns[OPTIMIZER] // 1000,
            ns[CHECKPOINT] // 1000,
            loss if abs(loss) < _F32_MAX else _f32(loss),
            samples if abs(samples) < _F32_MAX else _f32(samples),
            ns[COLLECTIVE] // 1000,
            flags,
        )

    def _obey(self, command: int) -> None:
        if command & 0xFF == _COMMAND_EXIT:
            self._release()
            self.flush()
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit((command >> 8) & 0xFF)

    # Checkpoints, which background threads write too.

    def is_inside_data_or_checkpoint(self) -> bool:
        return self.phase in (DATA, CHECKPOINT) and get_ident() == self._thread

    def add_checkpoint(self, written: int, read: int) -> None:
        if not self.on or not self.ring.is_free_or_mine():
            return
        with self._lock:
            self._written += written
            self._read += read
            if written:
                self._last_write_ns, self._last_write_step = time_ns(), self.step
            self.ring.put_checkpoint(
                self._written, self._last_write_ns, self._last_write_step, self._read
            )

    # Life.

    def begin(self, python_version: str) -> None:
        """Says that this process is alive and hooked, unless another owns the ring."""
        if not self.ring.is_free_or_mine():
            self.turn_off()
            return
        self._claimed = self.ring.owner() != 0
        self.ring.set_python_version(python_version)
        self.ring.put_phase(START, self._since, 0)

    def set_bits(self, bits: int) -> None:
        self.bits = bits
        if self.on and self.ring.is_free_or_mine():
            self.ring.set_hooks(bits)

    def done(self) -> None:
        if not self.on or not self.ring.is_free_or_mine():
            return
        try:
            self._release()
            self.flush()
            self.turn_off()
            self.ring.put_phase(DONE, monotonic_ns(), self.step)
        except Exception as error:
            self.fail(error)

    def turn_off(self) -> None:
        self._thread = self.counting = _NO_THREAD

    def fail(self, error: BaseException, what: str = "step hooks") -> None:
        """Switches everything off: the script goes on as if there were no agent."""
        was_on = self.on
        self.turn_off()
        if was_on:
            self.complain(f"{what} are off", error)

    def complain(self, what: str, error: BaseException) -> None:
        """One line on stderr, and the reason for the agent. Never raises."""
        try:
            text = f"{what}: {type(error).__name__}: {error}".replace("\n", " ")
            if self.ring.is_free_or_mine():
                self.ring.set_reason(text)
                self.ring.set_hooks(self.bits if self.on else 0)
            sys.stderr.write(f"shanty: {text}\n")
            sys.stderr.flush()
        except Exception:
            pass


_recorder: Recorder | None = None
_opened = False


def get_recorder() -> Recorder | None:
    """The recorder of this process, opened at the first call; None without an agent."""
    global _recorder, _opened
    if not _opened:
        _opened = True
        ring = open_ring()
        if ring is not None and _is_main_interpreter():
            _recorder = Recorder(ring)
            os.register_at_fork(after_in_child=_recorder.turn_off)
            atexit.register(_recorder.done)
            _recorder.begin(sys.version.split()[0])
    return _recorder


def _is_main_interpreter() -> bool:
    """The others of a process have its ring and its pid, but train nothing."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = __import__(name)
        return bool(interpreters.get_current() == interpreters.get_main())
    except Exception:
        return True  # a Python that has no others


def _watch(recorder: Recorder) -> None:
    nap = allocate_lock()
    nap.acquire()
    try:
        while recorder.on:
            recorder.show_phase()
            nap.acquire(True, _WATCH_EVERY_S)
    except Exception as error:
        recorder.fail(error)


def _has_compiled() -> bool:
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    return dynamo is not None and getattr(dynamo, "FRAME_COUNTER", 1) > 0


def _nothing() -> None:
    return None


def _f32(value: float) -> float:
    """What struct refuses, as it does not fit a float32, is infinite; NaN stays."""
    return copysign(inf, value) if abs(value) >= _F32_MAX else value
