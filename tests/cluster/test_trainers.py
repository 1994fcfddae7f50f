"""TrainJobs of each version of Kubeflow Trainer are taken by the real API server with its CRDs."""

import pytest
import yaml
from render.schemas import SHARED

from .api import condition_of
from .cluster import HERE
from .second_server import SecondServer

JOBS = sorted((HERE / "jobs").glob("*.yaml"))
CRDS = {version: path for version in ("2.0", "2.1", "2.2", "2.3")
        for path in SHARED.glob(f"trainer-v{version}.*")}
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest.fixture(scope="module")
def api(cluster_or_reason):
    """An API server of its own kinds: the cluster's Trainer has one of the versions."""
    if isinstance(cluster_or_reason, str):
        pytest.skip(cluster_or_reason)
    server = SecondServer(cluster_or_reason, "--etcd-prefix=/trainers")
    yield server.api
    server.kill()


@pytest.fixture
def kinds(api, request):
    """The kinds that the CRDs of a version bring."""
    version = request.param
    if version not in CRDS:
        pytest.skip(f"no CRDs of Trainer {version} in {SHARED}")
    crds = [yaml.safe_load(path.read_text()) for path in sorted(CRDS[version].glob("*.yaml"))]
    for crd in crds:
        api.create(crd)
    for crd in crds:
        name = crd["metadata"]["name"]
        api.wait(lambda: condition_of(api.get(*CRD, name), "Established") == "True",
                 f"{name} is established")
    found = {crd["spec"]["names"]["kind"] for crd in crds}

    def served():
        api.kinds.clear()  # it remembers what it was told
        return all(api.serves("trainer.kubeflow.org/v1alpha1", kind) for kind in found)

    api.wait(served, "they are served")
    yield version, found
    for crd in crds:
        api.delete(*CRD, crd["metadata"]["name"])
    for crd in crds:
        name = crd["metadata"]["name"]
        api.wait(lambda: name not in [each["metadata"]["name"] for each in api.list(*CRD, "")],
                 f"{name} is removed")


@pytest.mark.parametrize("kinds", sorted(CRDS) or ["2.0"], indirect=True)
def test_the_server_takes_the_train_jobs_of_a_version(cluster_or_reason, api, kinds):
    version, found = kinds
    tried = 0
    for job in JOBS:
        objects = cluster_or_reason.render(job, "--target", "trainjob", "--trainer", version)
        for thing in objects:
            if thing["kind"] in found:
                thing["metadata"].pop("namespace", None)
                api.create(thing, "default", dryRun="All", fieldValidation="Strict")
                tried += 1
    assert tried >= len(JOBS)
