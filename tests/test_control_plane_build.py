"""The builder of the tests' control plane, on a small module of Go that nothing has fetched yet."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

CLUSTER = Path(__file__).parent / "cluster"
sys.path.insert(0, str(CLUSTER))
import build  # noqa: E402
import programs  # noqa: E402

VERSION = "v1.0.0"
GO_MOD = "module example.org/operator\n\ngo 1.20\n"


@dataclass(frozen=True)
class Local(programs.Module):
    where: str = ""

    @property
    def source(self) -> Path:
        return Path(self.where)


def serve(proxy: Path) -> None:
    """The files that a proxy of modules has, for example.org/operator."""
    served = proxy / "example.org/operator/@v"
    served.mkdir(parents=True)
    served.joinpath("list").write_text(VERSION + "\n")
    served.joinpath(f"{VERSION}.info").write_text(json.dumps({"Version": VERSION}))
    served.joinpath(f"{VERSION}.mod").write_text(GO_MOD)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as module:
        root = f"example.org/operator@{VERSION}/"
        module.writestr(root + "go.mod", GO_MOD)
        module.writestr(root + "main.go", "package main\n\nfunc main() {}\n")
        module.writestr(root + "config/crds.yaml", "kind: CustomResourceDefinition\n")
    served.joinpath(f"{VERSION}.zip").write_bytes(packed.getvalue())


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_files_of_a_module_that_is_not_fetched_yet_are_kept(tmp_path, monkeypatch):
    serve(tmp_path / "proxy")
    source = tmp_path / "source"
    source.mkdir()
    source.joinpath("go.mod").write_text(
        f"module tools\n\ngo 1.20\n\nrequire example.org/operator {VERSION}\n")
    monkeypatch.setattr(build, "cache_root", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    builder = build.Builder(limit_s=300)
    builder.env |= {"GOPROXY": (tmp_path / "proxy").as_uri(), "GOSUMDB": "off",
                    "GOFLAGS": "-mod=mod"}
    module = Local("tools", {}, [programs.Files("crds", "example.org/operator", "config/*.yaml")],
                   where=str(source))
    try:
        with open(tmp_path / "log", "w") as log:
            builder.keep_files(module, tmp_path, log)
        assert (tmp_path / "files/crds/crds.yaml").read_text().startswith("kind: Custom")
    finally:
        builder.drop_caches()
