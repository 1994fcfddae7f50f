"""How good a checkpoint's model is, and which ones stay for that."""

from __future__ import annotations

import math
import re
from typing import Any

from shanty.checkpoint.errors import CheckpointError, whole_number

MAX_METRICS = 16
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,48}")


class BestRule:
    """`keep` checkpoints with the lowest ("min") or highest ("max") value of `metric` stay."""

    def __init__(self, keep: int, metric: str, mode: str) -> None:
        keep = whole_number("keep_best", keep, 0)
        if mode not in ("min", "max"):
            raise CheckpointError(f'mode="{mode}": give "min" or "max"')
        _check_name(metric)
        self._fields = {"metric": metric, "mode": mode, "count": keep} if keep else None

    def score(self, metrics: dict[str, Any] | None) -> dict[str, Any]:
        """What a checkpoint with these metrics says in its `global`. Values without a finite number
        say nothing."""
        if len(metrics or {}) > MAX_METRICS:
            raise CheckpointError(f"{len(metrics or {})} metrics: give at most {MAX_METRICS}")
        values = {}
        for name, value in (metrics or {}).items():
            _check_name(name)
            try:
                values[name] = float(value)
            except (TypeError, ValueError, RuntimeError):
                raise CheckpointError(f"the metric {name} is {value!r}: give a number") from None
        values = {name: value for name, value in values.items() if math.isfinite(value)}
        fields: dict[str, Any] = {"metrics": values} if values else {}
        return {**fields, "keep_best": self._fields} if self._fields else fields


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CheckpointError(
            f'the metric "{name}" needs a name of at most 48 letters, digits and _ . / -'
        )
