"""A job that `shanty run --on kubernetes` starts and follows, in a namespace of its own."""

from __future__ import annotations

import base64
import os
import subprocess
import time

import pytest

from . import training
from .runner import Runner

LIMIT_S = 300
JOB = """
job: tiny
run: {script: train.py, python: python, image: registry.local/ml/train:1, env: {TEST_MARK: "@NAMESPACE@"}}
nodes: 2
gpus_per_node: 1
checkpoint: {claim: ckpt, mount: /mnt/ckpt}
restart: {max: 5, window: 10m, grace: 5s}
pod: {shanty_image: "registry.local/shanty:test", cpus: 1, memory: 2Gi}
loader: {workers: 0, shm: 64Mi}
"""
TRAIN = training.TRAIN.replace("/hold/", "/mnt/ckpt/")
KINDS = [("v1", "Pod"), ("v1", "Service"), ("v1", "Secret"), ("v1", "ConfigMap"),
         ("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
         ("kubeflow.org/v1", "PyTorchJob"), ("kubeflow.org/v2beta1", "MPIJob"),
         ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
         ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"),
         ("batch.volcano.sh/v1alpha1", "Job"), ("scheduling.volcano.sh/v1beta1", "PodGroup"),
         ("scheduling.x-k8s.io/v1alpha1", "PodGroup"), ("scheduling.k8s.io/v1beta1", "PodGroup"),
         ("scheduling.k8s.io/v1beta1", "Workload"), ("ray.io/v1", "RayJob"),
         ("ray.io/v1", "RayCluster")]
# What every namespace has.
ALWAYS = {"kube-root-ca.crt"}


class OnCluster:
    """A job file in a namespace of its own, and shanty's verbs on it."""

    def __init__(self, cluster, namespace, tmp_path, train=TRAIN, job=JOB, hold=False):
        cluster.need_nodes()
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace
        cluster.make_claim(namespace, "ckpt")
        self.claim = cluster.claim_directory(namespace, "ckpt")
        os.chmod(self.claim, 0o777)
        self.held = self.claim / "wait"
        if hold:
            self.held.touch()
        self.directory = tmp_path
        (tmp_path / "train.py").write_text(train)
        (tmp_path / "job.yaml").write_text(job.replace("@NAMESPACE@", namespace))
        self.stdout, self.stderr = tmp_path / "stdout", tmp_path / "stderr"
        self.process = None
        self.kubeconfig = cluster.kubeconfig

    def with_least_rights(self, *args):
        """From here on, all that shanty does is done as the account that --rbac prints."""
        runner = Runner(self.cluster, self.namespace, self.directory / "job.yaml", *args)
        self.kubeconfig = runner.kubeconfig(self.directory / "kubeconfig")
        return runner

    def shanty(self, *args):
        return self.cluster.shanty(*args, "--on", "kubernetes", "-n", self.namespace,
                                   env={"KUBECONFIG": str(self.kubeconfig)}, cwd=self.directory)

    def start(self, *args, kubeconfig=None):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig)}
        with open(self.stdout, "wb") as out, open(self.stderr, "wb") as err:
            self.process = subprocess.Popen(
                [str(self.cluster.root / "build" / "shanty"), "run", "job.yaml", "--on",
                 "kubernetes", "-n", self.namespace, *args],
                cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err)
        return self

    def out(self):
        return self.stdout.read_text(errors="replace")

    def err(self):
        return self.stderr.read_text(errors="replace")

    def until(self, condition, what, wants_it=False):
        """`wants_it`: in vain once the command has ended."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            ended = self.process and self.process.poll() is not None
            if condition():
                return
            if ended and wants_it:
                break
            time.sleep(0.1)
        pytest.fail(f"{what}: did not happen within {LIMIT_S} s\n{self.describe()}")

    def ends(self, code):
        try:
            ended = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            ended = None
        assert ended == code, self.describe()

    def describe(self):
        return (f"--- stdout\n{self.out()[-4000:]}\n--- stderr\n{self.err()[-6000:]}\n"
                f"{self.cluster.describe(self.namespace)}")

    def stepped(self, times=1):
        return all(self.out().count(f"rank {rank} stepped") >= times for rank in range(2))

    def token(self):
        secret = self.api.get("v1", "Secret", "tiny-token", self.namespace)
        return base64.b64decode(secret["data"]["token"]).decode()

    def left(self):
        found = []
        for api_version, kind in KINDS:
            if not self.api.serves(api_version, kind):
                continue
            for thing in self.api.list(api_version, kind, self.namespace):
                if thing["metadata"]["name"] not in ALWAYS:
                    found.append(f"{kind} {thing['metadata']['name']}")
        return found

    def remove(self):
        removed = self.shanty("rm", "tiny")
        assert removed.returncode == 0, removed.stderr + self.describe()
        # Operators take what they made themselves away a moment later.
        self.until(lambda: not self.left(), "nothing is left")

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
