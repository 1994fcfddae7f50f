"""What `shanty render` writes is taken by the real API server and by the operators' webhooks."""

import pytest

from .cluster import HERE
from .runner import Runner
from .training import LIMIT_S

JOBS = sorted((HERE / "jobs").glob("*.yaml"))
# target: the operators whose CRDs and webhooks it meets
TARGETS = {
    "pods": [], "job": [], "jobset": ["jobset"], "pytorchjob": ["training-operator"],
    "trainjob": ["trainer"], "volcano": ["volcano"], "mpijob": ["mpi-operator"],
    "rayjob": ["kuberay"],
}
# Other objects are checked against these, so they are really made, not only tried.
REALLY_MADE = {"TrainingRuntime", "ServiceAccount", "Role"}
# What the jobs with hostNetwork or RDMA ask for, and no level but "privileged" gives.
MORE_THAN_BASELINE = {
    "host-network.yaml": ["host namespaces (hostNetwork=true)", "hostPort"],
    "sharded-rdma.yaml": ["IPC_LOCK"],
}


def give(cluster):
    """What the jobs of jobs/ find in a cluster that suits them."""
    cluster.api.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                       "metadata": {"name": "normal"}, "value": 1000})
    if "volcano" in cluster.operators.running:
        cluster.api.apply({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                           "metadata": {"name": "team-a"}, "spec": {"weight": 1}})


def pod_templates(thing):
    """Every pod template in an object, wherever its kind keeps it."""
    if isinstance(thing, list):
        return [found for part in thing for found in pod_templates(part)]
    if not isinstance(thing, dict):
        return []
    if isinstance(thing.get("spec"), dict) and "containers" in thing["spec"]:
        return [thing]
    return [found for part in thing.values() for found in pod_templates(part)]


@pytest.mark.parametrize("target", TARGETS)
def test_the_server_takes_every_target(cluster, namespace, target):
    cluster.need(*TARGETS[target])
    give(cluster)
    refusals = []
    for job in JOBS:
        objects = cluster.render(job, "--target", target)
        assert objects
        for thing in objects:
            thing["metadata"].pop("namespace", None)
            if thing["kind"] in REALLY_MADE:
                cluster.api.create(thing, namespace, fieldValidation="Strict")
            else:
                refused = cluster.refused(thing, namespace)
                refusals += [f"{job.name}: {thing['kind']}: {refused}"] if refused else []
    assert refusals == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_pods_keep_to_the_pod_security_levels(cluster, job):
    """`restricted`; with hostNetwork or RDMA all of `baseline` but what these two are."""
    give(cluster)
    allowed = MORE_THAN_BASELINE.get(job.name, [])
    level = "baseline" if allowed else "restricted"
    namespace = cluster.new_namespace(**{"pod-security.kubernetes.io/enforce": level})
    templates = [template for target in TARGETS
                 for template in pod_templates(cluster.render(job, "--target", target))]
    assert len(templates) >= len(TARGETS)
    for index, template in enumerate(templates):
        refused = cluster.refused({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                                   "metadata": {"name": f"template-{index}"}}, namespace)
        if not refused:
            continue
        violations = refused.partition(f'violates PodSecurity "{level}:latest": ')[2].split("), ")
        assert violations != [""], refused
        assert all(any(word in text + ")" for word in allowed) for text in violations), refused
    cluster.drop_namespace(namespace)


def test_a_typing_error_is_refused(cluster, namespace):
    """The server does look: the tests above would notice."""
    job = cluster.render(JOBS[0], "--target", "job")[-1]
    job["spec"]["completionsMode"] = "Indexed"
    assert 'unknown field "spec.completionsMode"' in cluster.refused(job, namespace)


@pytest.mark.parametrize("target", TARGETS)
def test_the_runner_may_submit_what_is_rendered(cluster, namespace, target):
    cluster.need(*TARGETS[target])
    give(cluster)
    job = HERE / "jobs" / "two-nodes.yaml"
    api = Runner(cluster, namespace, job, "--target", target).api
    for thing in cluster.render(job, "--target", target):
        if thing["kind"] in REALLY_MADE:
            api.create(thing, namespace)
        else:
            api.create(thing, namespace, dryRun="All")


def test_the_runner_can_follow_and_remove_a_job_and_nothing_else(cluster, namespace):
    cluster.need_nodes()
    job = HERE / "jobs" / "fails.yaml"
    runner = Runner(cluster, namespace, job, "--target", "job")
    api, other = runner.api, cluster.new_namespace()
    objects = cluster.render(job, "--target", "job")
    for thing in objects:
        api.create(thing, namespace)

    def logged():
        names = [pod["metadata"]["name"] for pod in api.list("v1", "Pod", namespace)
                 if pod["status"]["phase"] == "Failed"]
        return names and api.text(api.path("v1", "Pod", namespace, names[0], "log"))

    try:
        assert "no-such-script" in api.wait(logged, "a pod has a log", LIMIT_S)
    except AssertionError:
        raise AssertionError(cluster.describe(namespace)) from None
    assert api.list("v1", "Event", namespace)
    secret = next(thing for thing in objects if thing["kind"] == "Secret")["metadata"]["name"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own"},
           "spec": {"containers": [{"name": "c", "image": "alpine"}]}}
    for action in [
        lambda: api.get("v1", "Secret", secret, namespace),
        lambda: api.list("v1", "Secret", namespace),
        lambda: api.create(pod, namespace),
        lambda: api.list("batch/v1", "Job", other),
        lambda: api.list("v1", "Pod", other),
        lambda: api.list("rbac.authorization.k8s.io/v1", "Role", namespace),
        lambda: api.delete("v1", "Namespace", namespace),
    ]:
        assert runner.forbidden(action)
    for thing in reversed(objects):
        api.delete(thing["apiVersion"], thing["kind"], thing["metadata"]["name"], namespace,
                   propagationPolicy="Foreground")
    api.wait(lambda: not api.list("v1", "Pod", namespace), "the pods are removed")
    cluster.drop_namespace(other)
