"""Optimizer steps, by torch's own global hooks: they fire for optimizers built before, too."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from shanty.hooks.wrap import Function, is_compiling, never_compile
from shanty.recorder import OPTIMIZER, Recorder


def install(module: ModuleType, recorder: Recorder) -> None:
    # A compiled step() breaks its graph in torch's own wrapper anyway, so these may break it too.
    for hook in (Recorder.optimizer_begins, Recorder.optimizer_ends):
        setattr(hook, "_torchdynamo_disable", True)
    # Recorder methods never raise: an exception here would come out of the user's step().
    module.register_optimizer_step_post_hook(recorder.optimizer_ends)
    recorder.switches.append(Beginning(module, recorder))
    # All optimizers' step() is this one function, around their own.
    around = getattr(module.Optimizer, "profile_hook_step", None)
    if around is not None:
        recorder.codes[around(lambda: None).__code__] = OPTIMIZER


class Beginning:
    """The hook at the beginning of a step."""

    def __init__(self, module: ModuleType, recorder: Recorder) -> None:
        self._module, self._hook = module, recorder.optimizer_begins
        self._handle: Any = None
        self.put()

    def put(self) -> None:
        if self._handle is None:
            self._handle = self._module.register_optimizer_step_pre_hook(self._hook)

    def take(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def install_behind_dynamo(module: ModuleType, recorder: Recorder) -> None:
    """Until 2.5 or so, the first torch.compile takes the wrapper that runs the global hooks off
    torch's own optimizers. Ours then takes its place."""
    patcher: Any = getattr(module, "TorchPatcher", None)
    if patcher is None:
        return
    original = patcher.patch
    body = getattr(original, "__wrapped__", original)
    if "hooked" not in body.__code__.co_names:
        return

    @functools.wraps(original)
    def patch() -> None:
        original()
        for optimizer in vars(torch.optim).values():
            step: Any = getattr(optimizer, "step", None) if isinstance(optimizer, type) else None
            if getattr(step, "hooked", False):
                setattr(optimizer, "step", _counted(step, recorder))

    patcher.patch = staticmethod(functools.lru_cache(None)(patch))


def _counted(original: Function, recorder: Recorder) -> Function:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        recorder.optimizer_begins(self)
        result = original(self, *args, **kwargs)
        recorder.optimizer_ends(self)
        return result

    return never_compile(step)
