"""SIGTERM as a wish to save first."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Termination:
    """From `install` on the first SIGTERM is only noted; a second one acts as before."""

    def __init__(self) -> None:
        self.came = False
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Does nothing outside of the main thread, which alone may."""
        if self._installed or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is None or before == signal.SIG_IGN:
            return
        self._before, self._installed = before, True
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        self.restore()

    def restore(self) -> None:
        if self._installed:
            self._installed = False
            signal.signal(signal.SIGTERM, self._before)

    def act(self) -> None:
        """What would have happened without us."""
        self.restore()
        os.kill(os.getpid(), signal.SIGTERM)
