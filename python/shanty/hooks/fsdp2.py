"""FSDP2 (`fully_shard`): the root's own hooks mark the ends of its forward. Private names, so a
torch that has moved them simply runs without this hook."""

from __future__ import annotations

import functools
from _thread import get_ident
from types import ModuleType
from typing import Any

from shanty.hooks.wrap import is_compiling, is_grad_enabled
from shanty.recorder import FORWARD, OTHER, Recorder
from shanty.ring import PHASE


def install(module: ModuleType, recorder: Recorder) -> None:
    state = module.FSDPState
    pre, post = state._pre_forward, state._post_forward
    tokens: dict[int, int] = {}

    def root(self: Any) -> Any:
        return getattr(getattr(self, "_state_ctx", None), "iter_forward_root", self)

    @functools.wraps(pre)
    def _pre_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling() and root(self) is None and is_grad_enabled():
            # The wait for the parameters' all-gather is inside. No function's stack would show it.
            recorder.keeps_hooks = True
            if recorder.counting == get_ident():
                recorder.words[PHASE] = FORWARD
            else:
                tokens[id(self)] = recorder.enter(FORWARD)
        return pre(self, *args, **kwargs)

    @functools.wraps(post)
    def _post_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or root(self) is not self:
            return post(self, *args, **kwargs)
        try:
            return post(self, *args, **kwargs)
        finally:
            if id(self) in tokens:
                recorder.leave(tokens.pop(id(self)))
            elif recorder.counting == get_ident():
                recorder.words[PHASE] = OTHER

    state._pre_forward, state._post_forward = _pre_forward, _post_forward
