"""`shanty render`: what it writes for ten jobs, checked against the schemas of the cluster's kinds.

The golden files under tests/render/golden are made anew by

    RENDER_UPDATE=1 build/venv/bin/python -m pytest -q tests/test_render.py -k golden
"""

import functools
import itertools
import os
import re
import subprocess

import pytest
import yaml

from conftest import ROOT, shanty
from render.schemas import SHARED, problems_of

JOBS = ROOT / "tests" / "render" / "jobs"
GOLDEN = ROOT / "tests" / "render" / "golden"
TOKEN = "golden-token-golden-token-golden-token"
KUBERNETES = ["pods", "job", "jobset", "pytorchjob", "trainjob", "volcano", "mpijob", "rayjob"]
TARGETS = KUBERNETES + ["slurm", "dockerfile"]
NAMES = sorted(path.stem for path in JOBS.glob("*.yaml"))
TRAINERS = ["2.0", "2.1", "2.2", "2.3"]


@pytest.fixture(scope="session")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture(scope="session")
def render(token_file):
    """render(job, target, *flags) -> the text on stdout."""

    @functools.cache
    def run(job, target, *flags):
        result = shanty("render", JOBS / f"{job}.yaml", "--target", target,
                        "--token-file", token_file, *flags)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def objects(text):
    return [document for document in yaml.safe_load_all(text) if document]


def find_pods(value):
    """All pod templates and pods in an object, as {metadata, spec}."""
    if isinstance(value, list):
        for item in value:
            yield from find_pods(item)
    elif isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield value
            return
        for item in value.values():
            yield from find_pods(item)


def pods(text):
    return list(find_pods(objects(text)))


# Each target for the usual job, and one target for each of the others.
GOLDENS = [("two-nodes", target) for target in TARGETS] + [
    ("one-gpu", "job"), ("cpu", "jobset"), ("mig", "trainjob"), ("host-network", "pytorchjob"),
    ("rdma", "job"), ("git", "volcano"), ("module", "mpijob"), ("files", "pods"),
    ("long-name", "trainjob"),
]


@pytest.mark.parametrize("job,target", GOLDENS)
def test_golden_file(render, job, target):
    text = render(job, target)
    path = GOLDEN / f"{job}.{target}"
    if os.environ.get("RENDER_UPDATE"):
        path.write_text(text)
    assert text == path.read_text(), f"see the docstring of this file to make {path.name} anew"


@pytest.mark.parametrize("job,target", GOLDENS)
def test_the_same_input_gives_the_same_bytes(render, token_file, job, target):
    again = shanty("render", JOBS / f"{job}.yaml", "-t", target, "--token-file", token_file)
    assert again.stdout == render(job, target)


needs_schemas = pytest.mark.skipif(not SHARED.exists(), reason=f"no schemas in {SHARED}")


@needs_schemas
@pytest.mark.parametrize("job,target", list(itertools.product(NAMES, KUBERNETES)))
def test_every_object_fits_its_schema(render, job, target):
    for document in objects(render(job, target)):
        assert problems_of(document) == []


@needs_schemas
@pytest.mark.parametrize("job,trainer", list(itertools.product(NAMES, TRAINERS)))
def test_every_trainer_version_has_its_schema(render, job, trainer):
    for document in objects(render(job, "trainjob", "--trainer", trainer)):
        assert problems_of(document, trainer) == []


GANGS = {
    "kueue": ["pods", "job", "jobset", "pytorchjob", "trainjob", "mpijob", "rayjob"],
    "volcano": ["pods", "job", "jobset", "pytorchjob", "trainjob", "volcano", "mpijob", "rayjob"],
    "coscheduling": ["pods", "job", "jobset", "pytorchjob", "trainjob", "mpijob", "rayjob"],
    "native": ["pods", "job", "jobset", "pytorchjob", "trainjob"],
}


@needs_schemas
@pytest.mark.parametrize("gang,target", [(g, t) for g, ts in GANGS.items() for t in ts])
def test_every_gang_mechanism_fits_its_schema(render, gang, target):
    text = render("host-network", target, "--gang", gang)
    for document in objects(text):
        assert problems_of(document) == []
    if gang == "kueue":
        assert "kueue.x-k8s.io/queue-name: default" in text


