"""The tests' kubelet does what the other tests take for granted of a real one."""

import re

import pytest

from .cluster import TRAIN_IMAGE

LIMIT_S = 180


def pod(name, script, **more):
    containers = more.pop("containers", {})
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": TRAIN_IMAGE, "command": ["sh", "-c", script],
                            **containers}],
            **more,
        },
    }


class Pods:
    def __init__(self, cluster, namespace):
        cluster.need_nodes()
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace

    def create(self, thing):
        self.api.create(thing, self.namespace, fieldValidation="Strict")

    def get(self, name):
        return self.api.get("v1", "Pod", name, self.namespace)

    def phase(self, name, *wanted):
        def reached():
            found = self.get(name)
            return found if found["status"].get("phase") in wanted else None

        try:
            return self.api.wait(reached, f"{name} is {' or '.join(wanted)}", LIMIT_S)
        except AssertionError:
            raise AssertionError(self.cluster.describe(self.namespace)) from None

    def ended(self, name):
        return self.phase(name, "Succeeded", "Failed")

    def log(self, name, **query):
        return self.cluster.log(self.namespace, name, **query)


@pytest.fixture
def pods(cluster, namespace):
    return Pods(cluster, namespace)


def exit_of(found):
    return found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]


def test_a_pod_runs_with_its_environment_files_and_log(pods):
    api, namespace = pods.api, pods.namespace
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"},
                "data": {"train.py": "print('from the map')\n", "MODE": "fast"}}, namespace)
    api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"},
                "stringData": {"token": "s3cret"}}, namespace)
    pods.create(pod(
        "all", 'id -u; hostname; echo "$WHO $MODE $CPUS $1"; python /code/train.py; '
        'cat /secret/token; df --output=size -B1 /dev/shm /mem | tail -2; pwd; echo x > /scratch/x',
        containers={
            "args": ["sh", "$(WHO)!"], "workingDir": "/work",
            "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
            "resources": {"limits": {"cpu": "1500m"}},
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "WHO", "value": "pod-$(NAME)"},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
            "envFrom": [{"configMapRef": {"name": "code"}}],
            "volumeMounts": [{"name": "code", "mountPath": "/code"},
                             {"name": "secret", "mountPath": "/secret", "readOnly": True},
                             {"name": "mem", "mountPath": "/mem"},
                             {"name": "scratch", "mountPath": "/scratch"}]},
        volumes=[{"name": "code", "configMap": {"name": "code"}},
                 {"name": "secret", "secret": {"secretName": "token"}},
                 {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                 {"name": "scratch", "emptyDir": {}}]))
    assert exit_of(pods.ended("all")) == 0, pods.log("all")
    assert pods.log("all").split() == [
        "1000", "all", "pod-all", "fast", "2", "pod-all!", "from", "the", "map", "s3cret",
        "67108864", "16777216", "/work"]
    assert pods.log("all", tailLines=1) == "/work\n"
    assert re.fullmatch(r"20\d\d-[-\dT:]+\.\d{9}Z /work\n",
                        pods.log("all", tailLines=1, timestamps="true"))


def test_pods_find_each_other_by_name(pods):
    pods.api.create({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "gang"},
        "spec": {"clusterIP": "None", "selector": {"app": "gang"},
                 "ports": [{"name": "p", "port": 29500}]}}, pods.namespace)
    serve = ("import socket; s = socket.create_server(('', 29500)); c, _ = s.accept(); "
             "print(c.recv(9).decode())")
    ask = "import socket; socket.create_connection(('first.gang', 29500)).send(b'hello')"
    labels = {"labels": {"app": "gang"}}
    pods.create(pod("b", f'python -c "{ask}"', metadata=labels, hostname="second", subdomain="gang",
                    initContainers=[{
                        "name": "wait", "image": "alpine:3.10", "command": ["sh", "-c",
                        "until nslookup first.gang; do sleep 0.2; done"]}]))
    pods.create(pod("a", f'python -c "{serve}"', metadata=labels, hostname="first",
                    subdomain="gang"))
    assert exit_of(pods.ended("b")) == 0, pods.log("b")
    assert exit_of(pods.ended("a")) == 0 and pods.log("a") == "hello\n"


def test_failures_restarts_and_exit_codes(pods):
    pods.create(pod("fails", "exit 7"))
    pods.create(pod("killed", "kill -9 $$; sleep 100"))
    pods.create(pod("retries", "test -e /keep/once || { touch /keep/once; exit 3; }",
                    restartPolicy="OnFailure", volumes=[{"name": "keep", "emptyDir": {}}],
                    containers={"volumeMounts": [{"name": "keep", "mountPath": "/keep"}]}))
    pods.create(pod("absent", "true", containers={"image": "nowhere.local/absent:1"}))
    pods.create(pod("first", "true", initContainers=[
        {"name": "breaks", "image": TRAIN_IMAGE, "command": ["sh", "-c", "exit 4"]}]))
    assert exit_of(pods.phase("fails", "Failed")) == 7
    again = pods.phase("retries", "Succeeded")["status"]["containerStatuses"][0]
    assert again["restartCount"] == 1
    failed = pods.phase("first", "Failed")["status"]["initContainerStatuses"][0]
    assert failed["state"]["terminated"]["exitCode"] == 4

    def waits_for_its_image():
        statuses = pods.get("absent")["status"].get("containerStatuses")
        return statuses and statuses[0]["state"]["waiting"]["reason"] == "ErrImagePull"

    pods.api.wait(waits_for_its_image, "absent says that its image is missing", LIMIT_S)
    pods.phase("killed", "Running", "Succeeded", "Failed")


def test_deletion_is_graceful_and_then_it_is_not(pods):
    pods.create(pod("polite", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"))
    pods.create(pod("stubborn", "trap '' TERM; while :; do sleep 0.1; done",
                    terminationGracePeriodSeconds=1))
    for name in ("polite", "stubborn"):
        pods.phase(name, "Running")
        pods.api.delete("v1", "Pod", name, pods.namespace)
    for name in ("polite", "stubborn"):
        pods.api.wait(lambda: pods.get(name) is None, f"{name} is removed", LIMIT_S)


def test_a_claim_is_one_directory_for_all(pods):
    pods.cluster.make_claim(pods.namespace, "data")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pods.create(pod("writes", "echo kept > /data/file", volumes=volumes, containers=mounts))
    assert exit_of(pods.ended("writes")) == 0
    pods.create(pod("reads", "cat /data/file", volumes=volumes, containers=mounts))
    pods.ended("reads")
    assert pods.log("reads") == "kept\n"


def test_a_pod_reaches_the_api_server_with_its_token(pods):
    ask = """
import ssl, urllib.request
where = "/var/run/secrets/kubernetes.io/serviceaccount/"
token, namespace = open(where + "token").read(), open(where + "namespace").read()
request = urllib.request.Request(
    f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods",
    headers={"Authorization": f"Bearer {token}"})
urllib.request.urlopen(request, context=ssl.create_default_context(cafile=where + "ca.crt"))
"""
    pods.create(pod("asks", "", containers={"command": ["python", "-c", ask]}))
    assert exit_of(pods.ended("asks")) == 1
    assert "403: Forbidden" in pods.log("asks")
