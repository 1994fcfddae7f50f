"""The operators: each one's CRDs, webhooks, settings and program, on top of a control plane."""

from __future__ import annotations

import concurrent.futures
import json
from dataclasses import dataclass, field
from typing import Callable

from .api import ApiError, condition_of
from .control_plane import ControlPlane, get, status_of
from .pki import Authority

WEBHOOK_FILES = "/tmp/k8s-webhook-server/serving-certs"  # constant in controller-runtime
KUEUE_FILES = "/etc/kueue/metrics/certs"  # read even with metrics off
# Alternative names of the CA that the rotators of certificates look for, and of the one leaf.
CA_NAMES = ["training-operator-ca", "jobset-ca", "kubeflow-trainer-ca", "kueue-ca"]
LEAF_NAMES = ["localhost", "training-operator.kubeflow.svc"]
KUEUE_KINDS = ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob",
               "kubeflow.org/pytorchjob", "kubeflow.org/mpijob", "ray.io/rayjob",
               "ray.io/raycluster"]
COSCHEDULER = "scheduler-plugins-scheduler"
START_LIMIT_S = 180  # on a machine that has much else to do


@dataclass(frozen=True)
class Operator:
    programs: list[str]
    start: Callable[["Operators"], None]
    needs: list[str] = field(default_factory=list)


class Operators:
    """Those running in one control plane; start() adds one with what it stands on."""

    def __init__(self, plane: ControlPlane):
        self.plane, self.api, self.directory = plane, plane.api, plane.directory
        self.running: set[str] = set()
        self.webhooks: Authority | None = None
        self.installed: list[tuple[int, str]] = []  # webhooks, by port and path

    def start(self, name: str) -> None:
        if name in self.running:
            return
        operator = OPERATORS[name]
        for other in operator.needs:
            self.start(other)
        if self.webhooks is None:
            self.make_certificates()
        operator.start(self)
        # An operator is ready before it serves all of its webhooks.
        for port, path in self.installed:
            self.api.wait(lambda: status_of(port, path) != 404, f"{name} serves {path}")
        self.installed.clear()
        self.running.add(name)

    def make_certificates(self) -> None:
        self.webhooks = authority = Authority(
            self.directory / "webhooks", rsa=True, names=",".join(f"DNS:{n}" for n in CA_NAMES))
        authority.leaf("tls", "/CN=webhook", "serverAuth",
                       "IP:127.0.0.1," + ",".join(f"DNS:{n}" for n in LEAF_NAMES))

    def constant_files(self, directory: str) -> None:
        source = self.webhooks.directory
        self.plane.sandbox.run("sh", "-c", f"mkdir -p {directory} && "
                               f"cp {source}/tls.crt {source}/tls.key {directory}")

    def namespace(self, name: str) -> None:
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def documents(self, files: str, text: Callable[[str], str] = lambda text: text) -> list[dict]:
        return [document for path in self.plane.built.files(files)
                for document in self.plane.yaml(text(path.read_text()))]

    def install_crds(self, files: str) -> None:
        crds = self.documents(files)

        def install(crd: dict) -> None:
            name, kind = crd["metadata"]["name"], crd["spec"]["names"]["kind"]
            self.retry(lambda: self.api.apply(crd, fieldValidation="Strict"), f"{name} is taken")
            version = f"{crd['spec']['group']}/{served(crd)}"

            def established() -> bool:
                found = self.api.get(crd["apiVersion"], crd["kind"], name)
                return condition_of(found, "Established") == "True"

            self.api.wait(lambda: established() and self.api.serves(version, kind),
                          f"{name} is established and discovered", START_LIMIT_S)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(install, crds))

    def install_webhooks(self, documents: list[dict], port: int, name: str = "",
                         only: set[str] | None = None, pods_with: str = "") -> list[str]:
        """Points webhooks at this machine; `pods_with`: a label that pods must have for theirs."""
        paths = []
        for document in documents:
            if not document["kind"].endswith("WebhookConfiguration"):
                continue
            if name:
                document["metadata"]["name"] = f"{name}-{document['metadata']['name']}"
            hooks = [hook for hook in document["webhooks"] if only is None or any(
                set(rule["resources"]) & only for rule in hook["rules"])]
            for hook in hooks:
                path = hook["clientConfig"]["service"]["path"]
                paths.append(path)
                self.installed.append((port, path))
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}",
                                        "caBundle": self.webhooks.text(self.webhooks.crt("ca"))}
                if pods_with and any("pods" in rule["resources"] for rule in hook["rules"]):
                    hook["objectSelector"] = {
                        "matchExpressions": [{"key": pods_with, "operator": "Exists"}]}
            document["webhooks"] = hooks
            if hooks:
                self.api.apply(document)
        return paths

    def config(self, name: str, content: dict) -> str:
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, name: str, program: str, *args: str, health: int, tls: bool = False,
            path: str = "/readyz") -> None:
        env = {"KUBECONFIG": str(self.plane.kubeconfig)}
        self.plane.start(name, program, *args, env=env).wait_ready(lambda: get(health, path, tls))

    def retry(self, action: Callable[[], object], what: str) -> None:
        """Until the webhooks of a program that is just starting answer."""

        def tried() -> bool:
            try:
                action()
                return True
            except ApiError as error:
                if error.code < 500:
                    raise
                return False

        self.api.wait(tried, what, START_LIMIT_S)


