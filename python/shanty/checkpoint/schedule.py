"""When maybe_save saves."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from shanty.checkpoint.errors import CheckpointError, whole_number

# Of "auto", until saves have been measured.
FIRST_S = 60.0
SHORTEST_S, LONGEST_S = 15.0, 3600.0
MTBF_S = 3 * 3600.0

_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


class Failures:
    """The mean time between failures, as measured. `expected_s`, one failure in that time, counts
    as long as little was seen: (expected_s + time trained) / (1 + failures)."""

    def __init__(self, expected_s: float) -> None:
        self._expected_s = expected_s
        self._count, self._trained_s = 0, 0.0  # before this process
        self._began = time.monotonic()

    def mean_s(self) -> float:
        trained_s = self._trained_s + time.monotonic() - self._began
        return (self._expected_s + trained_s) / (1 + self._count)

    def saved(self, generation: int) -> dict[str, Any]:
        """For the next process; `generation`: how often the launcher has restarted the job."""
        trained_s = self._trained_s + time.monotonic() - self._began
        return {"failures": self._count, "trained_s": trained_s, "generation": generation}

    def loaded(self, saved: dict[str, Any], generation: int) -> None:
        """A later generation of the launcher was made by failures; a job that begins anew by none."""
        before = saved.get("generation", 0)
        since = generation - before if generation >= before else generation
        self._count = saved.get("failures", 0) + since
        self._trained_s = saved.get("trained_s", 0.0)


class Schedule:
    """`every`: a number of steps, a time such as "90s", "10min" or "1h", or "auto"."""

    def __init__(self, every: int | str, mtbf_s: float = MTBF_S) -> None:
        if not mtbf_s > 0:
            raise CheckpointError(f"mtbf_s={mtbf_s}: give more than 0 seconds")
        self.steps, self.seconds = 0, 0.0
        self.auto = every == "auto"
        self.failures = Failures(mtbf_s)
        self._step: int | None = None  # when it was last asked
        if not isinstance(every, str):
            self.steps = whole_number("every", every, 1)
        else:
            self.seconds = FIRST_S if self.auto else parse_duration(every)

    @property
    def timed(self) -> bool:
        return self.steps == 0

    def due(self, step: int, passed_s: float) -> bool:
        """To be asked once per call of maybe_save; `passed_s` since the last save, or the start. By
        steps: at the first call that has reached or passed a multiple of `every`, and once, where
        calls are less or more than one for each step."""
        if not self.steps:
            return passed_s >= self.seconds
        before, self._step = self._step, step
        if before is None:
            return step > 0 and step % self.steps == 0
        return step // self.steps > before // self.steps

    def loaded_at(self, step: int) -> None:
        self._step = step

    def learn(self, cost_s: float, durable_s: float) -> None:
        """Young's interval, sqrt(2 * cost of a save * mean time between failures); never shorter
        than a save takes to become durable."""
        if self.auto:
            best_s = max(math.sqrt(2 * cost_s * self.failures.mean_s()), durable_s, SHORTEST_S)
            self.seconds = min(best_s, LONGEST_S)


class Milestones:
    """`every` so many steps one save is kept for good; 0: none."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._step = 0

    def passed(self, step: int) -> bool:
        """To be asked once per save: whether it is the first that has reached a multiple."""
        before, self._step = self._step, step
        return self._every > 0 and step // self._every > before // self._every

    def loaded_at(self, step: int) -> None:
        self._step = step


def parse_duration(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h)\s*", text)
    if found is None:
        raise CheckpointError(f'every="{text}": give steps, a time such as "10min", or "auto"')
    return float(found.group(1)) * _UNITS[found.group(2)]
