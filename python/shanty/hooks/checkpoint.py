"""torch.save and torch.load, and torch.distributed.checkpoint where it is used."""

from __future__ import annotations

import functools
import io
import os
import sys
from types import ModuleType
from typing import Any

from shanty.hooks.wrap import Function, is_compiling, never_compile
from shanty.recorder import CHECKPOINT, Recorder
from shanty.saves import tell_save


def install(module: ModuleType, recorder: Recorder) -> None:
    _replace(module, "torch", "save", recorder)
    _replace(module, "torch", "load", recorder)


def install_sharded_save(module: ModuleType, recorder: Recorder) -> None:
    _replace(module, "torch.distributed.checkpoint", "save", recorder)


def install_sharded_load(module: ModuleType, recorder: Recorder) -> None:
    _replace(module, "torch.distributed.checkpoint", "load", recorder)


def _replace(module: ModuleType, package: str, name: str, recorder: Recorder) -> None:
    """Wraps `module.name`, and the same function where `package` has taken it over."""
    original = getattr(module, name)
    wrapped = _counted(original, recorder, writes=name == "save")
    setattr(module, name, wrapped)
    outer = sys.modules.get(package)
    if getattr(outer, name, None) is original:
        setattr(outer, name, wrapped)


def _counted(original: Function, recorder: Recorder, writes: bool) -> Function:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # A data set that loads its items is not reading a checkpoint, a sharded checkpoint's inner
        # saves are part of it, and torch itself saves storages into memory to copy them.
        if (
            is_compiling()
            or recorder.is_inside_data_or_checkpoint()
            or any(isinstance(argument, io.BytesIO) for argument in args)
            or isinstance(kwargs.get("f"), io.BytesIO)
        ):
            return original(*args, **kwargs)
        token = recorder.enter(CHECKPOINT)
        try:
            result = original(*args, **kwargs)
        finally:
            recorder.leave(token)
        recorder.add_checkpoint(int(writes), int(not writes))
        if writes:
            tell_place(args, kwargs, recorder.step)
        return result

    return never_compile(wrapper)


def tell_place(args: tuple[Any, ...], kwargs: dict[str, Any], step: int) -> None:
    """Appends to the run directory's saves/ where a save went, if to a path."""
    # torch.save(obj, f); torch.distributed.checkpoint.save(state_dict, *, checkpoint_id=...)
    place = kwargs.get("f", kwargs.get("checkpoint_id", args[1] if len(args) > 1 else None))
    try:
        if isinstance(place, io.IOBase):
            place = getattr(place, "name", None)
        if not isinstance(place, (str, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(place))
        inode = os.stat(path).st_ino
    except Exception:
        return  # a remote path, or one of a class with a mind of its own
    tell_save(path=path, step=step, inode=inode)


never_compile(tell_place)
