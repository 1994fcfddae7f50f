"""A pod's volumes as directories of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from ..quantity import quantity
from .environment import Environment, NotYet, data_of, field_of
from .images import find

TOKEN_S = 3600


def write_keys(directory: Path, values: dict[str, bytes], items: list[dict] | None, mode: int,
               what: str, optional: bool = False) -> None:
    chosen = {key: key for key in values} if items is None else {i["key"]: i["path"] for i in items}
    modes = {item["key"]: item.get("mode", mode) for item in items or []}
    for key, name in chosen.items():
        if key not in values:
            if optional:
                continue
            raise NotYet(f"references non-existent key {key} of {what}", "ContainerCreating")
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(values[key])
        target.chmod(modes.get(key, mode))


class Volumes:
    """Makes them under `directory`; claims live in `claims`, which outlives pods."""

    def __init__(self, environment: Environment, directory: Path, claims: Path, images: dict):
        self.environment, self.api = environment, environment.api
        self.pod, self.directory, self.claims = environment.pod, directory, claims
        self.images = images
        self.mounted: list[Path] = []
        self.paths: dict[str, Path] = {}
        security = self.pod["spec"].get("securityContext") or {}
        self.group = security.get("fsGroup")

    def make(self) -> None:
        for volume in self.pod["spec"].get("volumes", []):
            if volume["name"] not in self.paths:
                self.paths[volume["name"]] = self.make_one(volume)

    def remove(self) -> None:
        for path in reversed(self.mounted):
            subprocess.run(["umount", "-l", str(path)], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def make_one(self, volume: dict) -> Path:
        path = self.directory / volume["name"]
        kind = next(key for key in volume if key != "name")
        source = volume[kind] or {}
        if kind == "persistentVolumeClaim":
            return self.claim(source["claimName"])
        if kind == "image":
            return Path(self.images_root(source["reference"]))
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if kind == "emptyDir":
            self.empty(path, source)
        elif kind in ("configMap", "secret"):
            self.keyed(path, kind, source, source.get("defaultMode", 0o644))
        elif kind == "projected":
            for part in source["sources"]:
                self.projected(path, part, source.get("defaultMode", 0o644))
        elif kind == "downwardAPI":
            self.downward(path, source.get("items", []))
        else:
            raise NotYet(f"volume {volume['name']}: {kind} is not supported", "ContainerCreating")
        if self.group is not None and kind != "emptyDir":
            self.give_to_group(path)
        return path

    def give_to_group(self, path: Path) -> None:
        """fsGroup of volumes that are only read: the group may, whatever the mode says."""
        for file in (path, *path.rglob("*")):
            os.chown(file, -1, self.group)
            file.chmod(file.stat().st_mode | (0o2550 if file.is_dir() else 0o440))

    def images_root(self, reference: str) -> str:
        return find(self.images, reference)["root"]

    def empty(self, path: Path, source: dict) -> None:
        if source.get("medium") == "Memory":
            limit = source.get("sizeLimit")
            size = f",size={int(quantity(limit))}" if limit else ""
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=777{size}", "memory", str(path)],
                           check=True)
            self.mounted.append(path)
        path.chmod(0o777)
        if self.group is not None:
            os.chown(path, -1, self.group)
            path.chmod(0o2777)

    def claim(self, name: str) -> Path:
        namespace = self.pod["metadata"]["namespace"]
        claim = self.api.get("v1", "PersistentVolumeClaim", name, namespace)
        if claim is None:
            raise NotYet(f'persistentvolumeclaim "{name}" not found', "ContainerCreating")
        path = self.claims / namespace / name
        path.mkdir(parents=True, exist_ok=True)
        if self.group is not None:
            os.chown(path, -1, self.group)
            path.chmod(0o2775)
        return path

    def keyed(self, path: Path, kind: str, source: dict, mode: int) -> None:
        name = source.get("secretName") or source["name"]
        kinds = {"configMap": "ConfigMap", "secret": "Secret"}
        optional = source.get("optional", False)
        found = self.api.get("v1", kinds[kind], name, self.pod["metadata"]["namespace"])
        if found is None:
            if optional:
                return
            raise NotYet(f'{kind.lower()} "{name}" not found', "ContainerCreating")
        write_keys(path, data_of(found), source.get("items"), mode, name, optional)

    def projected(self, path: Path, part: dict, mode: int) -> None:
        for kind in ("configMap", "secret"):
            if kind in part:
                self.keyed(path, kind, part[kind], mode)
        if "downwardAPI" in part:
            self.downward(path, part["downwardAPI"].get("items", []))
        if "serviceAccountToken" in part:
            target = path / part["serviceAccountToken"]["path"]
            target.write_text(self.token(part["serviceAccountToken"]))
            target.chmod(0o644)

    def token(self, source: dict) -> str:
        meta = self.pod["metadata"]
        account = self.pod["spec"].get("serviceAccountName", "default")
        spec: dict = {
            "expirationSeconds": source.get("expirationSeconds", TOKEN_S),
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": meta["name"],
                               "uid": meta["uid"]},
        }
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        where = self.api.path("v1", "ServiceAccount", meta["namespace"], account, "token")
        return self.api.request("POST", where, asked)["status"]["token"]

    def downward(self, path: Path, items: list[dict]) -> None:
        for item in items:
            if "fieldRef" not in item:
                raise NotYet("downwardAPI: only fieldRef is supported", "ContainerCreating")
            value = field_of(self.pod, item["fieldRef"]["fieldPath"], self.environment.addresses)
            target = path / item["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(value)