@pytest.mark.parametrize("gang,target", [
    (g, t) for g, t in itertools.product(GANGS, TARGETS) if t not in GANGS[g]])
def test_a_gang_that_cannot_be_is_refused(gang, target):
    result = shanty("render", JOBS / "host-network.yaml", "-t", target, "--gang", gang)
    assert result.returncode == 2
    assert f"target {target} cannot be scheduled by {gang}" in result.stderr


def test_groups_count_all_pods(render):
    for target, count in [("pods", 4), ("job", 4), ("jobset", 4), ("pytorchjob", 4), ("mpijob", 4),
                          ("rayjob", 5)]:  # Ray's head too
        groups = [o for o in objects(render("host-network", target, "--gang", "volcano"))
                  if o["kind"] == "PodGroup"]
        assert [g["spec"]["minMember"] for g in groups] == [count]
        for pod in pods(render("host-network", target, "--gang", "volcano")):
            assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "host-network"
            assert pod["spec"]["schedulerName"] == "volcano"


@pytest.mark.parametrize("version,kinds,field", [
    ("1.35", {"Workload": "v1alpha1"}, "workloadRef"),
    ("1.36", {"Workload": "v1alpha2", "PodGroup": "v1alpha2"}, "schedulingGroup"),
    ("1.37", {"Workload": "v1beta1", "PodGroup": "v1beta1"}, "schedulingGroup"),
])
def test_native_gangs_follow_the_version(render, version, kinds, field):
    text = render("host-network", "job", "--gang", "native", "--kubernetes", version)
    found = {o["kind"]: o["apiVersion"].split("/")[1] for o in objects(text)
             if o["apiVersion"].startswith("scheduling.k8s.io")}
    assert found == kinds
    assert all(field in pod["spec"] for pod in pods(text))


@pytest.mark.parametrize("job,target", list(itertools.product(NAMES, KUBERNETES)))
def test_pods_pass_the_restricted_level_unless_they_cannot(render, job, target):
    for pod in pods(render(job, target)):
        spec = pod["spec"]
        host_network = job == "host-network"
        assert spec.get("hostNetwork", False) == host_network
        if host_network:
            assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        if job != "module":
            assert spec["securityContext"]["runAsNonRoot"] is True
        for container in spec["containers"] + spec.get("initContainers", []):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert job == "rdma" or "add" not in security["capabilities"]
            assert "privileged" not in security
        allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= allowed


@pytest.mark.parametrize("job,target", list(itertools.product(NAMES, KUBERNETES)))
def test_what_training_needs_is_in_every_pod(render, job, target):
    found = [p for p in pods(render(job, target)) if p["spec"]["containers"][0]["name"] != "ray-head"]
    assert found
    for pod in found:
        spec = pod["spec"]
        container = spec["containers"][0]
        resources = container["resources"]
        assert resources["requests"] == resources["limits"]
        assert all(isinstance(v, int) for k, v in resources["limits"].items() if "/" in k)
        assert ("nvidia.com/gpu" in resources["limits"]) == (job not in ("cpu", "mig"))
        mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        volumes = {v["name"]: v for v in spec["volumes"]}
        assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
        assert "sizeLimit" in volumes[mounts["/dev/shm"]]["emptyDir"]
        assert set(mounts.values()) <= set(volumes)
        assert spec["terminationGracePeriodSeconds"] > 15
        if target != "rayjob":
            command = container["command"]
            assert command[1] == "agent" and command[-2:] == ["--", "/etc/shanty/job/job.yaml"]
        env = {e["name"]: e for e in container["env"]}
        assert env["SHANTY_TOKEN_FILE"]["value"] == "/etc/shanty/token/token"


@pytest.mark.parametrize("job,target", list(itertools.product(NAMES, KUBERNETES)))
def test_the_token_is_in_the_secret_only(render, job, target):
    for document in objects(render(job, target)):
        assert (TOKEN in yaml.safe_dump(document)) == (document["kind"] == "Secret")


