"""SIGTERM as a wish to save first."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from types import FrameType
from typing import Any


class Termination:
    """From `install` on the first SIGTERM is only noted; a second one acts as before. Forked
    children, which save nothing, act as before from the start."""

    def __init__(self) -> None:
        self.came = False
        self._before: Any = None
        self._installed = False
        self._is_over = False

    def install(self) -> None:
        """Does nothing outside of the main thread, which alone may."""
        if self._installed or self._is_over or not _may_handle():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is None or before == signal.SIG_IGN:
            return
        self._before, self._installed = before, True
        signal.signal(signal.SIGTERM, self._note)
        _restore_in_children(self)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = self._is_over = True
        self.restore()

    def restore(self) -> None:
        """Puts back the handler that was there, unless another one has taken our place."""
        if not self._installed or not _may_handle():
            return
        self._installed = False
        if signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._before)

    def act(self) -> None:
        """What would have happened without us. A handler of the script's may let it go on."""
        self.came = False
        self.restore()
        os.kill(os.getpid(), signal.SIGTERM)


def _may_handle() -> bool:
    return threading.current_thread() is threading.main_thread()


def _restore_in_children(termination: Termination) -> None:
    known = weakref.ref(termination)

    def restore() -> None:
        found = known()
        if found is not None:
            found.restore()

    os.register_at_fork(after_in_child=restore)