def served(crd: dict) -> str:
    return next(version["name"] for version in crd["spec"]["versions"] if version["served"])


def jobset(on: Operators) -> None:
    on.install_crds("jobset/crds")
    on.namespace("jobset-system")
    on.install_webhooks(on.documents("jobset/webhooks"), 19443, "jobset",
                        pods_with="jobset.sigs.k8s.io/jobset-name")
    on.run("jobset", "jobset", "--config=" + on.config("jobset", {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
        "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
        "health": {"healthProbeBindAddress": "127.0.0.1:18081"},
        "metrics": {"bindAddress": "0", "certDir": str(on.webhooks.directory)},
        "webhook": {"host": "127.0.0.1", "port": 19443, "certDir": str(on.webhooks.directory)},
    }), health=18081)


def training_operator(on: Operators) -> None:
    """Its rotator of certificates cannot be switched off: it gets a Secret that satisfies it."""
    on.install_crds("training-operator/crds")
    on.namespace("kubeflow")
    on.constant_files(WEBHOOK_FILES)
    files = ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    on.api.apply({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "training-operator-webhook-cert", "namespace": "kubeflow"},
        "data": {name: on.webhooks.text(on.webhooks.directory / name) for name in files},
    })
    documents = on.documents("training-operator/webhooks")
    for document in documents:
        document["metadata"]["name"] = "validator.training-operator.kubeflow.org"
    on.install_webhooks(documents, 19444, only={"pytorchjobs"})
    on.run("training-operator", "training-operator", "--enable-scheme=pytorchjob",
           "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:18082",
           "--webhook-server-port=19444", health=18082)


def trainer(on: Operators) -> None:
    on.install_crds("trainer/crds")
    on.namespace("kubeflow-system")
    on.constant_files(WEBHOOK_FILES)
    on.install_webhooks(on.documents("trainer/webhooks"), 19445, "trainer")
    on.run("trainer", "trainer", "--config=" + on.config("trainer", {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:18083"}, "metrics": {"bindAddress": "0"},
        "webhook": {"port": 19445, "host": "127.0.0.1"}, "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
    }), health=18083)
    for runtime in on.documents("trainer/runtimes"):
        on.retry(lambda: on.api.apply(runtime), "the trainer's runtime is accepted")


def kueue(on: Operators) -> None:
    """Only the webhooks of its integrations are served; the others would refuse everything. It knows
    the runtimes of those kinds alone that are there when it starts."""
    for operator in ("jobset", "training-operator", "trainer", "mpi-operator", "kuberay"):
        on.install_crds(f"{operator}/crds")
    on.install_crds("kueue/crds")
    on.namespace("kueue-system")
    on.constant_files(KUEUE_FILES)
    kinds = {kind.split("/")[1] + "s" for kind in KUEUE_KINDS}
    own = {"clusterqueues", "cohorts", "resourceflavors", "workloads", "localqueues"}
    on.install_webhooks(on.documents("kueue/webhooks"), 19446, "kueue", only=kinds | own)
    on.run("kueue", "kueue", "--feature-gates=VisibilityOnDemand=false", "--config=" + on.config(
        "kueue", {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "namespace": "kueue-system", "health": {"healthProbeBindAddress": "127.0.0.1:18084"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": 19446, "host": "127.0.0.1", "certDir": str(on.webhooks.directory)},
            "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": KUEUE_KINDS},
        }), health=18084)


