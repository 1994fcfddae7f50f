"""Runs a callback right after a module was imported for the first time."""

from __future__ import annotations

import sys

from shanty.collector import Still

# Spelled out, as importing typing would be a good part of an interpreter's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable

    Callback = Callable[[ModuleType], None]


class ImportWatcher:
    """First in sys.meta_path; finds nothing itself, and leaves each loader's type as it is."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callback]] = {}

    def watch(self, name: str, callback: Callback) -> None:
        """`callback` must not raise. A module that is loaded already is called back at once; one
        that is not is imported without garbage collection."""
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
            return
        self._waiting.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._tap(name, spec.loader)
                return spec
        return None

    def _tap(self, name: str, loader: Any) -> None:
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: ModuleType) -> None:
            with Still():
                original(module)
            if module.__name__ != name:
                return  # of another module, which this loader serves too
            # Only now: an import that failed may be tried again.
            callbacks = self._waiting.pop(name, [])
            loader.__dict__.pop("exec_module", None)
            for callback in callbacks:
                callback(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            # Built-in and frozen loaders take no attributes; such a module stays unwatched.
            pass
