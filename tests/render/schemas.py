"""Checks objects against the openAPIV3Schema of their CRD, and pods of native kinds against the
pod that the CRDs carry, with unknown fields refused as the API server's strict validation does."""

import functools
import os
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = Path(os.environ.get("SHANTY_SHARED", ROOT.parent / "shared")) / "crds"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def crds():
    """{(group, version, kind, directory): schema}"""
    found = {}
    for path in sorted(SHARED.glob("*/*.yaml")):
        crd = yaml.load(path.read_text(), Loader=LOADER)
        for version in crd["spec"]["versions"]:
            key = (crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"])
            found[(*key, path.parent.name)] = version["schema"]["openAPIV3Schema"]
    return found


def crd_schema(group, version, kind, trainer):
    # No runtimes are there for 2.0 and 2.2, so those of the next version stand in.
    wanted = {"2.0": ["v2.0", "v2.1"], "2.1": ["v2.1"], "2.2": ["v2.2", "v2.3"], "2.3": ["v2.3"]}
    for (g, v, k, directory), schema in crds().items():
        if (g, v, k) == (group, version, kind) and not group.startswith("trainer."):
            return schema
    for prefix in wanted[trainer]:
        for cluster in ("", "Cluster"):
            for (g, v, k, directory), schema in crds().items():
                if (g, v, k) == (group, version, cluster + kind) and f"-{prefix}" in directory:
                    return schema
    return None


def pod_template():
    jobset = crd_schema("jobset.x-k8s.io", "v1alpha2", "JobSet", "2.3")
    job = jobset["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]
    return job["template"]["properties"]["spec"]


def text(**values):
    return {"type": "object", "properties": {k: {"type": v} for k, v in values.items()}}


STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
TEXTS = {"type": "array", "items": {"type": "string"}}


def native_schema(api_version, kind):
    job = pod_template()
    template = job["properties"]["template"]["properties"]["spec"]
    gang = {"type": "object", "properties": {"gang": text(minCount="integer")}}
    groups = {"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"}, "schedulingPolicy": gang}}}
    ports = {"type": "array", "items": text(name="string", port="integer")}
    rules = {"type": "array", "items": {"type": "object", "properties": {
        "apiGroups": TEXTS, "resources": TEXTS, "verbs": TEXTS}}}
    claim = {"accessModes": TEXTS, "storageClassName": {"type": "string"},
             "resources": {"type": "object", "properties": {"requests": STRINGS}}}
    subjects = {"type": "array", "items": text(kind="string", name="string", namespace="string")}

    def spec(**properties):
        return {"spec": {"type": "object", "properties": properties}}

    schemas = {
        ("v1", "Pod"): {"spec": template},
        ("v1", "Service"): spec(clusterIP={"type": "string"}, selector=STRINGS, ports=ports,
                                publishNotReadyAddresses={"type": "boolean"}),
        ("v1", "Secret"): {"type": {"type": "string"}, "stringData": STRINGS},
        ("v1", "ConfigMap"): {"data": STRINGS},
        ("v1", "PersistentVolumeClaim"): spec(**claim),
        ("batch/v1", "Job"): {"spec": job},
        ("scheduling.k8s.io/v1beta1", "Workload"): spec(podGroupTemplates=groups),
        ("scheduling.k8s.io/v1beta1", "PodGroup"): spec(
            schedulingPolicy=gang, workloadRef=text(workloadName="string", templateName="string")),
        ("v1", "ServiceAccount"): {"automountServiceAccountToken": {"type": "boolean"}},
        ("rbac.authorization.k8s.io/v1", "Role"): {"rules": rules},
        ("rbac.authorization.k8s.io/v1", "RoleBinding"): {
            "roleRef": text(apiGroup="string", kind="string", name="string"), "subjects": subjects},
    }
    properties = schemas.get((api_version, kind))
    return properties and {"type": "object", "properties": properties}


METADATA = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 63}, "namespace": {"type": "string"},
    "labels": STRINGS, "annotations": STRINGS}}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def check(value, schema, path, out):
    if "x-kubernetes-int-or-string" in schema:
        if not isinstance(value, (int, str)) or isinstance(value, bool):
            out.append(f"{path}: expected a number or text")
        return
    wanted = TYPES.get(schema.get("type"))
    if wanted and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        out.append(f"{path}: expected {schema['type']}, found {value!r}")
        return
    if "enum" in schema and value not in schema["enum"]:
        out.append(f"{path}: {value!r} is none of {schema['enum']}")
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            out.append(f"{path}: {value!r} does not match {schema['pattern']}")
        if len(value) > schema.get("maxLength", len(value)):
            out.append(f"{path}: longer than {schema['maxLength']}")
    if isinstance(value, int) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            out.append(f"{path}: {value} is out of range")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), f"{path}[{i}]", out)
    if isinstance(value, dict):
        check_fields(value, schema, path, out)


def check_fields(value, schema, path, out):
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    for key in schema.get("required", []):
        if key not in value:
            out.append(f"{path}.{key} is required")
    for key, item in value.items():
        where = f"{path}.{key}"
        if key in properties:
            # CRDs leave the metadata of templates open.
            bare = key == "metadata" and not properties[key].get("properties")
            check(item, METADATA if bare else properties[key], where, out)
        elif isinstance(extra, dict):
            check(item, extra, where, out)
        elif not is_open:
            out.append(f"{where}: unknown field")


def problems_of(document, trainer="2.3"):
    api_version, kind = document["apiVersion"], document["kind"]
    group, _, version = api_version.rpartition("/")
    schema = native_schema(api_version, kind) or crd_schema(group, version, kind, trainer)
    if schema is None:
        return [f"no schema for {api_version} {kind}"]
    out = []
    properties = {**schema["properties"], "apiVersion": {"type": "string"},
                  "kind": {"type": "string"}, "metadata": METADATA}
    check(document, {**schema, "properties": properties}, kind, out)
    return out
