"""The calls of a training script: `import shanty; shanty.step(loss=loss.item(), samples=32)`."""

from __future__ import annotations

from shanty.recorder import OTHER, PHASE_NAMES, Recorder, get_recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PHASES = {name: number for number, name in enumerate(PHASE_NAMES) if 2 <= number <= 9}


def running() -> bool:
    """Whether an agent listens to this process."""
    recorder = get_recorder()
    return recorder is not None and recorder.on


def step(
    loss: Any = None,
    samples: float | None = None,
    step: int | None = None,
    total: int | None = None,
) -> None:
    """Ends a step. Call it once per loop iteration, after the optimizer's step.

    From the first call on, records come from these calls and no longer from the optimizer.
    `step` is the number of the step that ended (default: counted), `total` how many are expected,
    `samples` how many this rank handled. `loss` is a number or a one-element CPU tensor; a tensor
    on a device is not read, as that would wait for the device: pass `loss.item()` where your
    script takes it anyway.
    """
    recorder = get_recorder()
    if recorder is not None and recorder.on:
        recorder.named_step(_number(loss), _number(samples), _whole(step), _whole(total))


def total(steps: int) -> None:
    """Says how many steps are expected."""
    recorder = get_recorder()
    if recorder is not None and recorder.on:
        recorder.set_total(_whole(steps))


class phase:
    """`with shanty.phase("eval"):` names what the block does: data, forward, backward, optimizer,
    collective, checkpoint, eval or other. Inside `eval` everything counts as evaluation; a name
    that is none of these counts as other."""

    def __init__(self, name: str) -> None:
        self._phase = _PHASES.get(name, OTHER)
        self._recorder: Recorder | None = None
        self._token = 0

    def __enter__(self) -> phase:
        self._recorder = get_recorder()
        if self._recorder is not None:
            self._token = self._recorder.enter(self._phase)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None:
            self._recorder.leave(self._token)


def _number(value: Any) -> float | None:
    """A float, or None for what has no cheap value. Telling the agent must never raise."""
    if value is None:
        return None
    try:
        device = getattr(value, "device", None)
        if getattr(device, "type", "cpu") != "cpu" or hasattr(value, "full_tensor"):
            return None
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:
        return None


def _whole(value: Any) -> int | None:
    number = value if isinstance(value, int) else _number(value)
    try:
        return None if number is None else int(number)
    except (OverflowError, ValueError):
        return None
