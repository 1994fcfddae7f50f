"""`shanty run --on kubernetes` and its kin: started, followed, left, found again, removed."""

import json
import re
import signal

import pytest

from .on_cluster import JOB

# target: its operators, and what starts the pods together
TARGETS = {
    "job": ([], "native"), "pods": ([], "native"), "jobset": (["jobset"], "native"),
    "pytorchjob": (["training-operator"], "none"), "trainjob": (["trainer"], "none"),
    "mpijob": (["mpi-operator"], "none"), "volcano": (["volcano"], "volcano"),
    "rayjob": (["kuberay"], "none"),
}
RAY_JOB = JOB.replace("ml/train:1", "ml/ray:1")
# Their pods go with the end of the job.
KEEP_NO_PODS = {"pytorchjob", "rayjob"}


@pytest.mark.parametrize("target", TARGETS)
def test_runs_to_its_end_and_leaves_nothing(cluster, on_cluster, target):
    """All of it with the rights that `shanty render --rbac` prints, and no others."""
    needs, gang = TARGETS[target]
    cluster.need(*needs)
    if target == "rayjob":
        cluster.need_ray()
    job = on_cluster(hold=True, job=RAY_JOB if target == "rayjob" else JOB)
    args = ["--target", target, "--gang", gang]
    job.with_least_rights(*args)
    job.start(*args)
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
    if target not in KEEP_NO_PODS:
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


def ray_job(cluster, on_cluster):
    """A RayJob both of whose ranks step, and wait."""
    cluster.need_ray()
    job = on_cluster(hold=True, job=RAY_JOB).start("--target", "rayjob", "--gang", "none")
    job.until(job.stepped, "both ranks step", True)
    return job


def ray_workers(job):
    return [pod for pod in job.cluster.pods(job.namespace)
            if pod["metadata"]["labels"].get("ray.io/node-type") == "worker"]


def test_goes_on_when_a_pod_of_ray_is_deleted_and_is_removed_while_it_runs(cluster, on_cluster):
    job = ray_job(cluster, on_cluster)
    before = {pod["metadata"]["uid"] for pod in ray_workers(job)}
    # Node 0, where all meet: the next one has another address.
    names = [pod["metadata"]["name"] for pod in ray_workers(job)]
    [node_0] = [name for name in names
                if "generation 1" in job.cluster.log(job.namespace, name)]
    job.api.delete("v1", "Pod", node_0, job.namespace)
    job.until(lambda: job.stepped(2), "both ranks step again", True)
    assert {pod["metadata"]["uid"] for pod in ray_workers(job)} - before, job.describe()
    job.process.send_signal(signal.SIGINT)
    job.ends(130)
    job.remove()


def test_stops_a_job_of_ray(cluster, on_cluster):
    job = ray_job(cluster, on_cluster)
    job.process.send_signal(signal.SIGINT)
    job.ends(130)
    # What Ray says of itself is not among what the ranks say.
    logs = job.shanty("logs", "tiny").stdout.splitlines()
    assert "[rank 1] rank 1 stepped" in logs, logs
    for said in (job.out().splitlines(), logs):
        assert not [line for line in said if not line.startswith(("[rank ", "shanty "))], said
    stopped = job.shanty("stop", "tiny")
    assert stopped.returncode == 0, stopped.stderr
    job.until(lambda: not [pod for pod in job.cluster.pods(job.namespace)
                           if pod["status"]["phase"] == "Running"], "no pod runs")
    assert [each["state"] for each in json.loads(job.shanty("ps", "--json").stdout)] == ["stopped"]
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
    runner = job.with_least_rights("--gang", "none")
    job.start("--gang", "none").ends(3)
    assert "exceeded quota" in job.err(), job.err()
    assert not job.left()
    assert {right for right in runner.granted if right[2] == "delete"} - runner.used() == {
        ("", "pods", "delete"), ("batch", "jobs", "delete")}


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
