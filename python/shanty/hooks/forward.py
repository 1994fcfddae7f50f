"""Forward of a model's outermost wrapper, told apart by whether it trains or evaluates. The
all-reduce of DDP is part of backward."""

from __future__ import annotations

import functools
from _thread import get_ident
from types import ModuleType
from typing import Any

from shanty.hooks.wrap import Function, is_compiling, is_grad_enabled, never_compile, replace
from shanty.recorder import EVAL, FORWARD, OTHER, Recorder
from shanty.ring import PHASE


def install_ddp(module: ModuleType, recorder: Recorder) -> None:
    ddp = module.DistributedDataParallel
    replace(ddp, "forward", _timed(ddp.forward, recorder), FORWARD, recorder)


def install_fsdp(module: ModuleType, recorder: Recorder) -> None:
    fsdp = module.FullyShardedDataParallel
    replace(fsdp, "forward", _timed(fsdp.forward, recorder), FORWARD, recorder)


def install_compiled(module: ModuleType, recorder: Recorder) -> None:
    """Modules from torch.compile: a DDP inside is traced, so its own hook sees nothing."""
    compiled = module.OptimizedModule
    compiled.__call__ = _timed(compiled.__call__, recorder)


def _timed(original: Function, recorder: Recorder) -> Function:
    enter, leave, words = recorder.enter, recorder.leave, recorder.words

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        if recorder.counting == get_ident():
            words[PHASE] = FORWARD if is_grad_enabled() else EVAL
            try:
                return original(self, *args, **kwargs)
            finally:
                words[PHASE] = OTHER
        token = enter(FORWARD if self.training and is_grad_enabled() else EVAL)
        try:
            return original(self, *args, **kwargs)
        finally:
            leave(token)

    return never_compile(forward)
