"""Fixtures: one control plane for all tests of this directory, what else it needs on demand.

Here is also decided whether these tests can run at all: they skip, saying what is missing, where
there is no root, no namespaces or no programs of the control plane.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from .cluster import Cluster
from .control_plane import CORE
from .on_cluster import OnCluster
from .programs import Built
from .sandbox import why_not

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "build" / "control-plane.json"


def reason_to_skip() -> str:
    if os.environ.get("SHANTY_CLUSTER_TESTS", "on") == "off":
        return "SHANTY_CLUSTER_TESTS=off"
    if not INDEX.exists():
        return "the control plane is not built: run scripts/control-plane.sh"
    return Built(json.loads(INDEX.read_text())).missing(CORE) or why_not()


def end_by_exception(*_) -> None:
    """SIGTERM ends pytest by an exception, so that fixtures are torn down."""
    sys.exit(128 + signal.SIGTERM)


@pytest.fixture(scope="package")
def cluster_or_reason():
    reason = reason_to_skip()
    if reason:
        yield reason
        return
    former = signal.signal(signal.SIGTERM, end_by_exception)
    directory = Path(tempfile.mkdtemp(prefix="shanty-cluster-"))
    made = None
    try:
        made = Cluster(Built(json.loads(INDEX.read_text())), directory, ROOT)
        yield made
    finally:
        if made:
            made.close()
        if not os.environ.get("SHANTY_CLUSTER_KEEP"):
            shutil.rmtree(directory, ignore_errors=True)
        signal.signal(signal.SIGTERM, former)


@pytest.fixture
def cluster(cluster_or_reason):
    """A running Cluster; after the test, every program of it must still be alive."""
    if isinstance(cluster_or_reason, str):
        pytest.skip(cluster_or_reason)
    yield cluster_or_reason
    cluster_or_reason.plane.check()


@pytest.fixture
def namespace(cluster, request):
    """A namespace of the test's own, removed with all that is in it."""
    name = cluster.new_namespace()
    yield name
    cluster.drop_namespace(name)


@pytest.fixture
def on_cluster(cluster, namespace, tmp_path):
    """Makes jobs that are followed: on_cluster(**of OnCluster)."""
    made = []

    def make(**options):
        made.append(OnCluster(cluster, namespace, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
