"""The tensors of modules under the names that a plain, unwrapped model gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from shanty.checkpoint.errors import CheckpointError

_REPLICATING = {"DistributedDataParallel", "DataParallel"}
_NAMELESS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

# Who of the ranks that have the same tensor stores it.
DIVIDE, FIRST, MINE, NOT_ME = "divide", "first", "mine", "not me"


@dataclass(frozen=True)
class Flat:
    """What this rank has of one original parameter of FSDP1's flat one."""

    shape: tuple[int, ...]
    start: int
    count: int
    stores: bool  # hybrid sharding keeps copies, of which the first is stored


@dataclass(frozen=True)
class Entry:
    name: str
    group: str  # "model" or "optim"
    tensor: Tensor
    share: str
    volatile: bool = False  # may change before the optimizer steps: copied at once
    flat: Flat | None = None


@dataclass
class Collected:
    entries: list[Entry] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # by the id of a parameter
    flats: dict[int, Flat] = field(default_factory=dict)  # likewise
    # Modules that say themselves what else they have (get_extra_state), by name.
    speaking: dict[str, nn.Module] = field(default_factory=dict)


def collect_modules(modules: list[tuple[str, nn.Module]]) -> Collected:
    """Parameters and persistent buffers; `modules` are (prefix of the names, module)."""
    found = Collected()
    owner: dict[Any, str] = {}
    for prefix, module in modules:
        shared = _prepare_sharded(module, found.flats)
        found.speaking.update(_speaking(module, prefix))
        for name, tensor, is_buffer in _walk(module, prefix):
            if is_lazy(tensor):
                raise CheckpointError(
                    f"cannot checkpoint {name}: it has no shape yet, run one forward before"
                )
            if not is_buffer:
                found.names.setdefault(id(tensor), name)
            key = _identity(tensor, shared)
            if key in owner:
                if owner[key] != name:
                    found.aliases[name] = owner[key]
                continue
            owner[key] = name
            flat = found.flats.get(id(tensor))
            share = FIRST if is_buffer else share_of(flat)
            found.entries.append(Entry(name, "model", tensor, share, is_buffer, flat))
    return found


def share_of(flat: Flat | None) -> str:
    if flat is None:
        return DIVIDE
    return MINE if flat.stores and flat.count else NOT_ME


def _walk(module: nn.Module, prefix: str) -> Iterator[tuple[str, Tensor, bool]]:
    """Not named_parameters(): that gives a tied tensor once, and wrappers' names."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield prefix + name, parameter, False
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield prefix + name, buffer, True
    for below, child in _children(module, prefix):
        yield from _walk(child, below)


def _speaking(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    if type(module).get_extra_state is not nn.Module.get_extra_state:
        yield prefix.rstrip("."), module
    for below, child in _children(module, prefix):
        yield from _speaking(child, below)


def _children(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """With the prefix of what is in them."""
    bare = bool({base.__name__ for base in type(module).__mro__} & _REPLICATING)
    for name, child in module._modules.items():
        if child is not None:
            nameless = name in _NAMELESS or (bare and name == "module")
            yield prefix if nameless else f"{prefix}{name}.", child


def _identity(tensor: Tensor, shared: dict[int, int]) -> Any:
    local = getattr(tensor, "_local_tensor", tensor)
    if not local.numel() or local.device.type == "meta":
        return shared.get(id(tensor), id(tensor))
    try:
        storage = local.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return id(tensor)
    place = (str(local.device), storage, local.storage_offset())
    return (*place, tuple(local.shape), local.stride(), local.dtype)


def _prepare_sharded(module: nn.Module, flats: dict[int, Flat]) -> dict[int, int]:
    """Puts sharded parameters in place where a forward left whole ones (FSDP2), and learns what
    this rank has of flat ones (FSDP1). Returns the tied ones: id of the copy -> id of the first."""
    shared: dict[int, int] = {}
    for part in module.modules():
        classes = {base.__name__ for base in type(part).__mro__}
        if "FSDPModule" in classes:
            part.reshard()  # type: ignore[operator]
        handle = getattr(part, "_handle", None) if "FullyShardedDataParallel" in classes else None
        if handle is None:
            continue
        if not handle._use_orig_params:
            raise CheckpointError(
                "cannot checkpoint this FullyShardedDataParallel: make it with use_orig_params=True"
            )
        flat = handle.flat_param
        for info, of in zip(flat._shared_param_infos, flat._shared_params or ()):
            first = getattr(info.prim_module, info.prim_param_name)
            shared[id(of)] = id(first)
        if not handle.uses_sharded_strategy:
            continue
        copies = getattr(part, "_inter_node_pg", None)
        stores = copies is None or dist.get_rank(copies) == 0
        pieces = zip(flat._params, flat._shapes, flat._shard_param_infos)
        for parameter, shape, piece in pieces:
            start, count = piece.intra_param_start_idx or 0, piece.numel_in_shard or 0
            flats[id(parameter)] = Flat(tuple(shape), start, count, stores)
    return shared
