"""The account that `shanty render --rbac` describes: the API and the verbs as it may use them."""

from __future__ import annotations

import json
from pathlib import Path

from .api import Api, ApiError


class Runner:
    def __init__(self, cluster, namespace: str, job: Path, *args: str):
        self.cluster, self.namespace = cluster, namespace
        self.granted: set[tuple[str, str, str]] = set()  # group, resource, verb
        for thing in cluster.render(job, *args, "--rbac", "--namespace", namespace):
            cluster.api.create(thing, namespace, fieldValidation="Strict")
            if thing["kind"] == "ServiceAccount":
                name = thing["metadata"]["name"]
            for rule in thing.get("rules", []):
                self.granted |= {(group, resource, verb) for group in rule["apiGroups"]
                                 for resource in rule["resources"] for verb in rule["verbs"]}
        self.user = f"system:serviceaccount:{namespace}:{name}"
        path = cluster.api.path("v1", "ServiceAccount", namespace, name, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        self.token = cluster.api.request("POST", path, asked)["status"]["token"]
        self.api = Api(cluster.api.host, cluster.api.port, cluster.plane.pki.crt("ca"),
                       token=self.token)

    def used(self) -> set[tuple[str, str, str]]:
        """Of what it may do, that which it did, as the API server has it on record."""
        found = set()
        whole, _, _ = self.cluster.plane.audit_log.read_text().rpartition("\n")
        for line in whole.splitlines():
            event = json.loads(line)
            thing = event.get("objectRef")
            if event["user"]["username"] != self.user or not thing or "resource" not in thing:
                continue
            name = "/".join(filter(None, [thing["resource"], thing.get("subresource")]))
            verbs = [event["verb"]]
            if event["verb"] == "patch" and event["responseStatus"]["code"] == 201:
                verbs.append("create")  # applied, and not there before
            found |= {(thing.get("apiGroup", ""), name, verb) for verb in verbs}
        return found & self.granted

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
