"""A cluster for tests: a control plane, and on demand operators, fake nodes and nodes that work."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .api import Api, ApiError
from .control_plane import API_PORT, ControlPlane
from .fake_nodes import FakeNodes
from .operators import Operators, programs_of
from .programs import Built
from .sandbox import API_ADDRESS

NODES = 2
FIRST_NODE_ADDRESS = "10.244.255.{}"
TRAIN_IMAGE = "registry.local/ml/train:1"
HERE = Path(__file__).resolve().parent


class Cluster:
    def __init__(self, built: Built, directory: Path, root: Path):
        self.built, self.directory, self.root = built, directory, root
        self.plane = ControlPlane(built, directory)
        self.api: Api = self.plane.api
        self.operators = Operators(self.plane)
        self.kubeconfig = self.plane.kubeconfig
        self.counter = itertools.count(1)
        self.working = False

    def close(self) -> None:
        self.plane.close()

    def need(self, *names: str) -> None:
        """Starts operators that are not running yet; skips the test when one is not built."""
        for name in names:
            missing = self.built.missing(programs_of(name))
            if missing:
                pytest.skip(missing)
            self.operators.start(name)

    def need_nodes(self) -> None:
        """Nodes on which pods really run: CPU nodes that say they have GPUs."""
        if self.working:
            return
        pki = self.plane.pki
        settings = {
            "api": {"host": API_ADDRESS, "port": API_PORT, "ca": str(pki.crt("ca")),
                    "cert": str(pki.crt("admin")), "key": str(pki.key("admin"))},
            "directory": str(self.directory / "kubelet"),
            "serving": {"cert": str(pki.crt("kubelet")), "key": str(pki.key("kubelet"))},
            "images": self.images(),
            "nodes": [self.node(index) for index in range(NODES)],
        }
        (self.directory / "kubelet").mkdir()
        path = self.directory / "kubelet.json"
        path.write_text(json.dumps(settings))
        kubelet = self.plane.start_kubelet(path)
        kubelet.wait_ready(lambda: " ready\n" in kubelet.log.read_text())
        self.working = True

    def node(self, index: int) -> dict:
        return {
            "name": f"cpu-{index}", "ip": FIRST_NODE_ADDRESS.format(index + 1),
            "labels": {"nvidia.com/gpu.present": "true", "topology.kubernetes.io/zone": "zone-a"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8",
                            "ephemeral-storage": "100Gi", "rdma/hca": "8"},
        }

    def images(self) -> dict:
        """What an image name stands for (kubelet/images.py)."""
        python = sorted({sys.prefix, sys.base_prefix})
        binaries = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        program = self.directory / "image" / "shanty"
        program.parent.mkdir(parents=True)
        shutil.copy2(self.root / "build" / "shanty", program)
        train = {"binds": python, "env": {"PATH": binaries, "OMP_NUM_THREADS": "1"}, "user": 0}
        return {
            r"registry\.local/ml/ray:.*": self.ray_image(train),
            r"registry\.local/ml/.*": train,
            r"(.*/)?shanty(:.*)?": {"root": str(self.directory / "image")},
            r"(docker\.io/)?(library/)?(busybox|alpine)(:.*)?": {
                "root": str(HERE / "images/alpine")},
        }

    def ray_image(self, train: dict) -> dict:
        """The one for training, with Ray, and `ray` where every shell finds it."""
        root = self.directory / "ray-image"
        program = root / "usr" / "local" / "bin" / "ray"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ray.scripts.scripts "$@"\n')
        program.chmod(0o755)
        ray = str(self.built.ray)
        binds = [*train["binds"], *([ray] if self.built.ray.exists() else [])]
        env = {**train["env"], "PYTHONPATH": ray, "RAY_USAGE_STATS_ENABLED": "0"}
        # Ray ends itself where a node of it has not started within 30 s.
        return {**train, "root": str(root), "binds": binds, "env": env, "nice": -10}

    def need_ray(self) -> None:
        """Pods with Ray in them, which KubeRay's jobs need to run."""
        if missing := self.built.missing_ray():
            pytest.skip(missing)
        self.need("kuberay")

    def fake_nodes(self, count: int) -> FakeNodes:
        return FakeNodes(self.plane, count)

    def new_namespace(self, **labels: str) -> str:
        name = f"test-{next(self.counter)}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace",
                         "metadata": {"name": name, "labels": labels}})
        self.api.wait(lambda: self.api.get("v1", "ServiceAccount", "default", name),
                      f"the default service account of {name} exists")
        return name

    def drop_namespace(self, name: str) -> None:
        """Removes it with all that is in it; nobody waits for that."""
        self.api.delete("v1", "Namespace", name)

    def make_claim(self, namespace: str, name: str, mode: str = "ReadWriteMany",
                   node: str = "") -> None:
        """A bound PersistentVolumeClaim; the kubelet keeps a directory for it. `node`: the only one
        from which the volume is reached."""
        reach = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        where = {"nodeAffinity": {"required": {
            "nodeSelectorTerms": [{"matchExpressions": [reach]}]}}} if node else {}
        volume = f"{namespace}-{name}"
        size = {"storage": "1Gi"}
        self.api.create({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"capacity": size, "accessModes": [mode], "storageClassName": "", **where,
                     "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"namespace": namespace, "name": name},
                     "nfs": {"server": "storage.test", "path": f"/{volume}"}}})
        self.api.create({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": [mode], "storageClassName": "", "volumeName": volume,
                     "resources": {"requests": size}}}, namespace)

    def claim_directory(self, namespace: str, name: str) -> Path:
        path = self.directory / "kubelet" / "claims" / namespace / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def shanty(self, *args, env: dict | None = None, **options) -> subprocess.CompletedProcess:
        """Runs the real binary on the cluster's network."""
        return subprocess.run(
            [str(self.root / "build" / "shanty"), *map(str, args)], capture_output=True, text=True,
            errors="replace", timeout=300, **options,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), **(env or {})})

    def render(self, path: Path, *args: str) -> list[dict]:
        """The objects that `shanty render` makes of a job file."""
        done = self.shanty("render", path.name, *args, cwd=path.parent)
        assert done.returncode == 0, done.stderr
        return self.plane.yaml(done.stdout)

    def refused(self, thing: dict, namespace: str) -> str:
        """Why the server would not take this object; empty when it would."""
        try:
            self.api.create(thing, namespace, dryRun="All", fieldValidation="Strict")
        except ApiError as error:
            return str(error)
        return ""

    def pods(self, namespace: str, **query) -> list[dict]:
        return self.api.list("v1", "Pod", namespace, **query)

    def log(self, namespace: str, pod: str, **query) -> str:
        return self.api.text(self.api.path("v1", "Pod", namespace, pod, "log"), **query)

    def describe(self, namespace: str) -> str:
        """For a test that failed: pods, events and logs of a namespace."""
        lines = []
        for pod in self.pods(namespace):
            name, status = pod["metadata"]["name"], pod["status"]
            lines.append(f"pod {name}: {status.get('phase')} {json.dumps(status)[:2000]}")
            for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                try:
                    text = self.log(namespace, name, container=container["name"], tailLines=40)
                except ApiError as error:
                    text = error.message
                lines.append(f"--- log of {name}/{container['name']}\n{text}")
        for event in self.api.list("v1", "Event", namespace):
            subject = event["involvedObject"]
            lines.append(f"event {subject['kind']} {subject['name']}: {event['reason']}: "
                         f"{event['message']}")
        return "\n".join(lines)
