"""A container's environment and arguments as a kubelet makes them."""

from __future__ import annotations

import base64
import re

from ..api import Api
from ..quantity import divided


class NotYet(Exception):
    """Something that the container refers to is not there; it may come. `reason` is a kubelet's."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError"):
        super().__init__(message)
        self.reason = reason


def expand(text: str, env: dict[str, str]) -> str:
    """$(NAME) becomes its value when there is one; $$ is one $."""

    def value(found: re.Match) -> str:
        if found.group(0) == "$$":
            return "$"
        return env.get(found.group(1), found.group(0))

    return re.sub(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)", value, text)


def field_of(pod: dict, path: str, addresses: dict[str, str]) -> str:
    meta, spec = pod["metadata"], pod["spec"]
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
    if keyed:
        return (meta.get(keyed.group(1)) or {}).get(keyed.group(2), "")
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.get(path.split(".")[1]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
    known = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        **addresses,
    }
    if path not in known:
        raise NotYet(f"fieldPath {path} is not supported")
    return known[path]


def resource_of(pod: dict, container: dict, reference: dict, node: dict[str, str]) -> str:
    """resourceFieldRef; a limit that is not set is the node's."""
    name = reference.get("containerName") or container["name"]
    spec = pod["spec"]
    everyone = spec["containers"] + spec.get("initContainers", [])
    resources = next(c for c in everyone if c["name"] == name).get("resources", {})
    kind, _, resource = reference["resource"].partition(".")
    amount = resources.get(kind, {}).get(resource) or (node[resource] if kind == "limits" else "0")
    return divided(amount, reference.get("divisor") or "1")


class Environment:
    def __init__(self, api: Api, pod: dict, addresses: dict[str, str], node: dict[str, str]):
        self.api, self.pod, self.addresses, self.node = api, pod, addresses, node
        self.namespace = pod["metadata"]["namespace"]

    def keyed(self, kind: str, name: str, optional: bool) -> dict[str, str] | None:
        found = self.api.get("v1", kind, name, self.namespace)
        if found is None and not optional:
            raise NotYet(f'{kind.lower()} "{name}" not found')
        return None if found is None else data_of(found)

    def of(self, container: dict, image: dict[str, str]) -> dict[str, str]:
        env = {**image, "HOSTNAME": self.addresses["hostname"], **self.services()}
        for source in container.get("envFrom", []):
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if field in source:
                    values = self.keyed(kind, source[field]["name"],
                                        source[field].get("optional", False)) or {}
                    env |= {source.get("prefix", "") + key: text(value)
                            for key, value in values.items()}
        for entry in container.get("env", []):
            value = self.value(container, entry, env)
            if value is not None:
                env[entry["name"]] = value
        return env

    def value(self, container: dict, entry: dict, env: dict[str, str]) -> str | None:
        source = entry.get("valueFrom")
        if not source:
            return expand(entry.get("value", ""), env)
        if "fieldRef" in source:
            return field_of(self.pod, source["fieldRef"]["fieldPath"], self.addresses)
        if "resourceFieldRef" in source:
            return resource_of(self.pod, container, source["resourceFieldRef"], self.node)
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if field in source:
                reference = source[field]
                optional = reference.get("optional", False)
                values = self.keyed(kind, reference["name"], optional)
                if values is not None and reference["key"] in values:
                    return text(values[reference["key"]])
                if optional:
                    return None
                raise NotYet(f"couldn't find key {reference['key']} in {kind} "
                             f"{self.namespace}/{reference['name']}")
        raise NotYet(f"env {entry['name']}: this valueFrom is not supported")

    def services(self) -> dict[str, str]:
        """KUBERNETES_*, and NAME_SERVICE_* of the namespace's Services that have an address."""
        master = self.api.get("v1", "Service", "kubernetes", "default")
        found = {"KUBERNETES": master} if master else {}
        if self.pod["spec"].get("enableServiceLinks", True):
            for service in self.api.list("v1", "Service", self.namespace):
                found[service["metadata"]["name"].upper().replace("-", "_")] = service
        env = {}
        for name, service in found.items():
            address = service["spec"].get("clusterIP", "None")
            ports = service["spec"].get("ports")
            if address in ("None", "") or not ports:
                continue
            env[f"{name}_SERVICE_HOST"] = address
            env[f"{name}_SERVICE_PORT"] = str(ports[0]["port"])
        return env


def text(value: bytes) -> str:
    return value.decode(errors="replace")


def data_of(thing: dict) -> dict[str, bytes]:
    """All of a ConfigMap or Secret, as bytes by key."""
    binary = thing.get("binaryData") or {}
    decoded = {key: base64.b64decode(value) for key, value in binary.items()}
    for key, value in (thing.get("data") or {}).items():
        decoded[key] = base64.b64decode(value) if thing["kind"] == "Secret" else value.encode()
    return decoded
