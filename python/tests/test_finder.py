"""What the import watcher leaves as it is."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Iterator

import pytest

from shanty.finder import ImportWatcher


class Everything:
    """One finder and loader of several modules, as import hooks of test and tracing tools are."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        ours = name.startswith("shared_")
        return ModuleSpec(name, self) if ours else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "shared_outer":
            import shared_inner  # type: ignore[import-not-found]

            setattr(module, "inner", shared_inner)
        setattr(module, "whole", True)


@pytest.fixture
def everything() -> Iterator[Everything]:
    finder = Everything()
    before = list(sys.meta_path)
    sys.meta_path.append(finder)  # type: ignore[arg-type]
    yield finder
    sys.meta_path[:] = before
    for name in ("shared_outer", "shared_inner"):
        sys.modules.pop(name, None)


def test_a_loader_of_many_modules_tells_of_the_one_that_is_waited_for(
    everything: Everything,
) -> None:
    told = []
    watcher = ImportWatcher()
    watcher.watch("shared_outer", lambda m: told.append((m.__name__, vars(m).copy())))
    importlib.import_module("shared_outer")
    ((name, content),) = told
    assert name == "shared_outer" and content["whole"] and content["inner"].whole
    assert "exec_module" not in vars(everything)
