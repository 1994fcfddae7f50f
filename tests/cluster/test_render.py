"""What `shanty render` writes is taken by the real API server, and by the operators' webhooks."""

import pytest

from .cluster import HERE

JOBS = sorted(path.name for path in (HERE / "jobs").glob("*.yaml"))
# target: the operators whose CRDs and webhooks it meets
TARGETS = {
    "pods": [], "job": [], "jobset": ["jobset"], "pytorchjob": ["training-operator"],
    "trainjob": ["trainer"], "volcano": ["volcano"], "mpijob": ["mpi-operator"],
    "rayjob": ["kuberay"],
}
# Other objects are checked against these, so they are really made, not only tried.
REALLY_MADE = {"TrainingRuntime", "ClusterTrainingRuntime", "ServiceAccount", "Role"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}
NOT_RESTRICTED = {"host-network.yaml", "sharded-rdma.yaml"}  # hostNetwork and RDMA need more


def pod_templates(thing):
    """Every pod template in an object, wherever its kind keeps it."""
    if isinstance(thing, list):
        return [found for part in thing for found in pod_templates(part)]
    if not isinstance(thing, dict):
        return []
    if thing.get("kind") == "Pod":
        return [thing]
    if isinstance(thing.get("spec"), dict) and "containers" in thing["spec"]:
        return [thing]
    return [found for part in thing.values() for found in pod_templates(part)]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_server_takes_every_target(cluster, target, job):
    objects = cluster.render(HERE / "jobs" / job, "--target", target)
    cluster.need(*TARGETS[target])
    namespace = cluster.new_namespace()
    assert objects
    for thing in objects:
        thing["metadata"].pop("namespace", None)
        if thing["kind"] in REALLY_MADE:
            cluster.api.create(thing, namespace, fieldValidation="Strict")
        else:
            assert cluster.refused(thing, namespace) == ""
    cluster.drop_namespace(namespace)


@pytest.mark.parametrize("job", JOBS)
def test_pods_keep_to_the_pod_security_levels(cluster, job):
    level = BASELINE if job in NOT_RESTRICTED else RESTRICTED
    namespace = cluster.new_namespace(**level)
    templates = [
        template for target in TARGETS
        for template in pod_templates(cluster.render(HERE / "jobs" / job, "--target", target))
    ]
    assert templates
    for index, template in enumerate(templates):
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
               "metadata": {"name": f"template-{index}"}}
        refusal = cluster.refused(pod, namespace)
        assert "violates PodSecurity" not in refusal, refusal
    cluster.drop_namespace(namespace)
