"""Gangs on fake nodes of eight GPUs: all pods of a rendered job are placed, or none."""

import pytest

from .api import condition_of
from .fake_nodes import GPUS

LIMIT_S = 180
JOB = """
job: gang
run: {{script: /code/train.py, image: registry.local/ml/train:1}}
nodes: {nodes}
gpus_per_node: {gpus}

"""


@pytest.fixture
def nodes(cluster):
    missing = cluster.built.missing(["kwok"])
    if missing:
        pytest.skip(missing)
    fake = cluster.fake_nodes(2)
    yield fake
    fake.remove()


def submit(cluster, namespace, tmp_path, nodes):
    (tmp_path / "job.yaml").write_text(JOB.format(nodes=nodes, gpus=GPUS))
    for thing in cluster.render(tmp_path / "job.yaml", "--target", "job", "--gang", "native"):
        for template in [thing["spec"]["template"]] if thing["kind"] == "Job" else []:
            template["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        cluster.api.create(thing, namespace, fieldValidation="Strict")


def bound(cluster, namespace):
    return [pod for pod in cluster.pods(namespace) if pod["spec"].get("nodeName")]


def test_a_gang_that_fits_is_placed_whole(cluster, namespace, nodes, tmp_path):
    submit(cluster, namespace, tmp_path, 2)
    cluster.api.wait(lambda: len(bound(cluster, namespace)) == 2, "both pods are placed", LIMIT_S)
    assert {pod["spec"]["nodeName"] for pod in bound(cluster, namespace)} == set(nodes.names)


def test_a_gang_that_does_not_fit_holds_nothing(cluster, namespace, nodes, tmp_path):
    submit(cluster, namespace, tmp_path, 3)

    def refused():
        groups = cluster.api.list("scheduling.k8s.io/v1beta1", "PodGroup", namespace)
        return [g for g in groups if condition_of(g, "PodGroupInitiallyScheduled") == "False"]

    cluster.api.wait(refused, "the scheduler says that the gang does not fit", LIMIT_S)
    assert len(cluster.pods(namespace)) == 3 and not bound(cluster, namespace)
