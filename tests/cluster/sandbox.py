"""A network and a mount namespace of its own for one cluster.

Nothing is kept alive for them but two open files: the namespaces go when these files and the
processes inside are gone. The network inside is one bridge on which nodes and pods sit; there is no
way out of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
BRIDGE = "cluster"
GATEWAY = "10.244.0.1"  # of all pods and nodes; DNS and the kubelet's port are here
API_ADDRESS = "10.0.0.1"  # the Service `kubernetes`
TOOLS = ["ip", "nsenter", "setpriv", "unshare", "mount", "openssl"]

SET_UP = f"""
set -e
mount --make-rprivate /
mkdir -p /tmp/k8s-webhook-server
mount -t tmpfs webhooks /tmp/k8s-webhook-server
mount -t tmpfs etc /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay etc -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
umount -l /mnt
rm -f /etc/resolv.conf
echo nameserver {GATEWAY} >/etc/resolv.conf
ip link set lo up
ip link add {BRIDGE} type bridge
ip addr add {GATEWAY}/16 dev {BRIDGE}
ip addr add {API_ADDRESS}/32 dev {BRIDGE}
ip link set {BRIDGE} up
echo ready
read -r _
"""

libc = ctypes.CDLL(None, use_errno=True)


def set_namespace(fd: int, kind: int) -> None:
    if libc.setns(fd, kind) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


def why_not() -> str:
    """Why a sandbox cannot be made here; empty when it can."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root for network and mount namespaces"
    try:
        Sandbox().close()
    except (OSError, RuntimeError) as error:
        return f"network and mount namespaces do not work here: {error}"
    return ""


class Sandbox:
    def __init__(self) -> None:
        maker = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", SET_UP], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        if maker.stdout.readline() != "ready\n":
            raise RuntimeError(maker.communicate(timeout=60)[1].strip())
        spaces = f"/proc/{maker.pid}/ns"
        self.net = os.open(f"{spaces}/net", os.O_RDONLY)
        self.mnt = os.open(f"{spaces}/mnt", os.O_RDONLY)
        self.outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        maker.communicate("\n", timeout=60)

    def close(self) -> None:
        for fd in (self.net, self.mnt, self.outside):
            os.close(fd)

    def command(self, *command: str, network_only: bool = False) -> list[str]:
        """`command` inside, and never outliving this thread."""
        here = f"/proc/{os.getpid()}/fd"
        mount = [] if network_only else [f"--mount={here}/{self.mnt}"]
        return ["nsenter", f"--net={here}/{self.net}", *mount, "--",
                "setpriv", "--pdeathsig", "KILL", "--", *command]

    @contextlib.contextmanager
    def network(self):
        """This thread, and what it starts, is on the network inside meanwhile."""
        set_namespace(self.net, CLONE_NEWNET)
        try:
            yield
        finally:
            set_namespace(self.outside, CLONE_NEWNET)

    def run(self, *command: str, **options) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*command), check=True, timeout=120, text=True,
                              stdin=options.pop("stdin", subprocess.DEVNULL), **options)


