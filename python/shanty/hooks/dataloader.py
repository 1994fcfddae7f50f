"""Waiting for the DataLoader, and the samples it gave."""

from __future__ import annotations

import functools
from _thread import get_ident
from types import ModuleType
from typing import Any

from torch import Tensor

from shanty.hooks.wrap import is_compiling, is_grad_enabled, never_compile, replace
from shanty.recorder import DATA, EVAL, OTHER, Recorder
from shanty.ring import PHASE

_DEPTH_LIMIT = 4


def install(module: ModuleType, recorder: Recorder) -> None:
    iterator = module._BaseDataLoaderIter
    original = iterator.__next__
    enter_data, leave, words = recorder.enter_data, recorder.leave, recorder.words

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if recorder.counting == get_ident():
            words[PHASE] = DATA if is_grad_enabled() else EVAL
            try:
                return original(self)
            finally:
                words[PHASE] = OTHER
        if is_compiling():
            return original(self)
        if not is_grad_enabled():
            return _next_of_evaluation(original, self, recorder)
        if "_shanty_seen" not in self.__dict__:
            self._shanty_seen = True
            if self.__dict__.get("_num_workers", 0) > 0 and not self.__dict__.get("_num_yielded"):
                return _next_of_new_workers(original, self, recorder)
        token = enter_data()
        try:
            batch = original(self)
        finally:
            leave(token)
        if token >= 0:
            _count(batch, recorder)
        return batch

    replace(iterator, "__next__", never_compile(__next__), DATA, recorder)
    never_compile(_next_of_evaluation, _next_of_new_workers, _count, count_samples)


def _next_of_evaluation(original: Any, iterator: Any, recorder: Recorder) -> Any:
    token = recorder.enter(EVAL)
    try:
        return original(iterator)
    finally:
        recorder.leave(token)


def _next_of_new_workers(original: Any, iterator: Any, recorder: Recorder) -> Any:
    """The first item waits for the workers to start, which is no stall of the data."""
    token = recorder.enter_data()
    try:
        batch = original(iterator)
    finally:
        recorder.leave_first_data(token)
    if token >= 0:
        _count(batch, recorder)
    return batch


def _count(batch: Any, recorder: Recorder) -> None:
    try:
        first = batch[0] if type(batch) in (list, tuple) and batch else batch
        samples = first.size(0) if type(first) is Tensor and first.dim() else count_samples(batch)
        if samples is not None:
            recorder.add_samples(samples)
    except Exception as error:
        recorder.fail(error)


def count_samples(batch: Any, depth: int = 0) -> int | None:
    """The first dimension of the first tensor in the batch; None when there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if depth == _DEPTH_LIMIT:
        return None
    items = batch
    if hasattr(batch, "values") and callable(batch.values):
        items = batch.values()
    elif not isinstance(batch, (list, tuple)):
        return None
    for item in items:
        samples = count_samples(item, depth + 1)
        if samples is not None:
            return samples
    return None