def test_a_secret_of_the_users_own_is_referred_to(render, tmp_path):
    result = shanty("render", JOBS / "two-nodes.yaml", "--token-from", "mine", "--run-id", "r1")
    found = objects(result.stdout)
    assert "Secret" not in [o["kind"] for o in found]
    [pod] = list(find_pods(found))
    assert {"secretName": "mine", "defaultMode": 288} in [v.get("secret") for v in
                                                          pod["spec"]["volumes"]]
    assert any(a.endswith("-r1") for a in pod["spec"]["containers"][0]["command"])


@pytest.mark.parametrize("job", NAMES)
def test_pods_read_the_same_job(render, job, tmp_path):
    [config] = [o for o in objects(render(job, "job")) if o["kind"] == "ConfigMap"]
    (tmp_path / "job.yaml").write_text(config["data"]["job.yaml"])
    plans = [shanty("plan", path, "--json") for path in (JOBS / f"{job}.yaml",
                                                         tmp_path / "job.yaml")]
    assert plans[1].returncode == 0, plans[1].stderr
    assert plans[0].stdout == plans[1].stdout
    original, inside = (yaml.safe_load((d / f"{n}.yaml").read_text())
                        for d, n in ((JOBS, job), (tmp_path, "job")))
    assert inside["run"].get("args", []) == original["run"].get("args", [])


def test_code_comes_by_configmap_git_or_image(render):
    [config] = [o for o in objects(render("files", "job")) if o["kind"] == "ConfigMap"]
    assert config["data"]["code-0"] == (JOBS / "train.py").read_text()
    assert config["data"]["code-1"] == (JOBS / "conf" / "model.yaml").read_text()
    [pod] = pods(render("git", "job"))
    clone = pod["spec"]["initContainers"][1]
    assert {"name": "REPOSITORY", "value": "https://git.example/team/project.git"} in clone["env"]
    assert subprocess.run(["sh", "-n"], input=clone["command"][2], text=True).returncode == 0
    [pod] = pods(render("module", "job"))
    assert "initContainers" not in pod["spec"]
    assert pod["spec"]["containers"][0]["command"][0] == "shanty"


def test_the_clone_gets_the_commit_that_is_asked_for(render, tmp_path):
    def git(*args):
        return subprocess.run(["git", "-C", str(tmp_path / "origin"), "-c", "user.name=t", "-c",
                               "user.email=t@t", *args], check=True, capture_output=True,
                              text=True).stdout.strip()

    (tmp_path / "origin").mkdir()
    git("init", "-q", "-b", "main")
    for content in ("one", "two"):
        (tmp_path / "origin" / "train.py").write_text(content)
        git("add", "."), git("commit", "-q", "-m", content)
    git("tag", "first", "HEAD~1")
    [pod] = pods(render("git", "job"))
    script = pod["spec"]["initContainers"][1]["command"][2]
    cases = [("HEAD", "two"), ("main", "two"), ("first", "one"), (git("rev-parse", "HEAD~1"), "one"),
             (git("rev-parse", "--short", "HEAD~1"), "one")]
    for i, (revision, content) in enumerate(cases):
        code = tmp_path / f"code{i}"
        code.mkdir()
        env = {**os.environ, "REPOSITORY": f"file://{tmp_path}/origin", "REVISION": revision,
               "CODE": str(code), "HOME": str(tmp_path)}
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (code / "train.py").read_text() == content, revision
    env["REVISION"], env["CODE"] = "no-such", str(tmp_path / "none")
    (tmp_path / "none").mkdir()
    assert subprocess.run(["sh", "-c", script], env=env, capture_output=True).returncode != 0


@pytest.mark.parametrize("job", NAMES)
def test_the_slurm_script_is_bash(render, job):
    text = render(job, "slurm")
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in text and "--signal=TERM@" in text


def test_lines_that_surprise_have_their_reason_above(render):
    lines = render("host-network", "job").splitlines()
    for start in ("dnsPolicy:", "enableServiceLinks:", "restartPolicy:", "podReplacementPolicy:",
                  "automountServiceAccountToken:", "clusterIP: None", "hostNetwork:",
                  "ttlSecondsAfterFinished:", "- name: NCCL_SOCKET_IFNAME"):
        [at] = [i for i, line in enumerate(lines) if line.strip().startswith(start)]
        assert lines[at - 1].strip().startswith("# "), start


