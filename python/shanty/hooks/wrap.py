"""What the hooks share: timed wrappers that torch.compile looks through."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any, Callable, TypeVar, cast

import torch

from shanty.recorder import Recorder

Function = Callable[..., Any]
Thing = TypeVar("Thing")


def _never() -> bool:
    return False


def _find_is_compiling() -> Callable[[], bool]:
    """True while Dynamo traces the caller; Dynamo itself takes the call for a constant."""
    # The first is the cheapest, and there since 2.2.
    for module, name in (("compiler", "is_dynamo_compiling"), ("_utils", "is_compiling")):
        found = getattr(getattr(torch, module, None), name, None)
        if callable(found):
            return cast("Callable[[], bool]", found)
    return _never


is_compiling = _find_is_compiling()
is_grad_enabled: Callable[[], bool] = getattr(torch, "is_grad_enabled", lambda: True)


class Replaced:
    """A function of a module or a class, with a wrapper of ours in its place."""

    def __init__(self, owner: Any, name: str, wrapper: Function) -> None:
        self._owner, self._name, self._wrapper = owner, name, wrapper
        self._original = vars(owner)[name]
        self.put()

    def put(self) -> None:
        self._swap(self._original, self._wrapper)

    def take(self) -> None:
        self._swap(self._wrapper, self._original)

    def _swap(self, there: Function, instead: Function) -> None:
        # What somebody else has put there since stays.
        if vars(self._owner).get(self._name) is there:
            setattr(self._owner, self._name, instead)


def replace(owner: Any, name: str, wrapper: Function, phase: int, recorder: Recorder) -> None:
    """Puts `wrapper` there, and takes it out while steps are only counted: `phase` is told by the
    stack then, where it is one."""
    original = vars(owner)[name]
    recorder.switches.append(Replaced(owner, name, wrapper))
    code = getattr(original, "__code__", None)
    if code is not None and phase:
        recorder.codes[code] = phase


def timed(original: Function, recorder: Recorder, phase: int) -> Function:
    """`original`, with its duration counted as `phase`."""
    enter, leave = recorder.enter, recorder.leave

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        token = enter(phase)
        try:
            return original(*args, **kwargs)
        finally:
            leave(token)

    return never_compile(wrapper)


def never_compile(first: Thing, *more: Any) -> Thing:
    """Tells Dynamo to run these functions (or the methods of these classes) as they are when it
    meets them as a frame of their own. Returns the first."""
    for thing in (first, *more):
        if isinstance(thing, FunctionType):
            _skip(thing)
        elif isinstance(thing, type):
            for member in vars(thing).values():
                if isinstance(member, FunctionType):
                    _skip(member)
    return first


def _skip(function: FunctionType) -> None:
    try:
        frames = torch._C._dynamo.eval_frame
        if hasattr(frames, "skip_code"):
            frames.skip_code(function.__code__)
        else:
            action = frames._FrameAction
            strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
            frames.set_code_exec_strategy(function.__code__, strategy)
    except Exception:
        # Private, and only an economy: without it Dynamo traces the function and finds nothing.
        pass
