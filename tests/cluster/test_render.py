"""What `shanty render` writes is taken by the real API server and by the operators' webhooks."""

import concurrent.futures
import functools

import pytest

from .cluster import HERE
from .operators import programs_of

# Those of the golden files, too.
JOBS = [*sorted((HERE / "jobs").glob("*.yaml")),
        *sorted((HERE.parent / "render" / "jobs").glob("*.yaml"))]
# target: the operators whose CRDs and webhooks it meets
TARGETS = {
    "pods": [], "job": [], "jobset": ["jobset"], "pytorchjob": ["training-operator"],
    "trainjob": ["trainer"], "volcano": ["volcano"],
    # Where the cluster's own gangs cannot be had, coscheduling is the next guess.
    "mpijob": ["mpi-operator", "coscheduling"], "rayjob": ["kuberay", "coscheduling"],
}
# What starts the pods together: the same
GANGS = {"none": [], "native": [], "kueue": ["kueue"], "volcano": ["volcano"],
         "coscheduling": ["coscheduling"]}
# Other objects are checked against these, so they are really made, not only tried.
REALLY_MADE = {"TrainingRuntime"}
RUNTIME_NOT_SEEN = "must be created before the TrainJob"
# The level that the pods of a job keep to, where it is not `restricted`, and what of them is beyond:
# hostNetwork and RDMA are allowed by "privileged" alone.
LEVELS = {
    "host-network.yaml": ("baseline", ["host namespaces (hostNetwork=true)", "hostPort"]),
    "rdma-host-network.yaml": ("baseline", ["host namespaces (hostNetwork=true)", "hostPort",
                                            "IPC_LOCK"]),
    "sharded-rdma.yaml": ("baseline", ["IPC_LOCK"]),
    "rdma.yaml": ("baseline", ["IPC_LOCK"]),
    "module.yaml": ("baseline", []),  # wants to be root
}
PARALLEL = 4


def give(cluster):
    """What the jobs find in a cluster that suits them."""
    for name, value in (("normal", 1000), ("high", 2000)):
        cluster.api.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                           "metadata": {"name": name}, "value": value})
    if "volcano" in cluster.operators.running:
        for name in ("team-a", "night"):
            cluster.api.apply({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                               "metadata": {"name": name}, "spec": {"weight": 1}})


def in_parallel(function, items):
    """Its results, in order; most of the time is the server's."""
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(function, items))


def refusals(cluster, namespace, objects):
    """What the server has against objects of one job."""
    found = []
    for thing in objects:
        thing["metadata"].pop("namespace", None)
        if thing["kind"] in REALLY_MADE:
            cluster.api.apply(thing, namespace, fieldValidation="Strict")
        elif refused := why_refused(cluster, namespace, thing):
            found.append(f"{thing['kind']}: {refused}")
    return found


def why_refused(cluster, namespace, thing):
    """Once Trainer has seen the runtime that was made just before."""
    answers = []

    def answered():
        answers.append(cluster.refused(thing, namespace))
        return RUNTIME_NOT_SEEN not in answers[-1]

    cluster.api.wait(answered, f"Trainer knows the runtime of {thing['metadata']['name']}")
    return answers[-1]


def pod_templates(thing):
    """Every pod template in an object, wherever its kind keeps it."""
    if isinstance(thing, list):
        return [found for part in thing for found in pod_templates(part)]
    if not isinstance(thing, dict):
        return []
    if isinstance(thing.get("spec"), dict) and "containers" in thing["spec"]:
        return [thing]
    return [found for part in thing.values() for found in pod_templates(part)]


def namespace_for_jobs(cluster, **labels):
    """With the account that one of the jobs names: no pod is taken without it."""
    name = cluster.new_namespace(**labels)
    cluster.api.apply({"apiVersion": "v1", "kind": "ServiceAccount",
                       "metadata": {"name": "trainer"}}, name)
    return name


@pytest.fixture
def namespaces(cluster):
    """By directory of job files: in one of them, no two jobs have the same name."""
    names = {job.parent: namespace_for_jobs(cluster) for job in (JOBS[0], JOBS[-1])}
    yield names
    for name in names.values():
        cluster.drop_namespace(name)


@pytest.mark.parametrize("target", TARGETS)
def test_the_server_takes_every_target(cluster, namespaces, target):
    """As it is rendered without a word, and with a gang of each kind for a part of the jobs."""
    gangs = [gang for gang, needs in GANGS.items()
             if not cluster.built.missing([p for name in needs for p in programs_of(name)])]
    cluster.need(*TARGETS[target], *(name for gang in gangs for name in GANGS[gang]))
    give(cluster)

    def tried(numbered):
        index, job = numbered
        found = []
        # The targets begin with different gangs, so that each meets them all.
        gang = gangs[(index + list(TARGETS).index(target)) % len(gangs)]
        for args in ([], ["--gang", gang]):
            done = cluster.shanty("render", job.name, "--target", target, *args, cwd=job.parent)
            if done.returncode != 0 and args:
                cannot = f"target {target} cannot be scheduled by {gang}; it can by: "
                found += [] if cannot in done.stderr else [f"{job.name}: {gang}: {done.stderr}"]
                continue
            objects = cluster.plane.yaml(done.stdout)
            found += [] if objects else [f"{job.name}: {done.stderr}"]
            found += [f"{job.name}: {' '.join(args)}: {text}"
                      for text in refusals(cluster, namespaces[job.parent], objects)]
        return found

    assert sum(in_parallel(tried, enumerate(JOBS)), []) == []


def test_worlds_that_change_their_size_are_refused_in_words(cluster, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("job: elastic\nrun: {script: train.py, image: 'registry.local/ml/train:1'}\n"
                   "nodes: {min: 2, max: 4}\n")
    for target in TARGETS:
        done = cluster.shanty("render", job, "--target", target)
        assert done.returncode == 2 and not done.stdout and "job.yaml:3" in done.stderr, done


@pytest.fixture(scope="module")
def namespace_of_level(cluster_or_reason):
    """A namespace for each pod security level in use, made when it is asked for."""
    made = {}

    def get(level):
        if level not in made:
            made[level] = namespace_for_jobs(
                cluster_or_reason, **{"pod-security.kubernetes.io/enforce": level})
        return made[level]

    yield get
    for name in made.values():
        cluster_or_reason.drop_namespace(name)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.parent.parent.name}-{job.stem}")
def test_pods_keep_to_the_pod_security_levels(cluster, namespace_of_level, job):
    """`restricted`; with hostNetwork or RDMA all of `baseline` but what these two are."""
    give(cluster)
    level, allowed = LEVELS.get(job.name, ("restricted", []))
    namespace = namespace_of_level(level)
    render = functools.partial(cluster.render, job)
    templates = [template for objects in in_parallel(lambda t: render("--target", t), TARGETS)
                 for template in pod_templates(objects)]
    assert len(templates) >= len(TARGETS)

    def refusal(numbered):
        index, template = numbered
        return cluster.refused({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                                "metadata": {"name": f"template-{index}"}}, namespace)

    for refused in in_parallel(refusal, enumerate(templates)):
        if not refused:
            continue
        violations = refused.partition(f'violates PodSecurity "{level}:latest": ')[2].split("), ")
        assert violations != [""], refused
        assert all(any(word in text + ")" for word in allowed) for text in violations), refused


def test_a_typing_error_is_refused(cluster, namespace):
    """The server does look: the tests above would notice."""
    job = cluster.render(JOBS[0], "--target", "job")[-1]
    job["spec"]["completionsMode"] = "Indexed"
    assert 'unknown field "spec.completionsMode"' in cluster.refused(job, namespace)
