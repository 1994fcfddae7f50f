"""The account that `shanty render --rbac` describes: the API and the verbs as it may use them."""

from __future__ import annotations

from pathlib import Path

from .api import Api, ApiError


class Runner:
    def __init__(self, cluster, namespace: str, job: Path, *args: str):
        self.cluster, self.namespace = cluster, namespace
        for thing in cluster.render(job, *args, "--rbac", "--namespace", namespace):
            cluster.api.create(thing, namespace, fieldValidation="Strict")
            if thing["kind"] == "ServiceAccount":
                name = thing["metadata"]["name"]
        path = cluster.api.path("v1", "ServiceAccount", namespace, name, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        self.token = cluster.api.request("POST", path, asked)["status"]["token"]
        self.api = Api(cluster.api.host, cluster.api.port, cluster.plane.pki.crt("ca"),
                       token=self.token)

    def forbidden(self, action) -> bool:
        try:
            action()
            return False
        except ApiError as error:
            return error.code == 403

    def kubeconfig(self, path: Path) -> Path:
        plane = self.cluster.plane
        path.write_text(plane.pki.kubeconfig(plane.url, {"token": self.token}, self.namespace))
        path.chmod(0o600)
        return path
