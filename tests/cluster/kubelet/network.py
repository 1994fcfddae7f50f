"""A pod's network: a namespace held open by a process that only sleeps, on the bridge."""

from __future__ import annotations

import ipaddress
import itertools
import subprocess
import threading

from ..sandbox import BRIDGE, GATEWAY

LIMIT_S = 20
RUN = """
hostname "$1" && ip link set lo up && echo ready && exec sleep infinity
"""


class Addresses:
    """Gives out addresses; one in use is never given twice."""

    def __init__(self, first: str):
        self.first, self.lock, self.used = ipaddress.IPv4Address(first), threading.Lock(), set()

    def take(self) -> str:
        with self.lock:
            candidates = (str(self.first + index) for index in itertools.count())
            address = next(each for each in candidates if each not in self.used)
            self.used.add(address)
            return address

    def give_back(self, address: str) -> None:
        with self.lock:
            self.used.discard(address)


def run(*command: str, text: str | None = None) -> None:
    subprocess.run(command, input=text, check=True, timeout=LIMIT_S, text=True, capture_output=True)


class PodNetwork:
    """Namespaces of network, host name and IPC, joined by the pod's containers."""

    def __init__(self, hostname: str, address: str):
        self.address = address
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--ipc",
             "sh", "-c", RUN, "sh", hostname],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )
        if self.holder.stdout.readline() != "ready\n":
            raise OSError("no namespaces for a pod")
        pid, link = str(self.holder.pid), f"v{self.holder.pid}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", link, "master", BRIDGE, "up")
        run("nsenter", "-t", pid, "-n", "ip", "-batch", "-", text=(
            f"addr add {address}/16 dev eth0\nlink set eth0 up\nroute add default via {GATEWAY}\n"))

    @property
    def pid(self) -> int:
        return self.holder.pid

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
