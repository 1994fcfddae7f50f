"""Backward, with the wait for DDP's all-reduce at its end, and the loss it started from."""

from __future__ import annotations

import functools
from _thread import get_ident
from types import ModuleType
from typing import Any

from shanty.hooks.loss import reader
from shanty.hooks.wrap import is_compiling, never_compile, replace
from shanty.recorder import BACKWARD, OTHER, Recorder
from shanty.ring import PHASE


def install(module: ModuleType, recorder: Recorder) -> None:
    # Tensor.backward looks the function up through this module, so one wrap sees both.
    original = getattr(module, "backward")
    words = recorder.words

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if recorder.counting == get_ident():
            words[PHASE] = BACKWARD
            try:
                return original(*args, **kwargs)
            finally:
                words[PHASE] = OTHER
        if is_compiling():
            return original(*args, **kwargs)
        nested = recorder.phase == BACKWARD
        token = recorder.enter(BACKWARD)
        try:
            return original(*args, **kwargs)
        finally:
            recorder.leave(token)
            # Activation checkpointing runs a backward inside the backward: not a loss.
            if token >= 0 and not nested:
                reader.read(args[0] if args else kwargs.get("tensors"), recorder)

    replace(module, "backward", never_compile(backward), BACKWARD, recorder)
