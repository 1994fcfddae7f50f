"""`shanty run --on kubernetes` and its kin: started, followed, left, found again, removed."""

import base64
import json
import os
import re
import signal
import subprocess
import time

import pytest

LIMIT_S = 150
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
TRAIN = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(64, 8)
goal = data.sum(1, keepdim=True)
for step in range(20):
    optimizer.zero_grad()
    loss = ((model(data) - goal) ** 2).mean()
    loss.backward()
    optimizer.step()
    if step == 0: print(f"rank {dist.get_rank()} stepped", flush=True)
    while os.path.exists("/mnt/ckpt/wait"): time.sleep(0.05)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} trained to {loss.item():.6f}", flush=True)
dist.destroy_process_group()
"""
NEEDS = {"job": [], "pods": [], "jobset": ["jobset"], "pytorchjob": ["training-operator"],
         "trainjob": ["trainer"]}
KINDS = [("v1", "Pod"), ("v1", "Service"), ("v1", "Secret"), ("v1", "ConfigMap"),
         ("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
         ("kubeflow.org/v1", "PyTorchJob"), ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
         ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime")]
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

    def shanty(self, *args):
        return self.cluster.shanty(*args, "--on", "kubernetes", "-n", self.namespace,
                                   cwd=self.directory)

    def start(self, *args, kubeconfig=None):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig)}
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


@pytest.fixture
def on_cluster(cluster, namespace, tmp_path):
    made = []

    def make(**options):
        made.append(OnCluster(cluster, namespace, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("target", NEEDS)
def test_runs_to_its_end_and_leaves_nothing(cluster, on_cluster, target):
    cluster.need(*NEEDS[target])
    job = on_cluster(hold=True).start("--target", target)
    job.until(job.stepped, "both ranks step", True)
    token = job.token()
    job.held.unlink()
    job.ends(0)
    out, err = job.out(), job.err()
    assert out.count("of 2 trained to") == 2, job.describe()
    for rank in range(2):
        assert out.count(f"rank {rank} of 2 trained") == 1, job.describe()
    # The three questions of the first minute.
    assert "pods: 2 of 2 run, with 2 x nvidia.com/gpu in all, on " in err, job.describe()
    assert "environment: right on all 2 ranks of 2 nodes" in err, job.describe()
    # What the laptop shows, too: the agent's words and its report.
    assert re.search(r"2 ranks on 2 nodes", err), job.describe()
    assert "succeeded after" in out + err, job.describe()

    runs = list((job.claim / ".shanty" / "runs").iterdir())
    assert len(runs) == 1 and json.loads((runs[0] / "report.json").read_text())["outcome"] == (
        "succeeded")
    assert str(runs[0].name) in err
    listed = json.loads(job.shanty("ps", "--json").stdout)
    assert [(each["job"], each["state"]) for each in listed] == [("tiny", "succeeded")], listed
    if target != "pytorchjob":  # its operator removes pods that have ended
        assert job.shanty("logs", "tiny").stdout.count("of 2 trained to") == 2
    job.remove()
    assert json.loads((runs[0] / "report.json").read_text())["outcome"] == "succeeded"

    written = [path.read_bytes() for path in runs[0].rglob("*") if path.is_file()]
    assert token and token not in out + err
    assert not any(token.encode() in text for text in written)


def test_is_left_by_ctrl_c_and_found_again(on_cluster):
    job = on_cluster(hold=True).start()
    job.until(job.stepped, "both ranks step", True)
    [node_0] = [pod["metadata"]["name"] for pod in job.cluster.pods(job.namespace)
                if pod["metadata"]["name"].startswith("tiny-0")]
    job.until(lambda: '"ranks":[[0,' in job.cluster.log(job.namespace, node_0),
              "node 0 says what the ranks do", True)
    job.process.send_signal(signal.SIGINT)
    job.ends(130)
    assert "ranks {" not in job.err()
    assert f"shanty logs -f tiny --on kubernetes -n {job.namespace}" in job.err()
    assert all(pod["status"]["phase"] == "Running" for pod in job.cluster.pods(job.namespace))

    table = job.shanty("ps").stdout
    assert re.search(r"tiny +Job +running +2/2", table), table
    picture = job.shanty("top", "tiny", "--once").stdout
    assert "cpu-" in picture and "2 ranks on 2 nodes" in picture, picture
    # Rank by rank, as on a laptop.
    head = re.search(r"RANK +NODE +PID +PHASE +STEP +MS/STEP +DATA .* MEMORY +CPU", picture)
    assert head, picture
    rows = picture[head.end():].splitlines()[1:3]
    assert [row.split()[:2] for row in rows] == [["0", "0"], ["1", "1"]], picture
    assert "as node 0 said it" in picture, picture
    logs = job.shanty("logs", "tiny", "--grep", "stepped").stdout.splitlines()
    assert len(logs) == 2, logs
    logs = job.shanty("logs", "tiny", "--rank", "1", "--grep", "step").stdout.splitlines()
    assert logs == ["[rank 1] rank 1 stepped"], logs
    assert "ranks {" not in job.shanty("logs", "tiny").stdout
    none = job.shanty("logs", "tiny", "--rank", "7")
    assert none.returncode == 0 and not none.stdout and "have printed nothing" in none.stderr

    again = job.shanty("run", "job.yaml")
    assert again.returncode == 3 and "job tiny is there already" in again.stderr

    stopped = job.shanty("stop", "tiny")
    assert stopped.returncode == 0, stopped.stderr
    assert not [pod for pod in job.cluster.pods(job.namespace)
                if pod["status"]["phase"] == "Running"]
    assert job.api.get("batch/v1", "Job", "tiny", job.namespace)["spec"]["suspend"] is True
    assert [each["state"] for each in json.loads(job.shanty("ps", "--json").stdout)] == ["stopped"]
    job.remove()
    gone = job.shanty("logs", "tiny")
    assert gone.returncode == 3 and 'there is no job "tiny" in namespace' in gone.stderr


@pytest.mark.parametrize("target", ["job", "pods"])
def test_goes_on_when_a_pod_is_deleted(on_cluster, target):
    job = on_cluster(hold=True).start("--target", target)
    job.until(job.stepped, "both ranks step", True)
    second = next(pod for pod in job.cluster.pods(job.namespace)
                  if pod["metadata"]["name"].startswith("tiny-1"))
    job.api.delete("v1", "Pod", second["metadata"]["name"], job.namespace)
    job.until(lambda: job.stepped(2), "both ranks step again", True)
    assert "is the new node 1 of the job" in job.err(), job.describe()
    job.held.unlink()
    job.ends(0)
    assert job.out().count("of 2 trained to") == 2, job.describe()
    job.remove()


def test_returns_the_exit_code_of_the_job(on_cluster):
    job = on_cluster(train="import sys; print('no luck'); sys.exit(7)",
                     job=JOB.replace("max: 5", "max: 0"))
    job.start().ends(1)
    assert "no luck" in job.out() and "Job tiny failed" in job.err(), job.describe()
    job.remove()


def test_says_what_keeps_pods_from_starting(on_cluster):
    job = on_cluster(job=JOB.replace("gpus_per_node: 1", "gpus_per_node: 16"))
    job.start()
    job.until(lambda: re.search(r"no place yet: .*2 Insufficient nvidia.com/gpu", job.err()),
              "the reason is told", True)
    job.process.send_signal(signal.SIGINT)
    job.ends(130)
    listed = json.loads(job.shanty("ps", "--json").stdout)
    assert [each["state"] for each in listed] == ["pending"] and listed[0]["why"], listed
    assert listed[0]["why"] in job.err()
    job.remove()


def test_a_refused_object_leaves_nothing(on_cluster):
    job = on_cluster(job=JOB.replace("grace: 5s}", "grace: 5s}\nschedule: {priority: no-such}"))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
             "spec": {"hard": {"count/jobs.batch": "0"}}}
    job.api.create(quota, job.namespace)
    job.until(lambda: job.api.get("v1", "ResourceQuota", "none", job.namespace).get(
        "status", {}).get("hard"), "the quota is known")
    job.start().ends(3)
    assert "exceeded quota" in job.err(), job.err()
    assert not job.left()


def test_a_dry_run_stores_nothing(on_cluster):
    job = on_cluster()
    job.start("--dry-run").ends(0)
    assert "Job tiny would be accepted" in job.err(), job.err()
    assert not job.left()


def test_says_which_context_is_missing(cluster, on_cluster):
    job = on_cluster()
    done = cluster.shanty("ps", "--on", "kubernetes:elsewhere", cwd=job.directory)
    assert done.returncode == 3 and "elsewhere" in done.stderr
    done = cluster.shanty("ps", "--on", "slurm", cwd=job.directory)
    assert done.returncode == 2 and "expected kubernetes" in done.stderr
