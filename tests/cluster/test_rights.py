"""The verbs do their work with exactly the rights that `shanty render --rbac` prints."""

import json

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
    "kueue": (["kueue"], ["--target", "job"], "schedule: {queue: queue}\n"),
    "volcano": (["volcano"], ["--target", "volcano"], ""),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_started_stopped_and_removed(cluster, namespace, tmp_path, way):
    needs, args, more = WAYS[way]
    cluster.need(*needs)
    job = tmp_path / "job.yaml"
    job.write_text(JOB + more)
    (tmp_path / "train.py").write_text("print('hello')\n")
    if way == "kueue":
        for thing in queue(namespace, 1):  # one GPU: the job of two stays queued
            cluster.operators.retry(lambda: cluster.api.apply(thing, namespace),
                                    f"Kueue takes its {thing['kind']}")
    # No node has this label, so that no pod of it runs.
    job.write_text(JOB + (more or "schedule: {node_selector: {test/none: here}}\n"))
    runner = Runner(cluster, namespace, job, *args)
    environment = {"KUBECONFIG": str(runner.kubeconfig(tmp_path / "kubeconfig"))}

    def verb(*args):
        done = cluster.shanty(*args, "--on", "kubernetes", env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def listed():
        return [each["state"] for each in json.loads(verb("ps", "--json"))]

    verb("run", "job.yaml", *args, "--detach")
    if way == "kueue":
        def known():
            return cluster.api.list(KUEUE, "Workload", namespace)

        cluster.api.wait(known, "Kueue has a Workload for the job")
        assert listed() == ["queued"]
    verb("top", "tiny", "--once")
    verb("stop", "tiny")
    cluster.api.wait(lambda: not cluster.pods(namespace), "no pod is left")
    if way == "kueue":
        [workload] = known()
        assert workload["spec"]["active"] is False
        name = workload["metadata"]["name"]
        for action in [
            lambda: runner.api.delete(KUEUE, "Workload", name, namespace),
            lambda: runner.api.create(workload, namespace),
            lambda: runner.api.list(KUEUE, "Workload", "default"),
            lambda: runner.api.list(KUEUE, "ClusterQueue", ""),
            lambda: runner.api.delete(KUEUE, "LocalQueue", "queue", namespace),
        ]:
            assert runner.forbidden(action)
    else:
        assert runner.forbidden(lambda: runner.api.list("v1", "Secret", namespace))
    verb("rm", "tiny")

    def left():
        maps = cluster.api.list("v1", "ConfigMap", namespace)
        return [each for each in maps if each["metadata"]["name"] != "kube-root-ca.crt"]

    # What operators made themselves goes a moment later.
    cluster.api.wait(lambda: not left(), "nothing is left")
    if way == "kueue":
        for kind in ("ClusterQueue", "ResourceFlavor"):
            cluster.api.delete(KUEUE, kind, namespace)
