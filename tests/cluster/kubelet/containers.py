"""One container of a pod over its restarts: started, watched, signalled, its status told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .environment import Environment, NotYet, expand
from .images import find

LAUNCHER = Path(__file__).with_name("launcher.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIRST_BACK_OFF_S, MAX_BACK_OFF_S = 0.5, 8.0  # a real kubelet: 10 s and 5 min


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Container:
    def __init__(self, spec: dict, directory: Path, init: bool):
        self.spec, self.name, self.init = spec, spec["name"], init
        self.directory = directory / self.name
        self.directory.mkdir(parents=True)
        self.process: subprocess.Popen | None = None
        self.restarts = 0
        self.started_at = ""
        self.waiting: tuple[str, str] = ("PodInitializing", "")
        self.ended: dict | None = None  # how it ended last, and the time before
        self.ended_before: dict | None = None
        self.next_start = 0.0

    @property
    def sidecar(self) -> bool:
        return self.init and self.spec.get("restartPolicy") == "Always"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def succeeded(self) -> bool:
        return not self.running and self.ended is not None and self.ended["exitCode"] == 0

    def log(self, previous: bool = False) -> Path:
        return self.directory / f"{self.restarts - previous}.log"

    def start(self, pod: dict, environment: Environment, volumes: dict[str, Path],
              files: list[dict], images: dict, sandbox: int) -> None:
        image = find(images, self.spec["image"])
        env = environment.of(self.spec, {"PATH": PATH, "HOME": "/root", **image["env"]})
        command = self.spec.get("command") or image["command"]
        argv = [expand(part, env) for part in [*command, *self.spec.get("args", [])]]
        if not argv:
            raise NotYet("no command specified", "CreateContainerError")
        root = self.directory / f"root-{self.restarts}"
        root.mkdir(exist_ok=True)
        spec = {
            "kubelet": os.getpid(), "sandbox": sandbox, "directory": str(root), "argv": argv,
            "env": env, "cwd": self.spec.get("workingDir") or "/",
            "image": image["root"], "binds": image["binds"], "nice": image["nice"],
            "mounts": files + self.mounts(volumes, env), **self.security(pod, image),
        }
        path = self.directory / "spec.json"
        path.write_text(json.dumps(spec))
        with open(self.log(), "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(path)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )
        self.started_at = now()

    def mounts(self, volumes: dict[str, Path], env: dict[str, str]) -> list[dict]:
        made = []
        for entry in self.spec.get("volumeMounts", []):
            source = volumes[entry["name"]]
            part = entry.get("subPath") or expand(entry.get("subPathExpr", ""), env)
            if part:
                source = source / part
                if not source.exists():
                    source.mkdir(parents=True)
            made.append({"source": str(source), "target": entry["mountPath"].rstrip("/"),
                         "read_only": entry.get("readOnly", False)})
        return made

    def security(self, pod: dict, image: dict) -> dict:
        general = pod["spec"].get("securityContext") or {}
        own = {**general, **(self.spec.get("securityContext") or {})}
        uid = own.get("runAsUser", image["user"])
        if own.get("runAsNonRoot") and uid == 0:
            raise NotYet("container has runAsNonRoot and image will run as root")
        capabilities = own.get("capabilities") or {}
        return {
            "uid": uid, "gid": own.get("runAsGroup", 0 if uid == 0 else image.get("group", 0)),
            "groups": [*general.get("supplementalGroups", []),
                       *([general["fsGroup"]] if "fsGroup" in general else [])],
            "privileged": own.get("privileged", False),
            "drop": capabilities.get("drop") or [], "add": capabilities.get("add") or [],
            "no_new_privileges": own.get("allowPrivilegeEscalation") is False,
            "read_only_root": own.get("readOnlyRootFilesystem", False),
        }

    def reap(self) -> bool:
        """Whether it has ended since; notes how."""
        if self.process is None or self.process.poll() is None:
            return False
        code = self.process.returncode
        code = code if code >= 0 else 128 - code
        self.process = None
        self.ended_before = self.ended
        self.ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error",
                      "startedAt": self.started_at, "finishedAt": now()}
        return True

    def plan_restart(self) -> None:
        delay = min(FIRST_BACK_OFF_S * 2**self.restarts, MAX_BACK_OFF_S)
        self.next_start = time.monotonic() + delay
        self.restarts += 1
        self.waiting = ("CrashLoopBackOff", f"back-off {delay} s restarting failed container")

    def signal(self, number: int) -> None:
        if self.running:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """What it has printed is kept; all its processes die with the first one."""
        self.signal(signal.SIGUSR1)

    def status(self, done: bool) -> dict:
        """As in containerStatuses; `done`: nothing will start it again."""
        state: dict = {"waiting": {"reason": self.waiting[0]}}
        if self.waiting[1]:
            state["waiting"]["message"] = self.waiting[1]
        running = self.running
        if running:
            state = {"running": {"startedAt": self.started_at}}
        elif self.ended and done:
            state = {"terminated": self.ended}
        last = self.ended_before if done and not running else self.ended
        return {
            "name": self.name, "image": self.spec["image"],
            "imageID": f"tests/{self.spec['image']}", "containerID": f"tests://{self.name}",
            "ready": self.succeeded if self.init and not self.sidecar else running,
            "started": running, "restartCount": self.restarts, "state": state,
            "lastState": {"terminated": last} if last else {},
        }
