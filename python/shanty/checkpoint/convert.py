"""`shanty ckpt import` and `export` for formats that only torch knows. Started by the program."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shanty.checkpoint.checkpointer import Checkpointer
from shanty.checkpoint.dtypes import dtype_of
from shanty.checkpoint.engine import BINARY_VARIABLE
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.foreign import Content, Foreign, sort_out

SAVE_LIMIT_S = 3600.0
# What the metadata of a DCP directory names; nothing of it runs code when it is made.
_SAFE = {
    "builtins": {"dict", "list", "set", "tuple", "frozenset", "int", "float", "bool", "str"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "PurePosixPath", "WindowsPath"},
    "torch": {"Size", "device"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
}


class Holder(nn.Module):
    """Tensors under any dotted names, as a module."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            *path, last = name.split(".")
            module: nn.Module = self
            for part in path:
                child = module._modules.get(part)
                if child is None:
                    child = nn.Module()
                    module.add_module(part, child)
                module = child
            module.register_buffer(last, tensor)


# Import.


def read_any(path: Path, allow_pickle: bool) -> Content:
    if path.is_dir():
        if (path / ".metadata").is_file():
            return read_dcp(path, allow_pickle)
        found: dict[str, Tensor] = {}
        for file in sorted(path.glob("*.safetensors")):
            tensors = read_safetensors(file)
            twice = sorted(found.keys() & tensors.keys())
            if twice:
                raise CheckpointError(
                    f"cannot import {path}: {twice[0]} is in several files, as a sharded tensor's "
                    "parts are; put them together first (torch's consolidate_safetensors_files)"
                )
            found.update(tensors)
        if found:
            return Content(found)
        raise CheckpointError(f"cannot import {path}: neither .metadata nor *.safetensors in it")
    if path.suffix == ".safetensors":
        return Content(read_safetensors(path))
    return read_torch(path, allow_pickle)


def read_torch(path: Path, allow_pickle: bool) -> Content:
    try:
        content = torch.load(path, map_location="cpu", weights_only=not allow_pickle)
    except pickle.UnpicklingError:
        raise _more_than_plain(path) from None
    except (OSError, RuntimeError, EOFError) as error:
        raise CheckpointError(f"cannot import {path}: {str(error).splitlines()[0]}") from None
    return sort_out(content)


def _more_than_plain(path: Path) -> CheckpointError:
    return CheckpointError(
        f"cannot import {path}: it holds more than tensors and plain values, and loading that "
        "could run its code (torch.load with weights_only refuses it); if you trust it: "
        "--allow-pickle"
    )


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tied tensors under all of their names, as safetensors.torch.save_model tells them."""
    size = path.stat().st_size
    if size < 8:
        raise CheckpointError(f"cannot read {path}: it is no .safetensors file")
    with open(path, "rb") as file:
        # Private: torch may not warn of memory that it cannot write to.
        memory = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE)
    length = int.from_bytes(memory[:8], "little")
    if length > size - 8:
        raise CheckpointError(f"cannot read {path}: its header is cut short")
    try:
        header = json.loads(memory[8 : 8 + length])
        more = header.pop("__metadata__", {})
        _check_whole(path, more)
        found = {
            name: _read_entry(memory, 8 + length, name, entry) for name, entry in header.items()
        }
        found.update({n: found[kept] for n, kept in more.items() if kept in found and n not in found})
    except CheckpointError as error:
        raise CheckpointError(f"cannot read {path}: {error}") from None
    except (AttributeError, KeyError, RecursionError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"cannot read {path}: its header is not that of a .safetensors file "
            f"({type(error).__name__}: {error})"
        ) from None
    return found


def _read_entry(memory: mmap.mmap, data: int, name: str, entry: dict[str, Any]) -> Tensor:
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(memory) - data:
        raise CheckpointError(f"{name} lies outside of it")
    dtype, shape = dtype_of(entry["dtype"], name), entry["shape"]
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    raw = torch.frombuffer(memory, dtype=torch.uint8, offset=data + begin, count=end - begin)
    # A view must begin at a multiple of its element, and an old file's data may not.
    return raw.clone().view(dtype).reshape(shape)


def _check_whole(path: Path, metadata: dict[str, str]) -> None:
    """PyTorch's DCP writes the parts of a sharded tensor under one name into files of their own, and
    says nowhere how many there are."""
    pieces = json.loads(metadata.get("DCP_SHARDING_INFO", "{}"))
    for key, piece in pieces.items():
        if any(piece["saved_offsets"]) or key != piece["logical_fqn"]:
            raise CheckpointError(
                f"it has only a part of {piece['logical_fqn']}; shanty ckpt export of the whole "
                "checkpoint, or torch's consolidate_safetensors_files, puts the parts together"
            )


class _Metadata(pickle.Unpickler):
    """Of a DCP directory: its own classes, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if not is_dtype and name not in _SAFE.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