def test_host_network_jobs_have_ports_of_their_own(tmp_path):
    ports = set()
    for name in ("a", "b", "c"):
        job = (JOBS / "host-network.yaml").read_text().replace("job: host-network", f"job: {name}")
        (tmp_path / "job.yaml").write_text(job)
        text = shanty("render", tmp_path / "job.yaml").stdout
        [port] = set(re.findall(r"--master-port=(\d+)", text))
        assert 23456 <= int(port) < 32768
        ports.add(port)
    assert len(ports) == 3


def test_the_driver_of_ray_lies_where_it_is_called(render):
    found = {o["kind"]: o for o in objects(render("two-nodes", "rayjob"))}
    head = found["RayJob"]["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    [volume] = [v["configMap"] for v in head["volumes"] if v["name"] == "job"]
    [item] = [i for i in volume["items"] if i["path"] == "ray_nodes.py"]
    compile(found["ConfigMap"]["data"][item["key"]], "ray_nodes.py", "exec")
    assert " /etc/shanty/job/ray_nodes.py 2 5 -- " in found["RayJob"]["spec"]["entrypoint"]


def test_an_image_volume_needs_no_init_container(render):
    [pod] = pods(render("two-nodes", "job", "--image-volume"))
    assert "initContainers" not in pod["spec"]
    assert {"name": "shanty", "image": {"reference": "shanty:0.1.0", "pullPolicy": "IfNotPresent"}
            } in pod["spec"]["volumes"]


@pytest.mark.parametrize("target", KUBERNETES)
def test_rights_are_of_one_namespace_and_never_all(render, target):
    account, role, binding = objects(render("two-nodes", target, "--rbac"))
    assert [o["kind"] for o in (account, role, binding)] == ["ServiceAccount", "Role", "RoleBinding"]
    assert {o["metadata"]["namespace"] for o in (account, role, binding)} == {"ml"}
    for rule in role["rules"]:
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
        if "secrets" in rule["resources"]:
            assert set(rule["verbs"]) == {"create", "patch", "delete"}


def test_writes_a_file_per_object(tmp_path, token_file):
    out = tmp_path / "out"
    result = shanty("render", JOBS / "two-nodes.yaml", "-o", out, "--token-file", token_file)
    assert result.returncode == 0 and result.stdout == ""
    assert sorted(p.name for p in out.iterdir()) == [
        "10-secret.yaml", "20-config.yaml", "30-claim.yaml", "40-service.yaml", "50-job.yaml"]
    assert (out / "10-secret.yaml").stat().st_mode & 0o777 == 0o600
    assert TOKEN not in result.stderr
    (tmp_path / "file").write_text("")
    result = shanty("render", JOBS / "two-nodes.yaml", "-o", tmp_path / "file")
    assert result.returncode == 3 and str(tmp_path / "file") in result.stderr


@pytest.mark.parametrize("text,flags,message", [
    ("run: {script: train.py}", [], "run.image is missing"),
    ("run: {script: train.py, image: i}\ncode: {from: git}", [], "code.git names no repository"),
    ("run: {script: none.py, image: i}\ncode: {from: configmap}", [], "none.py"),
    ("run: {script: ../x.py, image: i}\ncode: {from: configmap}", [], "lies outside"),
    ("run: {script: t.py, image: i}\nnetwork: {rdma_resource: rdma/a=no}", [], "NAME=COUNT"),
    ('run: {script: t.py, image: "i\\nj"}', [], "control character"),
    ("run: {script: t.py, image: i}", ["--trainer", "1.9", "-t", "trainjob"], "Trainer 1.9"),
    ("run: {script: t.py, image: i}", ["--trainer", "x"], "expected a version"),
    ("run: {script: t.py, image: i}", ["-t", "nothing"], "nothing"),
    ("run: {script: t.py, image: i}", ["--token-file", "/none"], "/none"),
])
def test_what_cannot_be_rendered_is_told(tmp_path, text, flags, message):
    (tmp_path / "job.yaml").write_text(text + "\n")
    result = shanty("render", tmp_path / "job.yaml", *flags)
    assert result.returncode == 2 and result.stdout == ""
    assert message in result.stderr
