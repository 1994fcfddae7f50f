"""A job really trains to its end on a real control plane, through each operator."""

import os
import signal
from pathlib import Path

import pytest

from . import wrappers
from .api import ApiError, condition_of

LIMIT_S = 120

JOB = """
job: tiny
run: {script: /code/train.py, python: python, env: {TEST_MARK: "@NAMESPACE@"}}
nodes: 2
gpus_per_node: 1
restart: {max: 5, window: 10m}
"""
TRAIN = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(64, 8)
goal = data.sum(1, keepdim=True)
for step in range(30):
    optimizer.zero_grad()
    loss = ((model(data) - goal) ** 2).mean()
    loss.backward()
    optimizer.step()
    if step == 0: print(f"rank {dist.get_rank()} stepped", flush=True)
    while os.path.exists("/hold/wait"): time.sleep(0.05)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} trained to {loss.item():.6f}", flush=True)
dist.destroy_process_group()
"""
TRAINED = "of 2 trained to"

# target: what must run, the object that is the job, and the condition that says it is done
TARGETS = {
    "pods": ([], None, None),
    "job": ([], ("batch/v1", "Job"), "Complete"),
    "jobset": (["jobset"], ("jobset.x-k8s.io/v1alpha2", "JobSet"), "Completed"),
    "pytorchjob": (["training-operator"], ("kubeflow.org/v1", "PyTorchJob"), "Succeeded"),
    "trainjob": (["trainer"], ("trainer.kubeflow.org/v1alpha1", "TrainJob"), "Complete"),
    "volcano": (["volcano"], ("batch.volcano.sh/v1alpha1", "Job"), None),
    "coscheduling": (["coscheduling"], None, None),
    "kueue": (["kueue"], ("batch/v1", "Job"), "Complete"),
}


class Training:
    """One job of a target in a namespace of its own."""

    def __init__(self, cluster, namespace, target, hold=False):
        """`hold`: after its first step every rank waits until release()."""
        needs, self.kind, self.condition = TARGETS[target]
        cluster.need_nodes()
        cluster.need(*needs)
        self.cluster, self.api, self.namespace, self.target = cluster, cluster.api, namespace, target
        cluster.make_claim(namespace, "hold")
        self.held = cluster.claim_directory(namespace, "hold") / "wait"
        if hold:
            self.held.touch()
        self.objects = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tiny"},
             "data": {"job.yaml": JOB.replace("@NAMESPACE@", namespace), "train.py": TRAIN}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tiny"},
             "stringData": {"token": "a-token-of-this-test-alone-0123456789"}},
            *getattr(wrappers, target)(),
        ]
        for thing in self.objects:
            self.api.create(thing, namespace, fieldValidation="Strict")

    def finished(self):
        if self.kind is None:
            pods = self.cluster.pods(self.namespace)
            return pods and all(pod["status"].get("phase") == "Succeeded" for pod in pods)
        found = self.api.get(*self.kind, "tiny", self.namespace)
        if self.target == "volcano":
            return found["status"].get("state", {}).get("phase") == "Completed"
        return condition_of(found, self.condition) == "True"

    def wait(self, condition, what):
        try:
            return self.api.wait(condition, what, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.cluster.describe(self.namespace)}") from None

    def release(self):
        self.held.unlink()

    def ranks(self):
        """The living ranks: {rank: pid}."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            ranks = [name for name in environ if name.startswith(b"RANK=")]
            if f"TEST_MARK={self.namespace}".encode() in environ and ranks and b"train.py" in command:
                found[int(ranks[0][5:])] = int(entry.name)
        return found

    def stepped(self, times):
        logs = "".join(self.logs().values())
        return all(logs.count(f"rank {rank} stepped") >= times for rank in range(2))

    def logs(self):
        """By pod; of a pod that has not started, nothing."""
        found = {}
        for pod in self.cluster.pods(self.namespace):
            name = pod["metadata"]["name"]
            try:
                found[name] = self.cluster.log(self.namespace, name)
            except ApiError:
                found[name] = ""
        return found

    def remove(self):
        for thing in reversed(self.objects):
            self.api.delete(thing["apiVersion"], thing["kind"], thing["metadata"]["name"],
                            self.namespace, propagationPolicy="Foreground")
        self.wait(lambda: not self.cluster.pods(self.namespace), "all pods are removed")
        assert not self.ranks()


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"kueue"}))
def test_trains_to_its_end(cluster, namespace, target):
    training = Training(cluster, namespace, target)
    training.wait(training.finished, f"the {target} is done")
    trained = "\n".join(training.logs().values())
    assert trained.count(TRAINED) == 2, cluster.describe(namespace)
    training.remove()


@pytest.mark.parametrize("target", ["job", "jobset", "pytorchjob"])
def test_goes_on_after_a_killed_rank_and_a_deleted_pod(cluster, namespace, target):
    training = Training(cluster, namespace, target, hold=True)
    training.wait(lambda: training.stepped(1), "both ranks train")
    former = training.ranks()
    os.kill(former[1], signal.SIGKILL)
    training.wait(lambda: training.stepped(2), "both ranks train again after a kill")
    again = training.ranks()
    assert set(again) == {0, 1} and not set(again.values()) & set(former.values())
    pods = cluster.pods(namespace)
    assert [p["status"]["containerStatuses"][0]["restartCount"] for p in pods] == [0, 0]

    second = next(name for name, log in training.logs().items() if "rank 1 stepped" in log)
    cluster.api.delete("v1", "Pod", second, namespace)

    def replaced():
        ranks = training.ranks()
        return set(ranks) == {0, 1} and not set(ranks.values()) & set(again.values())

    training.wait(replaced, "both ranks train again after a deleted pod")
    training.release()
    training.wait(training.finished, f"the {target} is done")
    assert "".join(training.logs().values()).count(TRAINED) == 2, cluster.describe(namespace)
    training.remove()


def test_waits_in_a_queue_until_the_quota_admits_it(cluster, namespace):
    cluster.need("kueue")
    for thing in wrappers.queue(namespace, 1):
        cluster.operators.retry(lambda: cluster.api.apply(thing, namespace), "Kueue takes its queue")
    training = Training(cluster, namespace, "kueue")

    def told():
        workloads = cluster.api.list("kueue.x-k8s.io/v1beta2", "Workload", namespace)
        return any("insufficient quota" in condition["message"] for workload in workloads
                   for condition in workload.get("status", {}).get("conditions", []))

    training.wait(told, "Kueue says that the quota does not suffice")
    assert cluster.api.get("batch/v1", "Job", "tiny", namespace)["spec"]["suspend"]
    assert not cluster.pods(namespace)
    for thing in wrappers.queue(namespace, 2)[:2]:
        cluster.api.apply(thing)
    training.wait(training.finished, "the job is admitted and done")
    assert "".join(training.logs().values()).count(TRAINED) == 2
