"""Turns hook calls into phases and step records.

Time is exclusive: entering a phase pauses the one before, so the parts of a step add up to it.
Only one thread is followed, the one that ends the steps; calls from others are ignored.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident
from math import isfinite
from time import monotonic_ns, time_ns

from shanty.ring import Ring, open_ring

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

BIT_NAMED = 128
FLAG_NAMED, FLAG_FIRST_ITEM = 1, 2

_NO_THREAD = -1
_IGNORED = -1
_NAN = float("nan")
_F32_MAX = 3.4e38
_U32_MAX = (1 << 32) - 1
_U64_MAX = (1 << 64) - 1
_ZERO = [0] * len(PHASE_NAMES)
_COMMAND_EXIT = 1


class Recorder:
    """Nothing here raises: a failure switches the recorder off for good and says so once."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.step = 0
        self.phase = START
        self.named = False
        self.bits = 0
        self._thread = get_ident()
        self._claimed = False
        self._since = monotonic_ns()
        self._begin = 0
        self._ns = list(_ZERO)
        self._loss_sum, self._losses = 0.0, 0
        self._samples, self._batches = 0.0, 0
        self._flags = 0
        self._pacer = 0
        self._others: set[int] = set()
        self._before_optimizer = OTHER
        self._held: tuple[int, list[int], float, float, int] | None = None
        self._steps_ended = 0
        self._lock = allocate_lock()
        self._written = self._read = self._last_write_ns = self._last_write_step = 0

    @property
    def on(self) -> bool:
        return self._thread != _NO_THREAD

    # Phases.

    def enter(self, phase: int) -> int:
        """Starts `phase` and returns the token that `leave` takes to go back."""
        if get_ident() != self._thread:
            return _IGNORED
        before = self.phase
        # What happens during an evaluation belongs to it.
        if before == EVAL:
            return _IGNORED
        try:
            self._switch(phase, monotonic_ns())
        except Exception as error:
            self.fail(error)
            return _IGNORED
        return before if before != START else OTHER

    def leave(self, token: int) -> None:
        if token == _IGNORED or get_ident() != self._thread:
            return
        try:
            self._switch(token, monotonic_ns())
        except Exception as error:
            self.fail(error)

    def _switch(self, phase: int, now: int) -> None:
        if not self._begin:
            self._begin = self._since = now
        self._ns[self.phase] += now - self._since
        self._since = now
        self.phase = phase
        if self._claimed or self.ring.owner() == 0:
            self.ring.put_phase(phase, now, self.step)

    # Data.

    def enter_data(self) -> int:
        if self._held is not None:
            self._release()
        # An optimizer step that raised left its phase behind.
        if self.phase == OPTIMIZER and get_ident() == self._thread:
            self.phase = OTHER
        return self.enter(DATA)

    def leave_data(self, token: int, first_item: bool) -> None:
        if token == _IGNORED:
            return
        waited_ns = self._ns[DATA]
        since = self._since
        self.leave(token)
        if first_item:
            spent = self._since - since
            self._ns[DATA] = waited_ns
            self._ns[OTHER] += spent
            self._flags |= FLAG_FIRST_ITEM

    def add_batch(self, samples: float) -> None:
        self._samples += samples
        self._batches += 1

    # Backward and optimizer.

    def add_loss(self, loss: float) -> None:
        self._loss_sum += loss
        self._losses += 1

    def optimizer_begins(self) -> None:
        if get_ident() != self._thread:
            # A script may train in a thread of its own; follow it as long as no step was seen.
            if self._steps_ended or not self.on:
                return
            self._thread = get_ident()
        if self._held is not None:
            self._release()
        before = self.enter(OPTIMIZER)
        if before != OPTIMIZER:
            self._before_optimizer = before

    def optimizer_ends(self, key: int) -> None:
        if get_ident() != self._thread:
            return
        self.leave(self._before_optimizer)
        try:
            if not self.named and self._sets_the_pace(key):
                self._end_step(self.step, self._mean_loss(), self._sample_count(), 0)
        except Exception as error:
            self.fail(error)

    def _sets_the_pace(self, key: int) -> bool:
        """One optimizer of several counts the steps: the first seen, until another one steps twice
        without it."""
        if key == self._pacer:
            if self._others:
                self._others.clear()
            return True
        if self._pacer and key not in self._others:
            self._others.add(key)
            return False
        self._pacer = key
        self._others.clear()
        return True

    # Steps.

    def named_step(
        self, loss: float | None, samples: float | None, step: int | None, total: int | None
    ) -> None:
        if get_ident() != self._thread:
            if self._steps_ended or not self.on:
                return
            self._thread = get_ident()
        try:
            if not self.named:
                self._begin_named(step)
            if total is not None:
                self.ring.set_total(total)
            now = monotonic_ns()
            self._switch(self.phase if self.phase != START else OTHER, now)
            self._end_step(
                self.step if step is None else min(max(step, 0), _U64_MAX - 1),
                self._mean_loss() if loss is None else loss,
                self._sample_count() if samples is None else samples,
                FLAG_NAMED,
            )
        except Exception as error:
            self.fail(error)

    def _begin_named(self, step: int | None) -> None:
        self.named = True
        self.set_bits(self.bits | BIT_NAMED)
        if step is not None:
            self.ring.set_first_step(step)
        # The optimizer's step just before this call is the same step: merge the two.
        if self._held is not None:
            self._begin, ns, loss, samples, flags = self._held
            self._held = None
            self.step = 0
            self._steps_ended = 0
            self._ns = [a + b for a, b in zip(self._ns, ns)]
            if loss == loss:
                self.add_loss(loss)
            if samples == samples:
                self.add_batch(samples)
            self._flags |= flags

    def _end_step(self, step: int, loss: float, samples: float, flags: int) -> None:
        if not self._claimed:
            self._claimed = self.ring.claim()
            if not self._claimed:
                self.turn_off()
                return
        end = self._since
        if self._steps_ended or flags & FLAG_NAMED:
            self._put(step, time_ns(), end - self._begin, self._ns, loss, samples, flags)
        else:
            # The first one waits: shanty.step may follow and name this very step.
            self._held = (self._begin, list(self._ns), loss, samples, self._flags)
        self._ns[:] = _ZERO
        self._begin = end
        self._flags = 0
        self._loss_sum, self._losses = 0.0, 0
        self._samples, self._batches = 0.0, 0
        self._steps_ended += 1
        self.step = step + 1
        self.ring.put_phase(self.phase, end, self.step)
        command = self.ring.command()
        if command:
            self._obey(command)

    def _release(self) -> None:
        """Writes the held first record, now that no name for it has come."""
        held, self._held = self._held, None
        if held is None or not self.on:
            return
        begin, ns, loss, samples, flags = held
        kept, self._flags = self._flags, flags
        ended_at_ns = time_ns() - (monotonic_ns() - self._begin)
        self._put(0, ended_at_ns, self._begin - begin, ns, loss, samples, 0)
        self._flags = kept

    def _put(
        self,
        step: int,
        ended_at_ns: int,
        whole_ns: int,
        ns: list[int],
        loss: float,
        samples: float,
        flags: int,
    ) -> None:
        if not isfinite(loss) or abs(loss) > _F32_MAX:
            loss = loss if loss != loss or abs(loss) == float("inf") else _NAN
        self.ring.put_record(
            step,
            ended_at_ns,
            (
                _us(whole_ns),
                _us(ns[DATA]),
                _us(ns[FORWARD]),
                _us(ns[BACKWARD]),
                _us(ns[OPTIMIZER]),
                _us(ns[CHECKPOINT]),
            ),
            loss,
            samples,
            _us(ns[COLLECTIVE]),
            self._flags | flags,
        )

    def _mean_loss(self) -> float:
        return self._loss_sum / self._losses if self._losses else _NAN

    def _sample_count(self) -> float:
        return self._samples if self._batches else _NAN

    def _obey(self, command: int) -> None:
        if command & 0xFF == _COMMAND_EXIT:
            self._release()
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit((command >> 8) & 0xFF)

    # Checkpoints, which background threads write too.

    def add_checkpoint(self, written: int, read: int) -> None:
        if not self.on or self.ring.owner() not in (0, os.getpid()):
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
        owner = self.ring.owner()
        if owner not in (0, os.getpid()):
            self.turn_off()
            return
        self._claimed = owner != 0
        self.ring.set_python_version(python_version)
        self.ring.put_phase(START, self._since, 0)

    def set_bits(self, bits: int) -> None:
        self.bits = bits
        if self.on and self.ring.owner() in (0, os.getpid()):
            self.ring.set_hooks(bits)

    def done(self) -> None:
        if not self.on or self.ring.owner() not in (0, os.getpid()):
            return
        try:
            self._release()
            self.ring.put_phase(DONE, monotonic_ns(), self.step)
        except Exception as error:
            self.fail(error)

    def turn_off(self) -> None:
        self._thread = _NO_THREAD

    def fail(self, error: BaseException, what: str = "step hooks") -> None:
        """Switches everything off: the script goes on as if there were no agent."""
        was_on = self.on
        self.turn_off()
        if was_on:
            self.complain(f"{what} are off", error)
            self.set_off_bits()

    def set_off_bits(self) -> None:
        try:
            if self.ring.owner() in (0, os.getpid()):
                self.ring.set_hooks(0)
        except Exception:
            pass

    def complain(self, what: str, error: BaseException) -> None:
        """One line on stderr, and the reason for the agent. Never raises."""
        try:
            text = f"{what}: {type(error).__name__}: {error}".replace("\n", " ")
            if self.ring.owner() in (0, os.getpid()):
                self.ring.set_reason(text)
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
        if ring is not None:
            _recorder = Recorder(ring)
            os.register_at_fork(after_in_child=_recorder.turn_off)
            _recorder.begin(sys.version.split()[0])
    return _recorder


def _us(ns: int) -> int:
    return min(ns // 1000, _U32_MAX)
