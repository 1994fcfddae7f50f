"""Reads the loss where that costs nothing: a one-element tensor of the CPU. A tensor on a device
is never read, since that would wait for the device."""

from __future__ import annotations

import functools
import weakref
from _thread import get_ident
from types import ModuleType
from typing import Any

from torch import Tensor

from shanty.hooks.wrap import is_compiling, never_compile, replace
from shanty.recorder import Recorder


class LossReader:
    """One for the process, as the scaler's hook tells it what backward's hook will meet."""

    def __init__(self) -> None:
        # A weak reference: a strong one would keep the whole graph of a step alive.
        self._scaled: weakref.ref[Any] | None = None
        self._before_scaling: float | None = None

    def remember_scaling(self, before: Any, after: Any, recorder: Recorder) -> None:
        """GradScaler multiplied the loss: `after` is what backward will be given."""
        if recorder.counting == get_ident():
            return
        try:
            self._before_scaling = _value(before)
            if self._before_scaling is not None:
                self._scaled = weakref.ref(after)
        except Exception as error:
            recorder.fail(error)

    def read(self, tensors: Any, recorder: Recorder) -> None:
        """Takes the loss that a backward started from, when it is one."""
        try:
            if self._scaled is not None:
                is_scaled = self._scaled() is tensors
                self._scaled = None
                if is_scaled:
                    if self._before_scaling is not None:
                        recorder.add_loss(self._before_scaling)
                    return
            # No subclass: a DTensor's item() would be a collective.
            if type(tensors) is Tensor and tensors.is_cpu and tensors.numel() == 1:
                loss = tensors.item()
                if type(loss) is float:
                    recorder.add_loss(loss)
        except Exception as error:
            recorder.fail(error)


def _value(tensor: Any) -> float | None:
    if type(tensor) is not Tensor or not tensor.is_cpu or tensor.numel() != 1:
        return None
    value = tensor.item()
    return value if type(value) is float else None


reader = LossReader()


def install_grad_scaler(module: ModuleType, recorder: Recorder) -> None:
    scaler = module.GradScaler
    original = scaler.scale

    @functools.wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        if not is_compiling():
            reader.remember_scaling(outputs, scaled, recorder)
        return scaled

    replace(scaler, "scale", never_compile(scale), 0, recorder)


never_compile(LossReader, _value)
