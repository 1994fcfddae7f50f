"""A rendered job really trains to its end on a real control plane, through each operator."""

import os
import signal

import pytest

from .training import Training, queue


@pytest.mark.parametrize("way", ["native", "coscheduling"])
def test_trains_to_its_end_and_is_removed_without_a_trace(cluster, namespace, tmp_path, way):
    training = Training(cluster, namespace, way, tmp_path)
    training.wait(training.finished, f"the {way} is done")
    assert training.trained(), cluster.describe(namespace)
    training.remove()


@pytest.mark.parametrize("way", ["job", "pytorchjob"])
def test_goes_on_after_a_killed_rank_and_a_deleted_pod(cluster, namespace, tmp_path, way):
    training = Training(cluster, namespace, way, tmp_path, hold=True)
    training.wait(lambda: training.stepped(1), "both ranks train")
    first = training.ranks()
    os.kill(first[1], signal.SIGKILL)
    training.wait(lambda: training.stepped(2), "both ranks train again after a kill")
    second = training.ranks()
    assert set(second) == {0, 1} and not set(second.values()) & set(first.values())
    statuses = [pod["status"]["containerStatuses"][0] for pod in cluster.pods(namespace)]
    assert [status["restartCount"] for status in statuses] == [0, 0]

    victim = next(name for name, log in training.logs().items() if "rank 1 stepped" in log)
    cluster.api.delete("v1", "Pod", victim, namespace)

    def replaced():
        ranks = training.ranks()
        return set(ranks) == {0, 1} and not set(ranks.values()) & set(second.values())

    training.wait(replaced, "both ranks train again after a deleted pod")
    training.release()
    training.wait(training.finished, f"the {way} is done")
    assert training.trained(), cluster.describe(namespace)


def test_waits_in_a_queue_until_the_quota_admits_it(cluster, namespace, tmp_path):
    cluster.need("kueue")
    for thing in queue(namespace, 1):
        cluster.operators.retry(lambda: cluster.api.apply(thing, namespace),
                                f"Kueue takes its {thing['kind']}")
    training = Training(cluster, namespace, "kueue", tmp_path)

    def told():
        workloads = cluster.api.list("kueue.x-k8s.io/v1beta2", "Workload", namespace)
        return any("insufficient quota" in condition["message"] for workload in workloads
                   for condition in workload.get("status", {}).get("conditions", []))

    training.wait(told, "Kueue says that the quota does not suffice")
    assert cluster.api.get("batch/v1", "Job", "tiny", namespace)["spec"]["suspend"]
    assert not cluster.pods(namespace)
    for thing in queue(namespace, 2)[:2]:
        cluster.api.apply(thing)
    training.wait(training.finished, "the job is admitted and done")
    assert training.trained(), cluster.describe(namespace)
