"""Another API server on the etcd of the cluster: one that may be restarted, or that has kinds of
its own."""

from __future__ import annotations

from pathlib import Path

from .api import Api, ApiError
from .component import Component

PORT = 6444


class SecondServer:
    """Serves on 127.0.0.1:PORT with the certificates of the first one."""

    def __init__(self, cluster, *more: str):
        first = cluster.plane.components["kube-apiserver"].process
        words = Path(f"/proc/{first.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        program = next(i for i, word in enumerate(words) if word.endswith("/kube-apiserver"))
        own = {"--secure-port": f"--secure-port={PORT}",
               "--audit-log-path": f"--audit-log-path={cluster.directory}/second-audit.log"}
        self.command = ["setpriv", "--pdeathsig", "KILL", "--",
                        *(own.get(word.partition("=")[0], word) for word in words[program:]),
                        *more]
        self.log = cluster.directory / "second-apiserver.log"
        pki = cluster.plane.pki
        self.api = Api("127.0.0.1", PORT, pki.crt("ca"), cert=pki.crt("admin"),
                       key=pki.key("admin"))
        self.start()

    def start(self) -> None:
        self.component = Component("second-apiserver", self.command, self.log)
        self.component.wait_ready(self.is_ready)

    def is_ready(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok"
        except ApiError:
            return False

    def kill(self) -> None:
        self.component.kill()
