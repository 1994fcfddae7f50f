#!/usr/bin/env python3
"""Builds the control plane's programs from their Go modules into a cache outside the tree.

Never fails: what could not be built is named in build/control-plane.json, and the tests that need
it skip with that reason. A run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

from programs import MODULES, RAY_PACKAGES, Built, Module, cache_root, prune, ray_directory

INDEX = Path(__file__).resolve().parents[2] / "build" / "control-plane.json"
VENV_PYTHON = INDEX.parent / "venv" / "bin" / "python"
RAY_LIMIT_S = 600
GO_NEEDED = (1, 26)
TOOLCHAIN = "v0.0.1-go1.27.3.linux-amd64"
TOOLCHAIN_SHA256 = "af4c06478303fdd1bfb335fab86c7ccb9b12e529044a946a16a1c4bcc779f8d7"
TOOLCHAIN_MAX_BYTES = 200 << 20
DEFAULT_PROXY = "https://proxy.golang.org"
CONNECT_LIMIT_S = 60
POLL_S = 0.5
BUILD_LIMIT_S = float(os.environ.get("SHANTY_CLUSTER_BUILD_LIMIT_S", 900))
FREE_NEEDED_BYTES = 12 << 30  # build and module caches of all of them, measured 9-11 GB
UNUSED_LIMIT_S = 14 * 24 * 3600


class Unavailable(Exception):
    """Something that the builds need is not to be had; says what."""


def say(text: str) -> None:
    print(f"control plane: {text}", flush=True)


def go_version(go: str, env: dict) -> tuple[int, ...]:
    text = subprocess.run([go, "version"], capture_output=True, text=True, env=env).stdout
    found = re.search(r"go(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


def go_setting(go: str | None, name: str) -> str:
    if name in os.environ or go is None:
        return os.environ.get(name, "")
    return subprocess.run([go, "env", name], capture_output=True, text=True).stdout.strip()


def fetch_toolchain(proxies: list[str]) -> str:
    """The path of a go command out of the toolchain module, fetched once and verified."""
    directory = cache_root() / f"toolchain-{TOOLCHAIN}"
    go = directory / "bin" / "go"
    if go.exists():
        return str(go)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Unavailable("no go >= 1.26 on PATH, and its toolchain is only known for linux-amd64")
    data, refused = b"", []
    for proxy in proxies:
        url = f"{proxy}/golang.org/toolchain/@v/{TOOLCHAIN}.zip"
        try:
            with urllib.request.urlopen(url, timeout=CONNECT_LIMIT_S) as answer:
                data = answer.read(TOOLCHAIN_MAX_BYTES)
            break
        except OSError as error:
            refused.append(str(error))
    if not data:
        raise Unavailable(
            f"no go >= 1.26 on PATH, and GOPROXY did not give golang.org/toolchain: {refused}"
        )
    found = hashlib.sha256(data).hexdigest()
    if found != TOOLCHAIN_SHA256:
        raise Unavailable(f"golang.org/toolchain {TOOLCHAIN}: SHA-256 {found} is not the known one")
    unpack(data, f"golang.org/toolchain@{TOOLCHAIN}/", directory)
    return str(go)


def unpack(data: bytes, prefix: str, directory: Path) -> None:
    half = directory.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    archive = cache_root() / "toolchain.zip"
    archive.write_bytes(data)
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            target = half / name.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(files.read(name))
            if re.match(r"(bin|pkg/tool)/", name.removeprefix(prefix)):
                target.chmod(0o755)
    archive.unlink()
    half.rename(directory)


class Builder:
    def __init__(self, limit_s: float) -> None:
        self.deadline = time.monotonic() + limit_s
        self.work = cache_root() / "gopath"  # build and module caches, while something is unbuilt
        own = shutil.which("go")
        proxies = go_setting(own, "GOPROXY") or DEFAULT_PROXY
        downloads = Path(go_setting(own, "GOMODCACHE") or Path.home() / "go/pkg/mod")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GO")},
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOPROXY": f"{(downloads / 'cache/download').as_uri()},{proxies}",
            "GOMODCACHE": str(self.work / "mod"),
            "GOCACHE": str(self.work / "build"),
            "GOMAXPROCS": os.environ.get("GOMAXPROCS", "2"),
        }
        usable = own and go_version(own, self.env) >= GO_NEEDED
        fetched_from = [p for p in re.split("[,|]", proxies) if re.match("(https?|file)://", p)]
        self.go = own if usable else fetch_toolchain(fetched_from)
        self.version = subprocess.run(
            [self.go, "version"], capture_output=True, text=True, env=self.env, check=True
        ).stdout.strip()

    def run(self, module: Module, log, *args: str) -> str:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(f"the limit of {BUILD_LIMIT_S:.0f} s for builds was reached; "
                              "the next `make test` goes on from there")
        try:
            done = subprocess.run(
                ["nice", "-n", "10", self.go, *args], cwd=module.source, env=self.env, timeout=left,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"the limit of {BUILD_LIMIT_S:.0f} s for builds was reached in module "
                f"{module.name}; the next `make test` goes on from there") from None
        if done.returncode != 0:
            raise Unavailable(f"go {args[0]} failed in module {module.name}: see {log.name}")
        return done.stdout

    def build(self, module: Module) -> None:
        directory = module.directory(self.version)
        (directory / "bin").mkdir(parents=True, exist_ok=True)
        with open(directory / "log", "a") as log:
            if module.files and not (directory / "files").exists():
                self.keep_files(module, directory, log)
            for name, package in module.programs.items():
                program = directory / "bin" / name
                if program.exists():
                    continue
                self.need_space()
                started = time.monotonic()
                half = directory / f"{name}.half"
                self.run(module, log, "build", "-p", self.env["GOMAXPROCS"], "-trimpath",
                         "-buildvcs=false", "-ldflags", f"-s -w {module.flags}".strip(),
                         "-o", str(half), package)
                half.rename(program)
                say(f"built {name} in {time.monotonic() - started:.0f} s")
        (directory / "complete").touch()

    def keep_files(self, module: Module, directory: Path, log) -> None:
        half = directory / "files.half"
        shutil.rmtree(half, ignore_errors=True)
        for files in module.files:
            # `list` would not say where a module is that nothing has fetched yet.
            fetched = json.loads(self.run(module, log, "mod", "download", "-json", files.module))
            found = sorted(Path(fetched["Dir"]).glob(files.pattern))
            if not found:
                raise Unavailable(f"{files.module} has no {files.pattern}")
            (half / files.name).mkdir(parents=True, exist_ok=True)
            for path in found:
                (half / files.name / path.name).write_bytes(path.read_bytes())
        half.rename(directory / "files")

    def need_space(self) -> None:
        free = shutil.disk_usage(cache_root()).free
        if free < FREE_NEEDED_BYTES and not self.work.exists():
            raise Unavailable(f"the builds need {FREE_NEEDED_BYTES >> 30} GiB of free disk in "
                              f"{cache_root()}, there are {free >> 30}")

    def drop_caches(self) -> None:
        """The module cache is read-only on purpose; only its own command removes it."""
        if self.work.exists():
            subprocess.run([self.go, "clean", "-cache", "-modcache"], env=self.env,
                           stdin=subprocess.DEVNULL, check=False)
            shutil.rmtree(self.work, ignore_errors=True)


def build_all(wanted: list[str], limit_s: float) -> dict:
    index: dict = {"modules": {}, "notes": {}}
    modules = [module for module in MODULES if not wanted or module.name in wanted]
    try:
        builder = Builder(limit_s)
    except (Unavailable, OSError, subprocess.SubprocessError) as error:
        return {"modules": {}, "notes": {module.name: str(error) for module in MODULES}}
    for module in MODULES:
        index["modules"][module.name] = str(module.directory(builder.version))
    for module in modules:
        directory = Path(index["modules"][module.name])
        try:
            if not (directory / "complete").exists():
                builder.build(module)
            os.utime(directory)
        except (Unavailable, OSError) as error:
            index["notes"][module.name] = str(error)
            say(str(error))
    directories = list(map(Path, index["modules"].values()))
    if all((directory / "complete").exists() for directory in directories):
        builder.drop_caches()
    prune(directories, UNUSED_LIMIT_S, time.time())
    return index


def install_ray(index: dict, limit_s: float) -> None:
    """Ray for the Python of build/venv, in a directory of its own."""
    try:
        version = subprocess.run([VENV_PYTHON, "-c", "import sys; print(sys.version)"], text=True,
                                 capture_output=True, check=True, timeout=60).stdout
        directory = ray_directory(version)
        index["ray"] = str(directory)
        if directory.exists():
            os.utime(directory)
            return
        half = directory.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        say("installing Ray")
        subprocess.run(
            ["nice", "-n", "10", VENV_PYTHON, "-m", "pip", "install", "-q", "--no-deps",
             "--disable-pip-version-check", "--target", half, "-r", RAY_PACKAGES],
            check=True, timeout=limit_s, stdin=subprocess.DEVNULL, text=True, capture_output=True)
        half.rename(directory)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or "").strip().splitlines()[-1:]
        index["notes"]["ray"] = "; ".join([str(error), *said])
        say(f"no Ray: {index['notes']['ray']}")


@contextlib.contextmanager
def alone():
    """One builder at a time: gives the time for builds, none when another took all of it."""
    deadline = time.monotonic() + BUILD_LIMIT_S
    with open(cache_root() / "lock", "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield 0.0
                    return
                time.sleep(POLL_S)
        yield BUILD_LIMIT_S


def main() -> int:
    cache_root().mkdir(parents=True, exist_ok=True)
    with alone() as limit_s:
        index = build_all(sys.argv[1:], limit_s)
        install_ray(index, RAY_LIMIT_S)
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    INDEX.write_text(json.dumps(index, indent=1) + "\n")
    built = Built(index)
    programs = [name for module in MODULES for name in module.programs]
    present = sum(built.program(name) is not None for name in programs)
    say(f"{present} of {len(programs)} programs are built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
