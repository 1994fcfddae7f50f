"""etcd, API server, controller manager and scheduler in a sandbox, started in order."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
from pathlib import Path

from .api import Api, ApiError
from .component import Component
from .pki import Authority
from .programs import Built
from .sandbox import API_ADDRESS, GATEWAY, Sandbox

API_PORT = 443  # the Service's own port: without a kube-proxy nobody translates
# Who of the tests' own accounts asked for what; see Runner.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
         "omitStages": ["RequestReceived"],
         "rules": [{"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
                   {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
                   {"level": "None"}]}
CORE = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "yamljson"]
GATES = "GenericWorkload=true"  # the scheduler's own gangs, scheduling.k8s.io/v1beta1
STOP_ORDER = ["kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"]
TESTS = Path(__file__).resolve().parent.parent


def get(port: int, path: str, tls: bool = True, host: str = "127.0.0.1") -> bool:
    """Whether a health address answers 200."""
    return status_of(port, path, tls, host) == 200


def status_of(port: int, path: str, tls: bool = True, host: str = "127.0.0.1") -> int:
    """What a GET is answered; the certificate is not looked at."""
    if tls:
        link = http.client.HTTPSConnection(host, port, timeout=5,
                                           context=ssl._create_unverified_context())
    else:
        link = http.client.HTTPConnection(host, port, timeout=5)
    with contextlib.closing(link):
        link.request("GET", path)
        return link.getresponse().status


class ControlPlane:
    """The control plane of one cluster, with everything it needs in `directory`.

    The thread that makes it joins its network until close().
    """

    def __init__(self, built: Built, directory: Path):
        self.built, self.directory = built, directory
        self.components: dict[str, Component] = {}
        self.stack = contextlib.ExitStack()
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.close)
            self.sandbox = Sandbox()
            self.stack.callback(self.sandbox.close)
            self.stack.enter_context(self.sandbox.network())
            self.make_certificates()
            self.start_core()
            on_error.pop_all()

    def make_certificates(self) -> None:
        self.pki = pki = Authority(self.directory / "pki")
        pki.leaf("apiserver", "/CN=kube-apiserver", "serverAuth",
                 "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
                 f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{API_ADDRESS}")
        pki.leaf("kubelet", "/CN=kubelet", "serverAuth", f"IP:{GATEWAY}")
        for name, subject in [
            ("admin", "/O=system:masters/CN=admin"),
            ("kube-controller-manager", "/CN=system:kube-controller-manager"),
            ("kube-scheduler", "/CN=system:kube-scheduler"),
        ]:
            pki.leaf(name, subject, "clientAuth")
            path = self.directory / f"{name}.kubeconfig"
            path.write_text(pki.kubeconfig(self.url, pki.client(name)))
            path.chmod(0o600)
        pki.pair("sa")
        self.kubeconfig = self.directory / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def url(self) -> str:
        return f"https://{API_ADDRESS}:{API_PORT}"

    def start(self, name: str, program: str, *args: str, env: dict | None = None) -> Component:
        path = self.built.program(program)
        assert path, self.built.missing([program])
        settings = [f"{key}={value}" for key, value in (env or {}).items()]
        command = self.sandbox.command("env", *settings, str(path), *args)
        component = Component(name, command, self.directory / f"{name}.log")
        self.components[name] = component
        return component

    def start_core(self) -> None:
        run, pki = self.directory, self.pki
        self.start(
            "etcd", "etcd", "--data-dir", f"{run}/etcd", "--unsafe-no-fsync", "--log-level", "warn",
            "--listen-client-urls", "http://127.0.0.1:2379",
            "--advertise-client-urls", "http://127.0.0.1:2379",
            "--listen-peer-urls", "http://127.0.0.1:2380",
        ).wait_ready(lambda: get(2379, "/health", tls=False))
        (run / "audit-policy.json").write_text(json.dumps(AUDIT))
        self.start(
            "kube-apiserver", "kube-apiserver",
            f"--audit-policy-file={run}/audit-policy.json", f"--audit-log-path={self.audit_log}", "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0", f"--secure-port={API_PORT}",
            f"--advertise-address={API_ADDRESS}", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pki.crt('apiserver')}",
            f"--tls-private-key-file={pki.key('apiserver')}",
            f"--client-ca-file={pki.crt('ca')}", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki.key('sa')}",
            f"--service-account-key-file={pki.directory}/sa.pub",
            f"--kubelet-certificate-authority={pki.crt('ca')}",
            f"--kubelet-client-certificate={pki.crt('admin')}",
            f"--kubelet-client-key={pki.key('admin')}",
            "--kubelet-preferred-address-types=ExternalIP",
            "--authorization-mode=RBAC", "--allow-privileged=true", "--profiling=false",
            "--runtime-config=scheduling.k8s.io/v1beta1=true", f"--feature-gates={GATES}",
        )
        self.api = Api(API_ADDRESS, API_PORT, pki.crt("ca"), cert=pki.crt("admin"),
                       key=pki.key("admin"))
        self.components["kube-apiserver"].wait_ready(self.is_ready)
        for name, port, more in [
            ("kube-controller-manager", 10257, [
                f"--root-ca-file={pki.crt('ca')}", "--use-service-account-credentials=true",
                f"--service-account-private-key-file={pki.key('sa')}",
                "--allocate-node-cidrs=false",
                f"--flex-volume-plugin-dir={run}/flexvolume"]),
            ("kube-scheduler", 10259, []),
        ]:
            self.start(
                name, name, f"--kubeconfig={run}/{name}.kubeconfig", "--leader-elect=false",
                "--bind-address=127.0.0.1", f"--secure-port={port}",
                f"--cert-dir={run}/{name}-certs", f"--feature-gates={GATES}", *more,
            )
        self.components["kube-controller-manager"].wait_ready(lambda: get(10257, "/healthz"))
        self.components["kube-scheduler"].wait_ready(lambda: get(10259, "/healthz"))
        self.api.wait(lambda: self.api.get("v1", "ServiceAccount", "default"),
                      "the default service account exists")

    def is_ready(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok"
        except ApiError:
            return False

    def check(self) -> None:
        """Raises when a program died meanwhile."""
        for component in self.components.values():
            component.check()

    def yaml(self, text: str) -> list[dict]:
        """The documents of a YAML text."""
        done = subprocess.run([str(self.built.program("yamljson"))], input=text, text=True,
                              capture_output=True, timeout=120)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        return json.loads(done.stdout)

    def start_kubelet(self, settings: Path) -> Component:
        command = self.sandbox.command("env", f"PYTHONPATH={TESTS}", sys.executable, "-u", "-m",
                                       "cluster.kubelet", str(settings))
        component = Component("kubelet", command, self.directory / "kubelet.log")
        self.components["kubelet"] = component
        return component

    def close(self) -> None:
        """Ends everything: what came last first, etcd after the API server."""
        others = [name for name in reversed(self.components) if name not in STOP_ORDER]
        for name in others:
            self.components[name].stop()
        for name in STOP_ORDER:
            if name in self.components:
                self.components[name].stop()
        self.components.clear()
        self.stack.close()