def read_dcp(path: Path, allow_pickle: bool) -> Content:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._traverse import set_element
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    plains: dict[str, Any] = {}

    class Planner(DefaultLoadPlanner):
        def load_bytes(self, read_item: Any, value: Any) -> None:
            plain = torch.load(value, map_location="cpu", weights_only=not allow_pickle)
            plains[read_item.dest_index.fqn] = plain

    if not allow_pickle:
        with open(path / ".metadata", "rb") as file:
            try:
                _Metadata(file).load()
            except Exception as error:
                raise CheckpointError(
                    f"cannot import {path}: its .metadata holds more than DCP's own classes "
                    f"({error}); if you trust it: --allow-pickle"
                ) from None
    reader = dcp.FileSystemReader(path)
    metadata = reader.read_metadata()
    found: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        is_tensor = isinstance(entry, TensorStorageMetadata)
        found[name] = torch.empty(entry.size, dtype=entry.properties.dtype) if is_tensor else None
    try:
        planner = Planner(flatten_state_dict=False)
        dcp.load(found, storage_reader=reader, planner=planner, no_dist=True)
    except pickle.UnpicklingError:
        raise _more_than_plain(path) from None
    nested: dict[str, Any] = {}
    for name, value in {**found, **plains}.items():
        set_element(nested, (metadata.planner_data or {}).get(name, (name,)), value)
    return sort_out(nested)


def import_checkpoint(
    source: Path, root: Path, step: int | None, allow_pickle: bool
) -> dict[str, Any]:
    """`step`: in place of the one that the file tells, else 0."""
    content = read_any(source, allow_pickle)
    if not content.model:
        raise CheckpointError(f"cannot import {source}: there are no tensors in it")
    foreign = Foreign(content, Holder(content.model), allow_pickle)
    if step is None:
        step = content.step or 0
    with Checkpointer(root, keep=1_000_000) as checkpointer:
        checkpointer._attached = foreign
        checkpointer.save(step).wait(SAVE_LIMIT_S)
    tensors = [entry.tensor for entry in foreign.tensors()[0]]
    return {
        "from": str(source),
        "to": str(root),
        "step": step,
        "tensors": len(tensors),
        "bytes": sum(t.numel() * t.element_size() for t in tensors),
        "optimizer": content.optimizer is not None,
        "scheduler": content.scheduler is not None,
        "dropped": foreign.dropped,
    }


# Export.


def export_checkpoint(source: Path, target: Path, kind: str, optimizer: bool) -> None:
    if target.exists():
        raise CheckpointError(f"cannot export to {target}: it exists; choose another name")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".shanty-export-") as directory:
        whole = Path(directory) / "whole.safetensors"
        command = [os.environ[BINARY_VARIABLE], "ckpt", "export", str(source), str(whole)]
        if optimizer:
            command.append("--optimizer")
        if subprocess.run(command, stderr=subprocess.PIPE, text=True).returncode:
            raise CheckpointError(f"cannot export {source}: shanty ckpt verify says why")
        tensors = read_safetensors(whole)
        if kind == "torch":
            partial = Path(directory) / "whole.pt"
            torch.save(tensors, partial)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.rename(partial, target)
        else:
            import torch.distributed.checkpoint as dcp

            dcp.save(dict(tensors), checkpoint_id=str(target), no_dist=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="shanty ckpt", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("import")
    verb.add_argument("source", type=Path)
    verb.add_argument("root", type=Path)
    verb.add_argument("--step", type=int)
    verb.add_argument("--allow-pickle", action="store_true")
    verb.add_argument("--json", action="store_true")
    verb = verbs.add_parser("export")
    verb.add_argument("source", type=Path)
    verb.add_argument("target", type=Path)
    verb.add_argument("--format", choices=("torch", "dcp"), required=True)
    verb.add_argument("--optimizer", action="store_true")
    given = parser.parse_args()
    try:
        if given.verb == "export":
            export_checkpoint(given.source, given.target.absolute(), given.format, given.optimizer)
            print(f"wrote {given.target}", file=sys.stderr)
            return 0
        if not given.source.exists():
            raise CheckpointError(f"cannot import {given.source}: there is no such file")
        done = import_checkpoint(given.source, given.root, given.step, given.allow_pickle)
    except CheckpointError as error:
        print(f"shanty ckpt: {error}", file=sys.stderr)
        return 3
    if given.json:
        print(json.dumps(done, indent=2))
    else:
        print(f"imported {done['tensors']} tensors as step {done['step']}", file=sys.stderr)
        if done["dropped"]:
            print(f"left out, too large or not plain: {', '.join(done['dropped'])}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
