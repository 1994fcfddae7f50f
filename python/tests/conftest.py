import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent):
    sys.path.insert(0, str(folder))
sys.path.append(str(HERE.parents[1] / "tests"))

from ports import free_port  # noqa: E402


@pytest.fixture
def unused_port() -> int:
    return free_port()
