"""The life of one pod on one of the tests' nodes."""

from __future__ import annotations

import shutil
import signal
import threading
import time

from ..api import STRATEGIC, ApiError
from ..sandbox import GATEWAY
from .containers import Container, now
from .environment import Environment, NotYet
from .network import PodNetwork
from .volumes import Volumes

POLL_S = 0.05
RETRY_S = 0.5
HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


class Pod(threading.Thread):
    """Runs the pod from binding to removal, in a thread of its own.

    All its processes are children of this thread and end with it.
    """

    def __init__(self, kubelet, pod: dict):
        super().__init__(daemon=True, name=f"pod {pod['metadata']['name']}")
        self.kubelet, self.api = kubelet, kubelet.api
        self.pod = pod
        self.meta, self.spec = pod["metadata"], pod["spec"]
        self.node = kubelet.nodes[self.spec["nodeName"]]
        self.directory = kubelet.directory / "pods" / self.meta["uid"]
        self.deleted = threading.Event()
        self.grace_s = self.spec.get("terminationGracePeriodSeconds", 30)
        self.told: dict | None = None
        self.network: PodNetwork | None = None
        self.volumes: Volumes | None = None
        self.start_time = now()
        self.conditions: dict[str, tuple] = {}  # value and since when
        self.init: list[Container] = []
        self.main: list[Container] = []

    # From the watch's thread

    def changed(self, pod: dict) -> None:
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self.grace_s = pod["metadata"].get("deletionGracePeriodSeconds", self.grace_s)
            self.deleted.set()

    def gone(self) -> None:
        """The object is no more: nobody waits for a graceful end."""
        self.grace_s = 0
        self.deleted.set()

    def container(self, name: str) -> Container | None:
        return next((c for c in self.init + self.main if c.name == name), None)

    # The pod's own thread

    def run(self) -> None:
        try:
            self.live()
        except Exception as error:  # this pod is lost, the others are not
            self.kubelet.say(f"{self.meta['name']}: {type(error).__name__}: {error}")
            self.event("Warning", "FailedKubelet", str(error))
            raise
        finally:
            self.release()
            self.kubelet.forget(self)

    def live(self) -> None:
        self.prepare()
        try:
            if self.initialize():
                self.work()
        finally:
            self.end_containers()
        self.tell(self.final_phase())
        self.release()
        self.deleted.wait()
        self.api_delete()

    def prepare(self) -> None:
        self.directory.mkdir(parents=True)
        hostname = self.spec.get("hostname") or self.meta["name"]
        if self.spec.get("hostNetwork"):
            self.address, self.sandbox = self.node["ip"], self.node["sandbox"]
            hostname = self.node["name"]
        else:
            self.address = self.kubelet.addresses.take()
            self.network = PodNetwork(hostname[:63], self.address)
            self.sandbox = self.network.pid
        addresses = {"status.podIP": self.address, "status.podIPs": self.address,
                     "status.hostIP": self.node["ip"], "status.hostIPs": self.node["ip"],
                     "hostname": hostname}
        self.environment = Environment(self.api, self.pod, addresses, self.node["allocatable"])
        self.volumes = Volumes(self.environment, self.directory / "volumes",
                               self.kubelet.directory / "claims", self.kubelet.images)
        self.files = self.write_files(hostname)
        logs = self.directory / "containers"
        self.init = [Container(spec, logs, True) for spec in self.spec.get("initContainers", [])]
        self.main = [Container(spec, logs, False) for spec in self.spec["containers"]]
        self.until_there(self.volumes.make)

    def write_files(self, hostname: str) -> list[dict]:
        """/etc/hosts, /etc/hostname and /etc/resolv.conf, as mounts."""
        names = hostname
        if self.spec.get("subdomain"):
            domain = f"{self.spec['subdomain']}.{self.meta['namespace']}.svc.cluster.local"
            names = f"{hostname}.{domain} {hostname}"
        hosts = HOSTS + f"{self.address}\t{names}\n"
        for alias in self.spec.get("hostAliases", []):
            hosts += f"{alias['ip']}\t{' '.join(alias['hostnames'])}\n"
        written = {"hosts": hosts, "hostname": hostname + "\n", "resolv.conf": self.resolver()}
        for name, text in written.items():
            (self.directory / name).write_text(text)
        return [{"source": str(self.directory / name), "target": f"/etc/{name}"}
                for name in written]

    def resolver(self) -> str:
        """A hostNetwork pod without ClusterFirstWithHostNet gets the node's resolver: none here."""
        policy = self.spec.get("dnsPolicy", "ClusterFirst")
        by_cluster = policy == "ClusterFirstWithHostNet" or (
            policy == "ClusterFirst" and not self.spec.get("hostNetwork"))
        if not by_cluster:
            return "nameserver 127.0.0.1\n"
        search = f"{self.meta['namespace']}.svc.cluster.local svc.cluster.local cluster.local"
        return f"nameserver {GATEWAY}\nsearch {search}\noptions ndots:5\n"

    def until_there(self, action) -> bool:
        """Retries what refers to something that may still come; False when the pod is deleted."""
        last = ""
        while not self.deleted.is_set():
            try:
                action()
                return True
            except NotYet as reason:
                if str(reason) != last:
                    last = str(reason)
                    self.event("Warning", "FailedMount" if reason.reason == "ContainerCreating"
                               else "Failed", last)
                for container in self.init + self.main:
                    if container.process is None and container.ended is None:
                        container.waiting = (reason.reason, last)
                self.tell("Pending")
                self.deleted.wait(RETRY_S)
        return False

    def start_container(self, container: Container) -> bool:
        def start():
            container.start(self.pod, self.environment, self.volumes.paths, self.files,
                            self.kubelet.images, self.sandbox)

        if not self.until_there(start):
            return False
        image = container.spec["image"]
        self.event("Normal", "Pulled", f'Container image "{image}" already present on machine')
        self.event("Normal", "Started", f"Started container {container.name}")
        return True

    def initialize(self) -> bool:
        """Runs the init containers one after the other; False when the pod ends before its work."""
        for container in self.init:
            while not self.deleted.is_set():
                if not self.start_container(container):
                    return False
                self.tell("Pending")
                if container.sidecar:
                    break
                while container.running and not self.deleted.wait(POLL_S):
                    pass
                if not container.reap() or container.succeeded:
                    break
                if self.spec.get("restartPolicy", "Always") == "Never":
                    return False
                container.plan_restart()
                self.tell("Pending")
                self.deleted.wait(max(0.0, container.next_start - time.monotonic()))
        return not self.deleted.is_set()

    def work(self) -> None:
        for container in self.main:
            container.waiting = ("ContainerCreating", "")
        for container in self.main:
            if not self.start_container(container):
                return
        self.tell("Running")
        policy = self.spec.get("restartPolicy", "Always")
        while not self.deleted.wait(POLL_S):
            changed = False
            for container in self.main + [c for c in self.init if c.sidecar]:
                if container.reap():
                    changed = True
                    if self.restartable(container, policy):
                        container.plan_restart()
                        self.event("Warning", "BackOff", f"restarting container {container.name}")
                elif (container.process is None and self.restartable(container, policy)
                      and time.monotonic() >= container.next_start):
                    changed = self.start_container(container)
            if changed:
                self.tell("Running")
            if not any(c.running or self.restartable(c, policy) for c in self.main):
                return

    @staticmethod
    def restartable(container: Container, policy: str) -> bool:
        if container.ended is None:
            return False
        return container.sidecar or policy == "Always" or (
            policy == "OnFailure" and container.ended["exitCode"] != 0)

    def end_containers(self) -> None:
        """SIGTERM, the grace period, SIGKILL."""
        living = [c for c in self.init + self.main if c.running]
        if self.deleted.is_set() and living:
            self.event("Normal", "Killing", f"Stopping container {living[0].name}")
        for container in living:
            container.signal(signal.SIGTERM)
        asked = time.monotonic()
        while any(c.running for c in living) and time.monotonic() < asked + self.grace_s:
            time.sleep(POLL_S)
        for container in living:
            container.kill()
            if container.process is not None:
                container.process.wait()
        for container in self.init + self.main:
            container.reap()

    def final_phase(self) -> str:
        return "Succeeded" if all(c.succeeded for c in self.main) else "Failed"

    def release(self) -> None:
        if self.network:
            self.network.close()
            self.kubelet.addresses.give_back(self.address)
            self.network = None
        if self.volumes:
            self.volumes.remove()
            self.volumes = None

    # To the API server

    def tell(self, phase: str) -> None:
        done = phase in ("Succeeded", "Failed")
        running = phase == "Running"
        initialized = all(c.succeeded or (c.sidecar and c.process) for c in self.init)
        ready = running and all(c.running for c in self.main)
        reason = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
        policy = self.spec.get("restartPolicy", "Always")
        status = {
            "phase": phase, "hostIP": self.node["ip"], "hostIPs": [{"ip": self.node["ip"]}],
            "podIP": self.address, "podIPs": [{"ip": self.address}], "startTime": self.start_time,
            "conditions": [
                self.condition("PodReadyToStartContainers", not done),
                self.condition("Initialized", initialized),
                self.condition("Ready", ready, **reason),
                self.condition("ContainersReady", ready, **reason),
            ],
            "initContainerStatuses": [
                c.status(done or c.succeeded or (policy == "Never" and not c.sidecar))
                for c in self.init],
            "containerStatuses": [
                c.status(done or not self.restartable(c, policy)) for c in self.main],
        }
        if status == self.told:
            return
        self.patch_status(status)
        self.told = status

    def condition(self, kind: str, value: bool, **more) -> dict:
        if self.conditions.get(kind, ("", ""))[0] != value:
            self.conditions[kind] = (value, now())
        return {"type": kind, "status": "True" if value else "False",
                "lastTransitionTime": self.conditions[kind][1], **more}

    def patch_status(self, status: dict) -> None:
        path = self.api.path("v1", "Pod", self.meta["namespace"], self.meta["name"], "status")
        body = {"metadata": {"uid": self.meta["uid"]}, "status": status}
        for _ in range(3):
            try:
                self.api.request("PATCH", path, body, kind=STRATEGIC)
                return
            except ApiError as error:
                if error.code in (404, 409, 422):  # gone, or another pod has the name now
                    self.kubelet.say(f"{self.meta['name']}: status: {error}")
                    return
                time.sleep(RETRY_S)

    def api_delete(self) -> None:
        self.api.delete("v1", "Pod", self.meta["name"], self.meta["namespace"],
                        gracePeriodSeconds=0, preconditions={"uid": self.meta["uid"]})

    def event(self, kind: str, reason: str, message: str) -> None:
        stamp = now()
        body = {
            "apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": message,
            "metadata": {"generateName": self.meta["name"][:200] + ".",
                         "namespace": self.meta["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": self.meta["name"],
                               "namespace": self.meta["namespace"], "uid": self.meta["uid"]},
            "source": {"component": "kubelet", "host": self.node["name"]},
            "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
        }
        try:
            self.api.create(body, self.meta["namespace"])
        except (ApiError, OSError):
            pass  # a namespace on its way out takes no events

    def remove_files(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
