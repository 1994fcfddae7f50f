"""When maybe_save saves."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from shanty.checkpoint.errors import CheckpointError

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
        self.steps = every if isinstance(every, int) else 0
        self.auto = every == "auto"
        self.failures = Failures(mtbf_s)
        self.seconds = 0.0
        if isinstance(every, int):
            if every < 1:
                raise CheckpointError(f"every={every}: give 1 or more steps")
        else:
            self.seconds = FIRST_S if self.auto else parse_duration(every)

    @property
    def timed(self) -> bool:
        return self.steps == 0

    def due(self, step: int, passed_s: float) -> bool:
        """`passed_s` since the last save, or the start."""
        if self.steps:
            return step > 0 and step % self.steps == 0
        return passed_s >= self.seconds

    def learn(self, cost_s: float, durable_s: float) -> None:
        """Young's interval, sqrt(2 * cost of a save * mean time between failures); never shorter
        than a save takes to become durable."""
        if self.auto:
            best_s = max(math.sqrt(2 * cost_s * self.failures.mean_s()), durable_s, SHORTEST_S)
            self.seconds = min(best_s, LONGEST_S)


def parse_duration(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h)\s*", text)
    if found is None:
        raise CheckpointError(f'every="{text}": give steps, a time such as "10min", or "auto"')
    return float(found.group(1)) * _UNITS[found.group(2)]