def mpi_operator(on: Operators) -> None:
    on.install_crds("mpi-operator/crds")
    on.namespace("mpi-operator")
    on.plane.start("mpi-operator", "mpi-operator", f"-kubeConfig={on.plane.kubeconfig}",
                   "-kube-api-qps=50", "-kube-api-burst=100")


def chart_text(text: str) -> str:
    """The little of Helm that Volcano's file of webhooks needs: no conditions, two values."""
    lines = [line for line in text.splitlines() if "{{-" not in line and line.strip() != "labels:"]
    return ("\n".join(lines).replace("{{ .Release.Name }}", "volcano")
            .replace("{{ .Release.Namespace }}", "volcano-system"))


def volcano(on: Operators) -> None:
    """Its webhooks must be there before their server, which serves only the paths it is given."""
    on.install_crds("volcano/crds")
    for namespace in ("volcano-system", "volcano-monitoring"):
        on.namespace(namespace)
    paths = on.install_webhooks(on.documents("volcano/webhooks", chart_text), 19447)
    pki = on.webhooks
    on.run(
        "volcano-webhook-manager", "volcano-webhook-manager", f"--kubeconfig={on.plane.kubeconfig}",
        "--listen-address=127.0.0.1", "--port=19447", f"--tls-cert-file={pki.crt('tls')}",
        f"--tls-private-key-file={pki.key('tls')}", f"--ca-cert-file={pki.crt('ca')}",
        "--webhook-url=https://127.0.0.1:19447", "--webhook-namespace=volcano-system",
        "--webhook-service-name=volcano-admission-service", "--enable-healthz",
        f"--enabled-admission={','.join(paths)}", "--healthz-address=127.0.0.1:18088",
        health=18088, tls=True, path="/healthz")
    general = [f"--kubeconfig={on.plane.kubeconfig}", "--leader-elect=false", "--enable-healthz"]
    on.run("volcano-controller-manager", "volcano-controller-manager", *general,
           "--healthz-address=127.0.0.1:18089",
           "--controllers=*,-sharding-controller,-colocation-config-controller",
           health=18089, path="/healthz")
    conf = on.plane.built.files("volcano/config")[0]
    on.run("volcano-scheduler", "volcano-scheduler", *general, f"--scheduler-conf={conf}",
           "--healthz-address=127.0.0.1:18090", "--cache-dumper=false", "--enable-metrics=false",
           "--scheduler-name=volcano", health=18090, path="/healthz")
    on.api.wait(
        lambda: on.api.get("scheduling.volcano.sh/v1beta1", "Queue", "default"),
        "Volcano's queue `default` exists")


def coscheduling(on: Operators) -> None:
    on.install_crds("coscheduling/crds")
    config = on.config("coscheduling", {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(on.plane.kubeconfig)},
        "profiles": [{
            "schedulerName": COSCHEDULER,
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                        "queueSort": {"enabled": [{"name": "Coscheduling"}],
                                      "disabled": [{"name": "*"}]}},
            "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 20}}],
        }],
    })
    on.run("coscheduling", "coscheduling", f"--config={config}", "--bind-address=127.0.0.1",
           "--secure-port=18091", f"--cert-dir={on.directory}/coscheduling-certs",
           "--leader-elect=false", health=18091, tls=True, path="/healthz")


def kuberay(on: Operators) -> None:
    on.install_crds("kuberay/crds")
    on.run("kuberay", "kuberay", f"-kubeconfig={on.plane.kubeconfig}",
           "-enable-leader-election=false", "-metrics-addr=127.0.0.1:18086",
           "-health-probe-bind-address=127.0.0.1:18087", health=18087)


OPERATORS = {
    "jobset": Operator(["jobset"], jobset),
    "training-operator": Operator(["training-operator"], training_operator),
    "trainer": Operator(["trainer"], trainer, ["jobset"]),
    "kueue": Operator(["kueue"], kueue),
    "mpi-operator": Operator(["mpi-operator"], mpi_operator),
    "volcano": Operator(["volcano-webhook-manager", "volcano-controller-manager",
                         "volcano-scheduler"], volcano),
    "coscheduling": Operator(["coscheduling"], coscheduling),
    "kuberay": Operator(["kuberay"], kuberay),
}


def programs_of(name: str) -> list[str]:
    operator = OPERATORS[name]
    return operator.programs + [p for other in operator.needs for p in programs_of(other)]
