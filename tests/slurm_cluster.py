"""A Slurm of two nodes on this machine, from build/slurm (scripts/slurm.sh), in namespaces of its own.

Its first process holds the namespaces; when it ends the kernel ends all that is in them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from conftest import LIMIT_S, ROOT, SHANTY

SLURM = ROOT / "build" / "slurm"
NODES = ("n1", "n2")
NAMESPACES = ["--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]

CONFIG = """\
ClusterName=test
SlurmctldHost=n0
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
PluginDir={plugins}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
KillWait=100
MessageTimeout=100
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=n0 NodeAddr=127.0.0.1 Port={port} CPUs=1"

# Slurm refuses a network of nothing but loopback.
SET_UP = """
set -e
mount --bind {dir}/hosts /etc/hosts
hostname n0
ip link set lo up
ip link add outside type veth peer name inside
ip addr add 10.99.0.1/24 dev outside
ip link set outside up
ip link set inside up
{munged} --foreground --force --socket={dir}/munge.socket --key-file={dir}/munge.key \
  --pid-file={dir}/munge.pid --log-file={dir}/munge.log --seed-file={dir}/munge.seed &
while [ ! -S {dir}/munge.socket ]; do sleep 0.05; done
slurmctld-wlm -D >{dir}/slurmctld.log 2>&1 &
for node in {nodes}; do
  slurmd-wlm -D -N $node -d {slurmstepd} >{dir}/slurmd-$node.log 2>&1 &
done
echo ready
read -r _
"""


def why_not() -> str:
    if not (SLURM / "complete").exists():
        return "Slurm is not unpacked: run scripts/slurm.sh"
    if os.geteuid() != 0:
        return "needs root for namespaces"
    absent = [tool for tool in ("ip", "unshare", "nsenter", "mount") if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True)
    return f"namespaces do not work here: {tried.stderr.strip()}" if tried.returncode else ""


class Slurm:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        libraries = SLURM / "usr/lib/x86_64-linux-gnu"
        self.env = {
            **os.environ,
            "SLURM_CONF": str(directory / "slurm.conf"),
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/slurm-wlm",
            "PATH": ":".join([str(SHANTY.parent), str(ROOT / "build/venv/bin"),
                              str(SLURM / "usr/bin"), str(SLURM / "usr/sbin"),
                              os.environ["PATH"]]),
        }
        self._write_files(libraries / "slurm-wlm")
        script = SET_UP.format(dir=directory, munged=SLURM / "usr/sbin/munged",
                               slurmstepd=self._slurmstepd(), nodes=" ".join(NODES))
        self.holder = subprocess.Popen(["unshare", *NAMESPACES, "bash", "-c", script], env=self.env,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=open(directory / "set-up.log", "w"), text=True)
        assert self.holder.stdout.readline() == "ready\n", self.describe()
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text()
        self.inside = children.split()[0]
        self.wait(lambda: self.ask("sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"],
                  "both nodes are idle")

    @staticmethod
    def _slurmstepd() -> Path:
        return next(path for path in (SLURM / "usr/sbin").iterdir()
                    if path.name.startswith("slurmstepd"))

    def _write_files(self, plugins: Path) -> None:
        nodes = "\n".join(NODE.format(name=name, port=16821 + i) for i, name in enumerate(NODES))
        files = {
            "slurm.conf": CONFIG.format(dir=self.directory, plugins=plugins, nodes=nodes),
            "hosts": "127.0.0.1 localhost n0 n1 n2\n",
        }
        for name, text in files.items():
            (self.directory / name).write_text(text)
        (self.directory / "state").mkdir()
        (self.directory / "munge.key").write_bytes(os.urandom(1024))
        (self.directory / "munge.key").chmod(0o600)

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        inner = f"cd {shlex.quote(str(cwd or self.directory))} && exec {shlex.join(command)}"
        enter = ["nsenter", "-t", self.inside, "--mount", "--net", "--uts", "--pid"]
        return subprocess.run([*enter, "bash", "-c", inner], env=self.env, text=True,
                              capture_output=True, timeout=LIMIT_S)

    def ask(self, *command: str) -> str:
        return self.run(*command).stdout.strip()

    def wait(self, condition, what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not so\n{self.describe()}"
            time.sleep(0.1)

    def processes(self, word: str) -> list[str]:
        """Command lines in the namespaces that hold `word`."""
        return [line for line in self.ask("ps", "-eo", "args").splitlines() if word in line]

    def describe(self) -> str:
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs)

    def close(self) -> None:
        # With it goes the namespaces' first process, and with that all others.
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stdin.close()
