"""Leaves the exception that ends the script in a file, for the agent to name the first error.

Output and exit code stay as they are: the hook that was there before does the rest.
"""

from __future__ import annotations

import os
import sys
import time

from shanty.recorder import PHASE_NAMES, Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

FILE_VARIABLE = "SHANTY_ERROR_FILE"
PID_VARIABLE = "SHANTY_WORKER_PID"
MESSAGE_LIMIT = 4 << 10
TRACEBACK_LIMIT = 32 << 10


class ErrorFile:
    def __init__(self, path: str, recorder: Recorder | None) -> None:
        self._path = path
        self._recorder = recorder
        self._pid = os.getpid()
        self._fatal_written = False

    def install(self) -> None:
        before = sys.excepthook

        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if not issubclass(kind, KeyboardInterrupt):
                self._write(kind, error, trace, thread="")
            before(kind, error, trace)

        sys.excepthook = excepthook

    def install_for_threads(self, threading: Any) -> None:
        before = threading.excepthook

        def excepthook(args: Any) -> None:
            if not issubclass(args.exc_type, SystemExit):
                name = args.thread.name if args.thread is not None else "unknown"
                self._write(args.exc_type, args.exc_value, args.exc_traceback, thread=name)
            before(args)

        threading.excepthook = excepthook

    def _write(
        self,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
        thread: str,
    ) -> None:
        """A thread's end does not end the process, so the main thread's error wins."""
        try:
            if os.getpid() != self._pid or self._fatal_written or not self._is_worker():
                return
            self._fatal_written = not thread
            self._store(self._describe(kind, error, trace, thread))
        except Exception:
            pass

    def _is_worker(self) -> bool:
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            return False
        if os.environ.get(PID_VARIABLE) == str(self._pid):
            return True
        # Under a wrapper such as a shell script the worker is who holds the ring.
        return self._recorder is not None and self._recorder.ring.is_free_or_mine()

    def _describe(
        self,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
        thread: str,
    ) -> dict[str, Any]:
        import traceback

        try:
            message = str(error)
        except Exception:
            message = "(the exception cannot be printed)"
        recorder = self._recorder
        return {
            "version": 1,
            "type": _type_name(kind),
            "message": _cut(message, MESSAGE_LIMIT, keep_end=False),
            "traceback": _cut(
                "".join(traceback.format_exception(kind, error, trace)),
                TRACEBACK_LIMIT,
                keep_end=True,
            ),
            "time_unix_ns": time.time_ns(),
            "step": recorder.step if recorder is not None else None,
            "phase": PHASE_NAMES[recorder.phase] if recorder is not None else None,
            "pid": self._pid,
            "thread": thread,
        }

    def _store(self, content: dict[str, Any]) -> None:
        import json

        part = f"{self._path}.{self._pid}.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(part, self._path)


def _type_name(kind: type) -> str:
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"


def _cut(text: str, limit: int, keep_end: bool) -> str:
    data = text.encode("utf-8", "replace")
    data = data[-limit:] if keep_end else data[:limit]
    return data.decode("utf-8", "ignore")
