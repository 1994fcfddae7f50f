"""The smallest objects by which each kind of cluster runs `shanty agent` on two nodes."""

from __future__ import annotations

from .cluster import SHANTY_IMAGE, TRAIN_IMAGE
from .operators import COSCHEDULER

NODES = 2
PORT = 29500


def template(master: str, container: str = "trainer", **spec) -> dict:
    """The pod: an init container brings the program, the user's image stays as it is."""
    mounts = [{"name": "shanty", "mountPath": "/opt/shanty"}, {"name": "code", "mountPath": "/code"},
              {"name": "token", "mountPath": "/etc/shanty", "readOnly": True},
              {"name": "hold", "mountPath": "/hold"}]
    return {
        "metadata": {"labels": {"app": "tiny"}},
        "spec": {
            "initContainers": [{
                "name": "shanty", "image": SHANTY_IMAGE, "volumeMounts": mounts[:1],
                "command": ["shanty", "agent", "--install", "/opt/shanty"]}],
            "containers": [{
                "name": container, "image": TRAIN_IMAGE, "volumeMounts": mounts,
                "command": ["/opt/shanty/shanty", "agent", "--master-addr", master,
                            "--master-port", str(PORT), "--", "/code/job.yaml"],
                "env": [{"name": "SHANTY_TOKEN_FILE", "value": "/etc/shanty/token"}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            "volumes": [{"name": "shanty", "emptyDir": {}},
                        {"name": "code", "configMap": {"name": "tiny"}},
                        {"name": "token", "secret": {"secretName": "tiny"}},
                        {"name": "hold", "persistentVolumeClaim": {"claimName": "hold"}}],
            "terminationGracePeriodSeconds": 20,
            **spec,
        },
    }


def service() -> dict:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tiny"},
            "spec": {"clusterIP": "None", "selector": {"app": "tiny"},
                     "publishNotReadyAddresses": True}}


def indexed(spec: dict) -> dict:
    return {"completionMode": "Indexed", "completions": NODES, "parallelism": NODES,
            "backoffLimit": 6, "template": spec}


def pods() -> list[dict]:
    made = []
    for index in range(NODES):
        pod = template("tiny-0.tiny", restartPolicy="OnFailure", subdomain="tiny",
                       hostname=f"tiny-{index}")
        pod["spec"]["containers"][0]["env"].append({"name": "SHANTY_NODE_RANK", "value": str(index)})
        pod["metadata"]["name"] = f"tiny-{index}"
        made.append({"apiVersion": "v1", "kind": "Pod", **pod})
    return [service(), *made]


def job() -> list[dict]:
    spec = template("tiny-0.tiny", restartPolicy="Never", subdomain="tiny")
    return [service(), {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "tiny"},
                        "spec": indexed(spec)}]


def jobset() -> list[dict]:
    spec = template("tiny-workers-0-0.tiny", restartPolicy="Never")
    return [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "tiny"},
             "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1,
                                          "template": {"spec": indexed(spec)}}]}}]


def pytorchjob() -> list[dict]:
    replica = {"replicas": 1, "restartPolicy": "OnFailure",
               "template": template("tiny-master-0", "pytorch")}
    return [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "tiny"},
             "spec": {"runPolicy": {"cleanPodPolicy": "Running"},
                      "pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}}]


def trainjob() -> list[dict]:
    spec = template("tiny-node-0-0.tiny", "node", restartPolicy="Never")
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "metadata": {"name": "tiny"},
        "spec": {"mlPolicy": {"numNodes": NODES, "torch": {}}, "template": {"spec": {
            "replicatedJobs": [{"name": "node", "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": spec}}}]}}}}
    train = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
             "metadata": {"name": "tiny"},
             "spec": {"runtimeRef": {"name": "tiny", "kind": "TrainingRuntime"},
                      "trainer": {"numNodes": NODES}}}
    return [runtime, train]


def volcano() -> list[dict]:
    tasks = {"name": "node", "replicas": NODES,
             "template": template("tiny-node-0.tiny", restartPolicy="OnFailure")}
    return [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "tiny"},
             "spec": {"minAvailable": NODES, "schedulerName": "volcano", "tasks": [tasks],
                      "plugins": {"svc": ["--publish-not-ready-addresses=true"], "env": []},
                      "policies": [{"event": "PodEvicted", "action": "RestartTask"}]}}]


def coscheduling() -> list[dict]:
    """Plain pods in a PodGroup, bound all together by the coscheduling plugin's scheduler."""
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
             "metadata": {"name": "tiny"}, "spec": {"minMember": NODES}}
    objects = pods()
    for pod in objects[1:]:
        pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "tiny"
        pod["spec"]["schedulerName"] = COSCHEDULER
    return [group, *objects]


def kueue() -> list[dict]:
    """An indexed Job that Kueue admits: its label names the queue."""
    objects = job()
    objects[1]["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    return objects


def queue(name: str, gpus: int) -> list[dict]:
    """A LocalQueue `queue` on a quota of its own, all of it called `name`."""
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
