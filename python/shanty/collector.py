"""Holds the garbage collector still while a large module is imported."""

from __future__ import annotations

import gc

_STILL = (0, 0, 0)
# Other interpreters than CPython have other collectors.
_KNOWN = hasattr(gc, "freeze") and hasattr(gc, "set_threshold")


class Still:
    """A context in which no collection starts by itself; `gc.collect()` works as ever.

    `import torch` makes more than half a million objects which all stay, and the collector looks
    through them again and again: a fifth of the import's time. At the end they become old without
    a pass over them. Whatever the imported code says to the collector by itself stands.
    """

    def __enter__(self) -> None:
        if not _KNOWN:
            return
        self._before = gc.get_threshold()
        gc.set_threshold(*_STILL)

    def __exit__(self, *_: object) -> None:
        if not _KNOWN or gc.get_threshold() != _STILL:
            return
        if self._before[0] and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*self._before)
