"""The programs of the control plane: which there are, and where their builds lie.

Needs nothing but Python's own library: build.py runs before the project's environment exists.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

MODULES_DIR = Path(__file__).resolve().parent / "go"
RAY_PACKAGES = Path(__file__).resolve().parent / "ray.txt"

KUBERNETES = "v1.37.2"
KUBE_FLAGS = " ".join(
    f"-X {variable}={value}"
    for variable, value in [
        ("k8s.io/component-base/version.gitVersion", KUBERNETES),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "37"),
        ("k8s.io/client-go/pkg/version.gitVersion", KUBERNETES),
    ]
)


@dataclass(frozen=True)
class Files:
    """Files of a Go module that the tests read: kept beside its programs, in `name`/."""

    name: str
    module: str
    pattern: str


@dataclass(frozen=True)
class Module:
    """One go.mod: what is built from it, and what is copied out of the modules it names."""

    name: str
    programs: dict[str, str]  # program: package
    files: list[Files] = field(default_factory=list)
    flags: str = ""

    @property
    def source(self) -> Path:
        return MODULES_DIR / self.name

    def directory(self, go_version: str) -> Path:
        """Where the builds of exactly this source by exactly this Go lie."""
        files = sorted(map(repr, self.files))
        what = (go_version, sorted(self.programs.items()), files, self.flags)
        digest = hashlib.sha256(repr(what).encode())
        for path in sorted(self.source.rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(self.source).as_posix().encode())
                digest.update(path.read_bytes())
        return cache_root() / f"{self.name}-{digest.hexdigest()[:16]}"


# In the order in which they are built: what proves most comes first.
MODULES = [
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "kube",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        },
        flags=KUBE_FLAGS,
    ),
    Module(
        "ops",
        {
            "yamljson": "./yamljson",
            "jobset": "sigs.k8s.io/jobset",
            "training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1",
            "trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
            "kwok": "sigs.k8s.io/kwok/cmd/kwok",
            "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
            "kueue": "sigs.k8s.io/kueue/cmd/kueue",
        },
        [
            Files("kwok/node", "sigs.k8s.io/kwok",
                  "kustomize/stage/node/fast/node-initialize.yaml"),
            Files("kwok/node", "sigs.k8s.io/kwok",
                  "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
            Files("kwok/pod", "sigs.k8s.io/kwok", "kustomize/stage/pod/fast/pod-*.yaml"),
            Files("jobset/crds", "sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml"),
            Files("jobset/webhooks", "sigs.k8s.io/jobset",
                  "config/components/webhook/manifests.yaml"),
            Files("training-operator/crds", "github.com/kubeflow/training-operator",
                  "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
            Files("training-operator/webhooks", "github.com/kubeflow/training-operator",
                  "manifests/base/webhook/manifests.yaml"),
            Files("trainer/crds", "github.com/kubeflow/trainer/v2",
                  "manifests/base/crds/trainer.kubeflow.org_*.yaml"),
            Files("trainer/webhooks", "github.com/kubeflow/trainer/v2",
                  "manifests/base/webhook/manifests.yaml"),
            Files("trainer/runtimes", "github.com/kubeflow/trainer/v2",
                  "manifests/base/runtimes/torch_distributed.yaml"),
            Files("kueue/crds", "sigs.k8s.io/kueue", "config/components/crd/bases/*.yaml"),
            Files("kueue/webhooks", "sigs.k8s.io/kueue",
                  "config/components/webhook/manifests.yaml"),
            Files("mpi-operator/crds", "github.com/kubeflow/mpi-operator",
                  "manifests/base/kubeflow.org_mpijobs.yaml"),
        ],
    ),
    Module(
        "volcano",
        {
            f"volcano-{name}": f"volcano.sh/volcano/cmd/{name}"
            for name in ["scheduler", "controller-manager", "webhook-manager"]
        },
        [
            Files("volcano/crds", "volcano.sh/volcano", "config/crd/volcano/bases/*.yaml"),
            Files("volcano/crds", "volcano.sh/volcano", "config/crd/jobflow/bases/*.yaml"),
            Files("volcano/webhooks", "volcano.sh/volcano",
                  "installer/helm/chart/volcano/templates/webhooks.yaml"),
            Files("volcano/config", "volcano.sh/volcano",
                  "installer/helm/chart/volcano/config/volcano-scheduler.conf"),
        ],
    ),
    Module(
        "schedplugins",
        {"coscheduling": "sigs.k8s.io/scheduler-plugins/cmd/scheduler"},
        [Files("coscheduling/crds", "sigs.k8s.io/scheduler-plugins",
               "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml")],
    ),
    Module(
        "kuberay",
        {"kuberay": "github.com/ray-project/kuberay/ray-operator"},
        [Files("kuberay/crds", "github.com/ray-project/kuberay/ray-operator",
               "config/crd/bases/ray.io_*.yaml")],
    ),
]


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shanty" / "control-plane"


def module_of(program: str) -> Module:
    return next(module for module in MODULES if program in module.programs)


def ray_directory(python: str) -> Path:
    """Where Ray lies for that version of Python."""
    digest = hashlib.sha256(python.encode() + RAY_PACKAGES.read_bytes())
    return cache_root() / f"ray-{digest.hexdigest()[:16]}"


class Built:
    """What is there of the builds that index.json, written by build.py, names."""

    def __init__(self, index: dict):
        self.directories = {name: Path(path) for name, path in index["modules"].items()}
        self.notes = index["notes"]
        self.ray = Path(index.get("ray", "/nonexistent"))

    def missing_ray(self) -> str:
        """Why there is no Ray; empty when there is."""
        return "" if self.ray.exists() else f"no Ray: {self.notes.get('ray', 'unknown')}"

    def program(self, name: str) -> Path | None:
        path = self.directories.get(module_of(name).name, Path("/nonexistent")) / "bin" / name
        return path if path.exists() else None

    def files(self, name: str) -> list[Path]:
        """The files kept as `name`, e.g. "jobset/crds"."""
        return sorted(
            path
            for directory in self.directories.values()
            for path in (directory / "files" / name).glob("*")
        )

    def missing(self, programs: list[str]) -> str:
        """Why these programs are not all there; empty when they are."""
        absent = [name for name in programs if self.program(name) is None]
        if not absent:
            return ""
        return f"not built: {', '.join(absent)}: " + "; ".join(
            dict.fromkeys(self.notes.get(module_of(name).name, "unknown") for name in absent)
        )


def prune(keep: list[Path], older_than_s: float, now: float) -> None:
    """Removes builds of former sources that nobody has used for a while."""
    names = ("ray-", *(f"{module.name}-" for module in MODULES))
    for path in cache_root().iterdir():
        if path.name.startswith(names) and path not in keep:
            if now - path.stat().st_mtime > older_than_s:
                shutil.rmtree(path, ignore_errors=True)
