"""python -m cluster.kubelet SETTINGS.json: the kubelets of all the tests' nodes, in one process.

SETTINGS: api {host, port, ca, cert, key}, directory, serving {cert, key}, images {pattern: recipe},
nodes [{name, ip, labels, taints, allocatable}].
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from ..api import MERGE, Api, ApiError, Gone
from ..sandbox import GATEWAY
from .containers import now
from .dns import Dns
from .network import Addresses, PodNetwork
from .pods import Pod
from .server import LogServer

PORT = 10250
LEASE_S = 10
LEASE_DURATION_S = 40
FIRST_POD_ADDRESS = "10.244.1.1"
RETRY_S = 0.3


class Kubelet:
    def __init__(self, settings: dict):
        server = settings["api"]
        self.api = Api(server["host"], server["port"], server["ca"], cert=server["cert"],
                       key=server["key"])
        self.directory = Path(settings["directory"])
        self.images = settings["images"]
        self.addresses = Addresses(FIRST_POD_ADDRESS)
        self.nodes = {node["name"]: node for node in settings["nodes"]}
        self.pods: dict[str, Pod] = {}
        self.lock = threading.Lock()
        self.networks: list[PodNetwork] = []
        self.servers = [
            Dns(self.api, GATEWAY),
            LogServer(self, GATEWAY, PORT, settings["serving"]["cert"], settings["serving"]["key"]),
        ]

    def say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def run(self) -> None:
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        for node in self.nodes.values():
            network = PodNetwork(node["name"], node["ip"])
            self.networks.append(network)
            node["sandbox"] = network.pid
            self.register(node)
        threading.Thread(target=self.keep_leases, daemon=True).start()
        self.say("ready")
        while True:
            try:
                self.follow_pods()
            except (ApiError, OSError, Gone, ValueError) as error:
                self.say(f"watch: {error}")
                time.sleep(RETRY_S)

    # Nodes

    def register(self, node: dict) -> None:
        name = node["name"]
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                  "kubernetes.io/arch": "amd64", **node.get("labels", {})}
        self.api.delete("v1", "Node", name)
        self.api.create({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": node.get("taints", [])},
        })
        status = {
            "capacity": node["allocatable"], "allocatable": node["allocatable"],
            "addresses": [{"type": "InternalIP", "address": node["ip"]},
                          {"type": "ExternalIP", "address": GATEWAY},
                          {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
                 "lastHeartbeatTime": now(), "lastTransitionTime": now()},
                *({"type": kind, "status": "False", "reason": "Enough", "message": "",
                   "lastHeartbeatTime": now(), "lastTransitionTime": now()}
                  for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")),
            ],
        }
        self.api.request("PATCH", self.api.path("v1", "Node", name=name, sub="status"),
                         {"status": status}, kind=MERGE)
        self.lease(name)

    def lease(self, name: str) -> None:
        self.api.apply({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_S,
                     "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())},
        })

    def keep_leases(self) -> None:
        while True:
            for name in self.nodes:
                try:
                    self.lease(name)
                except (ApiError, OSError) as error:
                    self.say(f"lease of {name}: {error}")
            time.sleep(LEASE_S)

    # Pods

    def follow_pods(self) -> None:
        listed = self.api.request("GET", "/api/v1/pods")
        present = {pod["metadata"]["uid"] for pod in listed["items"]}
        for uid, pod in list(self.pods.items()):
            if uid not in present:
                pod.gone()
        for pod in listed["items"]:
            self.seen("MODIFIED", pod)
        version = listed["metadata"]["resourceVersion"]
        while True:
            for kind, pod in self.api.watch("/api/v1/pods", version):
                version = pod["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self.seen(kind, pod)

    def seen(self, kind: str, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        known = self.pods.get(uid)
        if known:
            if kind == "DELETED":
                known.gone()
            else:
                known.changed(pod)
        elif kind != "DELETED" and pod["spec"].get("nodeName") in self.nodes:
            self.take(pod)

    def take(self, pod: dict) -> None:
        meta = pod["metadata"]
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            if meta.get("deletionTimestamp"):
                self.api.delete("v1", "Pod", meta["name"], meta["namespace"], gracePeriodSeconds=0)
            return
        taken = Pod(self, pod)
        with self.lock:
            self.pods[meta["uid"]] = taken
        taken.changed(pod)
        taken.start()

    def find(self, namespace: str, name: str) -> Pod | None:
        with self.lock:
            found = [pod for pod in self.pods.values()
                     if (pod.meta["namespace"], pod.meta["name"]) == (namespace, name)]
        return found[-1] if found else None

    def forget(self, pod: Pod) -> None:
        with self.lock:
            self.pods.pop(pod.meta["uid"], None)
        pod.remove_files()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Kubelet(json.loads(Path(sys.argv[1]).read_text())).run()


if __name__ == "__main__":
    main()
