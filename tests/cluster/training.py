"""One tiny job, rendered by `shanty render` and put into a namespace of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .api import ApiError, condition_of
from .cluster import TRAIN_IMAGE, Cluster

LIMIT_S = 300
RANKS = 2

JOB = """
job: tiny
run: {script: train.py, python: python, image: "@IMAGE@", env: {TEST_MARK: "@NAMESPACE@"}}
nodes: 2
gpus_per_node: 1
loader: {workers: 0}
data: [{claim: hold, mount: /hold}]
restart: {max: 5, window: 10m}
pod: {cpus: 1, memory: 1Gi}
"""
TRAIN = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
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
    if step == 0: print(f"rank {rank} stepped", flush=True)
    while os.path.exists("/hold/wait"): time.sleep(0.05)
print(f"rank {rank} of {dist.get_world_size()} trained to {loss.item():.6f}", flush=True)
dist.destroy_process_group()
"""
TRAINED = f"of {RANKS} trained to"


def living_ranks(namespace: str) -> dict[int, int]:
    """Of the job there: {rank: pid}."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        ranks = [name for name in environ if name.startswith(b"RANK=")]
        marked = f"TEST_MARK={namespace}".encode() in environ
        if marked and ranks and b"train.py" in command:
            found[int(ranks[0][5:])] = int(entry.name)
    return found


@dataclass(frozen=True)
class Way:
    """A way into the cluster: what must run, what `shanty render` is told, what says it is done."""

    args: list[str]
    kind: tuple[str, str] = ("batch/v1", "Job")
    condition: str = "Complete"
    needs: list[str] = field(default_factory=list)
    job: str = ""  # more of the job file


# What `kubectl apply` does; test_run_on.py has every target.
WAYS = {
    "job": Way(["--target", "job"]),
    "pytorchjob": Way(["--target", "pytorchjob"], ("kubeflow.org/v1", "PyTorchJob"), "Succeeded",
                      ["training-operator"]),
    "native": Way(["--target", "job", "--gang", "native"]),
    "coscheduling": Way(["--target", "job", "--gang", "coscheduling"], needs=["coscheduling"]),
    "kueue": Way(["--target", "job", "--gang", "kueue"], needs=["kueue"],
                 job="schedule: {queue: queue}\n"),
}


class Training:
    def __init__(self, cluster: Cluster, namespace: str, way: str, directory: Path, hold=False):
        """Submits the job; `hold`: after its first step every rank waits until release()."""
        self.way = WAYS[way]
        cluster.need_nodes()
        cluster.need(*self.way.needs)
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace
        cluster.make_claim(namespace, "hold")
        self.held = cluster.claim_directory(namespace, "hold") / "wait"
        if hold:
            self.held.touch()
        job = JOB.replace("@NAMESPACE@", namespace).replace("@IMAGE@", TRAIN_IMAGE)
        (directory / "job.yaml").write_text(job + self.way.job)
        (directory / "train.py").write_text(TRAIN)
        self.objects = cluster.render(directory / "job.yaml", *self.way.args)
        for thing in self.objects:
            self.api.create(thing, namespace, fieldValidation="Strict")

    def finished(self) -> bool:
        found = self.api.get(*self.way.kind, "tiny", self.namespace)
        return condition_of(found, self.way.condition) == "True"

    def wait(self, condition, what: str):
        try:
            return self.api.wait(condition, what, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.cluster.describe(self.namespace)}") from None

    def release(self) -> None:
        self.held.unlink()

    def ranks(self) -> dict[int, int]:
        return living_ranks(self.namespace)

    def logs(self) -> dict[str, str]:
        """By pod; of a pod that has not started, nothing."""
        found = {}
        for pod in self.cluster.pods(self.namespace):
            name = pod["metadata"]["name"]
            try:
                found[name] = self.cluster.log(self.namespace, name)
            except ApiError:
                found[name] = ""
        return found

    def stepped(self, times: int) -> bool:
        logs = "".join(self.logs().values())
        return all(logs.count(f"rank {rank} stepped") >= times for rank in range(RANKS))

    def trained(self) -> bool:
        return "".join(self.logs().values()).count(TRAINED) == RANKS

    def remove(self) -> None:
        for thing in reversed(self.objects):
            self.api.delete(thing["apiVersion"], thing["kind"], thing["metadata"]["name"],
                            self.namespace, propagationPolicy="Background")
        try:
            self.wait(lambda: not self.left(), "everything of the job is removed")
        except AssertionError as error:
            raise AssertionError(f"left: {self.left()}\n{error}") from None

    def left(self) -> list[str]:
        """What is still there of the job, whoever made it."""
        kinds = [("v1", kind) for kind in ("Pod", "Service", "Secret", "ConfigMap")]
        kinds += [("batch/v1", "Job"), *{(t["apiVersion"], t["kind"]) for t in self.objects}]
        names = [f"{kind} {thing['metadata']['name']}" for version, kind in kinds
                 for thing in self.api.list(version, kind, self.namespace)]
        living = [f"rank {rank}" for rank in self.ranks()]
        return [name for name in names if "tiny" in name] + living


def queue(name: str, gpus: int) -> list[dict]:
    """A LocalQueue `queue` of Kueue on a quota of its own, all of it called `name`."""
    version = "kueue.x-k8s.io/v1beta2"
    quotas = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": str(gpus)}
    resources = [{"name": key, "nominalQuota": value} for key, value in quotas.items()]
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": {
            "namespaceSelector": {}, "resourceGroups": [{
                "coveredResources": list(quotas),
                "flavors": [{"name": name, "resources": resources}]}]}},
        {"apiVersion": version, "kind": "LocalQueue", "metadata": {"name": "queue"},
         "spec": {"clusterQueue": name}},
    ]
