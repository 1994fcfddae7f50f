"""Started by sitecustomize, before the script's first line."""

from __future__ import annotations

import os

from shanty.errors import FILE_VARIABLE, ErrorFile
from shanty.finder import ImportWatcher
from shanty.recorder import Recorder, get_recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def start() -> None:
    """Installs what the environment asks for. In a process that lost the ring, nothing."""
    recorder = get_recorder()
    watcher = ImportWatcher()
    _start_error_file(recorder, watcher)
    if recorder is None or not recorder.on:
        return

    def torch_arrived(torch: ModuleType) -> None:
        from shanty.hooks import install

        install(torch, recorder, watcher)

    watcher.watch("torch", torch_arrived)
    # The first optimizer imports it: as many objects again.
    watcher.watch("torch._dynamo", lambda _: None)


def _start_error_file(recorder: Recorder | None, watcher: ImportWatcher) -> None:
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        return
    errors = ErrorFile(path, recorder)
    errors.install()
    watcher.watch("threading", errors.install_for_threads)
