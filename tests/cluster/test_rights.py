"""The verbs do their work with exactly the rights that `shanty render --rbac` prints."""

import json
import os
import subprocess

import pytest

from .runner import Runner
from .training import queue

JOB = """
job: tiny
run: {script: train.py, image: registry.local/ml/train:1}
nodes: 2
gpus_per_node: 1
pod: {shanty_image: "registry.local/shanty:test", cpus: 1, memory: 1Gi}
"""
KUEUE = "kueue.x-k8s.io/v1beta2"
# how the job is started: the operators, what is told to render and to run, more of the job file
WAYS = {
    "job": ([], ["--target", "job", "--gang", "none"], ""),
    "pods": ([], ["--target", "pods", "--gang", "none"], ""),
    "native": ([], ["--target", "job", "--gang", "native"], ""),
    "jobset": (["jobset"], ["--target", "jobset", "--gang", "none"], ""),
    "pytorchjob": (["training-operator"], ["--target", "pytorchjob", "--gang", "none"], ""),
    "trainjob": (["trainer"], ["--target", "trainjob", "--gang", "none"], ""),
    "mpijob": (["mpi-operator"], ["--target", "mpijob", "--gang", "none"], ""),
    "rayjob": (["kuberay"], ["--target", "rayjob", "--gang", "none"], ""),
    "kueue": (["kueue"], ["--target", "job"], "schedule: {queue: queue}\n"),
    "volcano": (["volcano"], ["--target", "volcano"], ""),
    "coscheduling": (["coscheduling"], ["--target", "job", "--gang", "coscheduling"], ""),
}
# Of pods that run, of which there are none here: test_run_on.py has them.
FOR_RUNNING_PODS = {("", "pods/log", "get")}


@pytest.fixture
def follower(tmp_path):
    """Starts a command that goes on by itself, and ends it at the latest with the test."""
    started = []

    def start(cluster, *args, env):
        with open(tmp_path / "said", "wb") as said:
            started.append(subprocess.Popen(
                [str(cluster.root / "build" / "shanty"), *args], cwd=tmp_path, stdout=said,
                stdin=subprocess.DEVNULL, stderr=said, env={**os.environ, **env}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def forbidden_actions(runner, namespace, workload):
    """What nobody has to do to run a job."""
    api = runner.api
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own"},
           "spec": {"containers": [{"name": "c", "image": "alpine"}]}}
    actions = {
        "read a Secret": lambda: api.get("v1", "Secret", "tiny-token", namespace),
        "list Secrets": lambda: api.list("v1", "Secret", namespace),
        "see other namespaces": lambda: api.list("v1", "Pod", "default"),
        "read roles": lambda: api.list("rbac.authorization.k8s.io/v1", "Role", namespace),
        "delete the namespace": lambda: api.delete("v1", "Namespace", namespace),
        "enter a pod": lambda: api.request(
            "POST", api.path("v1", "Pod", namespace, "own", "exec"), command="sh"),
    }
    if ("", "pods", "create") not in runner.granted:
        actions["make a pod"] = lambda: api.create(pod, namespace)
    if workload:
        name = workload["metadata"]["name"]
        actions |= {
            "delete a Workload": lambda: api.delete(KUEUE, "Workload", name, namespace),
            "make a Workload": lambda: api.create(workload, namespace),
            "see others' Workloads": lambda: api.list(KUEUE, "Workload", "default"),
            "see ClusterQueues": lambda: api.list(KUEUE, "ClusterQueue", ""),
            "delete a queue": lambda: api.delete(KUEUE, "LocalQueue", "queue", namespace),
        }
    return actions


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_started_followed_stopped_and_removed(cluster, namespace, tmp_path, follower,
                                                       way):
    """With nothing but these rights; and all of them are needed. What goes with the job's own object
    need not be deleted, but where that is refused has to be: see test_run_on.py."""
    needs, args, more = WAYS[way]
    cluster.need(*needs)
    if way == "volcano":  # it makes pods only where nodes have what all of them ask for
        cluster.need_nodes()
    (tmp_path / "train.py").write_text("print('hello')\n")
    if way == "kueue":
        for thing in queue(namespace, 1):  # one GPU: the job of two stays queued
            cluster.operators.retry(lambda: cluster.api.apply(thing, namespace),
                                    f"Kueue takes its {thing['kind']}")
    # No node has this label, so that no pod of it runs.
    job = tmp_path / "job.yaml"
    job.write_text(JOB + (more or "schedule: {node_selector: {test/none: here}}\n"))
    runner = Runner(cluster, namespace, job, *args)
    environment = {"KUBECONFIG": str(runner.kubeconfig(tmp_path / "kubeconfig"))}

    def verb(*args):
        done = cluster.shanty(*args, "--on", "kubernetes", env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def listed():
        return [each["state"] for each in json.loads(verb("ps", "--json"))]

    run = follower(cluster, "run", "job.yaml", *args, "--on", "kubernetes", env=environment)
    watched = {right for right in runner.granted if right[2] == "watch"}

    def followed():
        assert run.poll() is None, (tmp_path / "said").read_text()
        return watched <= runner.used()

    cluster.api.wait(followed, "all that may be watched is watched")
    workload = None
    if way == "kueue":
        def known():
            return cluster.api.list(KUEUE, "Workload", namespace)

        cluster.api.wait(known, "Kueue has a Workload for the job")
        assert listed() == ["queued"]
    else:
        cluster.api.wait(lambda: cluster.pods(namespace), "the job has pods")
    verb("top", "tiny", "--once")
    verb("stop", "tiny")
    cluster.api.wait(lambda: not cluster.pods(namespace), "no pod is left")
    if way == "kueue":
        [workload] = known()
        assert workload["spec"]["active"] is False
    for what, action in forbidden_actions(runner, namespace, workload).items():
        assert runner.forbidden(action), what
    verb("rm", "tiny")

    def left():
        maps = cluster.api.list("v1", "ConfigMap", namespace)
        return [each for each in maps if each["metadata"]["name"] != "kube-root-ca.crt"]

    # What operators made themselves goes a moment later.
    cluster.api.wait(lambda: not left(), "nothing is left")
    assert run.wait(180) == 1, (tmp_path / "said").read_text()
    assert {right for right in runner.granted - runner.used() if right[2] != "delete"} == (
        FOR_RUNNING_PODS)
    if way == "kueue":
        for kind in ("ClusterQueue", "ResourceFlavor"):
            cluster.api.delete(KUEUE, kind, namespace)
