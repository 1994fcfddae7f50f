"""Runs one container: python launcher.py SPEC.json. Waits for it and ends as it ended.

Joins the pod's network, host name and IPC, makes mount and process namespaces of its own, lays the
container's root together and becomes its first process. Nothing of it outlives this process, which
keeps what it prints as container runtimes do: TIME stdout F TEXT, or P where the line goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

NEW = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000,
       "net": 0x40000000}
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
LAST_CAPABILITY = 40
MAX_STEPS = 200  # of a path, its links followed
SHM_BYTES = 64 << 20  # what a container runtime gives /dev/shm
LONGEST_PART = 16 << 10  # of a line
READ_BYTES = 1 << 16
DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]
# What container runtimes leave to root: chown, dac_override, fowner, fsetid, kill, setgid, setuid,
# setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
DEFAULT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
NAMED_CAPABILITIES = {"IPC_LOCK": 14, "SYS_ADMIN": 21, "SYS_NICE": 23, "SYS_PTRACE": 19,
                      "SYS_RESOURCE": 24, "NET_ADMIN": 12, "NET_RAW": 13}

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    check(libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags),
                     data.encode() or None), f"mount {source} on {target}")


def bind(source: str, target: str, read_only: bool = False) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def inside(root: str, path: str) -> str:
    """`path` seen from `root`: a link on the way leads within it."""
    done: list[str] = []
    parts = [part for part in path.split("/") if part]
    for _ in range(MAX_STEPS):
        if not parts:
            return "/".join([root, *done])
        part = parts.pop(0)
        here = "/".join([root, *done, part])
        if part == "..":
            done = done[:-1]
        elif os.path.islink(here):
            target = os.readlink(here)
            done = [] if target.startswith("/") else done
            parts = [step for step in target.split("/") if step not in ("", ".")] + parts
        else:
            done.append(part)
    raise OSError(errno.ELOOP, f"too many links: {path}")


def open_way(root: str, path: str) -> None:
    """Lets every user reach `path`, also below a home that is closed to others."""
    here = root
    for part in path.split("/")[1:-1]:
        here += "/" + part
        os.chmod(here, os.stat(here).st_mode | 0o555)


def lay_root(spec: dict) -> str:
    """The container's root: this machine's, a writable layer that nothing keeps, and mounts."""
    base, root = spec["directory"], f"{spec['directory']}/root"
    mount("container", base, "tmpfs", data="mode=755")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{base}/{name}")
    if spec["image"]:  # not a layer of its own: it may lie within the layer below
        shutil.copytree(spec["image"], f"{base}/upper", dirs_exist_ok=True, symlinks=True)
    mount("image", root, "overlay", data=f"lowerdir=/,upperdir={base}/upper,workdir={base}/work")
    for name, mode in [("tmp", "1777"), ("run", "755"), ("dev", "755")]:
        mount(name, f"{root}/{name}", "tmpfs", data=f"mode={mode}")
    mount("proc", f"{root}/proc", "proc")
    mount("sysfs", f"{root}/sys", "sysfs", flags=MS_RDONLY)
    for name in DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    os.mkdir(f"{root}/dev/shm")
    mount("shm", f"{root}/dev/shm", "tmpfs", data=f"mode=1777,size={SHM_BYTES}")
    for path in spec["binds"]:
        bind(path, inside(root, path), read_only=True)
        open_way(root, path)
    for entry in sorted(spec["mounts"], key=lambda entry: entry["target"].count("/")):
        bind(entry["source"], inside(root, entry["target"]), entry.get("read_only", False))
    os.makedirs(inside(root, spec["cwd"]), exist_ok=True)
    if spec["read_only_root"]:
        mount("", root, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    return root


def enter_root(root: str) -> None:
    os.chdir(root)
    mount(".", "/", flags=MS_MOVE)
    os.chroot(".")


def take_identity(spec: dict) -> None:
    if not spec["privileged"]:
        kept = set() if "ALL" in spec["drop"] else set(DEFAULT_CAPABILITIES)
        kept |= {NAMED_CAPABILITIES[name] for name in spec["add"]}
        for capability in set(range(LAST_CAPABILITY + 1)) - kept:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.fchown(1, spec["uid"], -1)  # so that the container can open /proc/1/fd/1
    os.setgroups(spec["groups"])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    if spec["no_new_privileges"]:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def become(spec: dict) -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    enter_root(lay_root(spec))
    os.chdir(spec["cwd"])
    take_identity(spec)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the change of identity cleared it
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def now_text() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{nanoseconds:09d}Z".encode()


class LogWriter:
    """Keeps output in a file, line by line."""

    def __init__(self, file: int):
        self.file, self.rest = file, b""

    def feed(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        entries = [entry for line in lines for entry in self.entries(line)]
        while len(self.rest) >= LONGEST_PART:
            entries.append(self.entry(b"P", self.rest[:LONGEST_PART]))
            self.rest = self.rest[LONGEST_PART:]
        self.write(b"".join(entries))

    def close(self) -> None:
        if self.rest:
            self.feed(b"\n")

    def entries(self, line: bytes):
        while len(line) > LONGEST_PART:
            yield self.entry(b"P", line[:LONGEST_PART])
            line = line[LONGEST_PART:]
        yield self.entry(b"F", line)

    @staticmethod
    def entry(tag: bytes, text: bytes) -> bytes:
        return b"%s stdout %s %s\n" % (now_text(), tag, text)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.file, data):]


def keep_output(pipe: int) -> None:
    """Until the last process of the container has closed it."""
    log = LogWriter(1)
    while data := os.read(pipe, READ_BYTES):
        log.feed(data)
    log.close()


def take_priority(nice: int) -> None:
    """Best effort; with autogroups what counts is that of the session."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


def pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended this moment
        os.kill(child, number)


def main() -> int:
    spec = json.loads(Path(sys.argv[1]).read_text())
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != spec["kubelet"]:
        return 1
    if spec["nice"]:
        take_priority(spec["nice"])
    for space in ("net", "uts", "ipc"):
        with open(f"/proc/{spec['sandbox']}/ns/{space}") as file:
            check(libc.setns(file.fileno(), NEW[space]), f"join {space}")
    check(libc.unshare(NEW["mnt"] | NEW["pid"]), "unshare")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    output, printed = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        try:
            become(spec)
        except OSError as error:
            print(f"container: {error}", file=sys.stderr, flush=True)
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    os.close(printed)
    for told, meant in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGUSR1, signal.SIGKILL)):
        signal.signal(told, lambda *_, meant=meant: pass_on(child, meant))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGUSR1])
    keep_output(output)
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    try:
        os._exit(main())
    except OSError as failure:
        LogWriter(1).feed(f"container: {failure}\n".encode())
        os._exit(128)
