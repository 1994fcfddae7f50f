"""An optimizer's state: tensors under their parameters' names, the rest as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from shanty.checkpoint.codec import decode, encode
from shanty.checkpoint.dtypes import dtype_of
from shanty.checkpoint.entries import MINE, NOT_ME, Collected, Entry, share_of
from shanty.checkpoint.errors import CheckpointError

Optimizer = torch.optim.Optimizer
# How it computes and what its parameters are called: the script says it anew each time.
_OF_THE_SCRIPT = {"capturable", "differentiable", "foreach", "fused", "param_names"}


def own_part(optimizer: Any) -> Any:
    """The optimizer that has this rank's state. Of a ZeroRedundancyOptimizer, whose ranks have whole
    parameters' states each, that is another than the one that the script steps."""
    return optimizer.optim if _is_zero(optimizer) else optimizer


def optimizer_entries(optimizer: Optimizer, prefix: str, models: Collected) -> list[Entry]:
    entries = []
    is_zero, optimizer = _is_zero(optimizer), own_part(optimizer)
    for name, parameter in _parameters(optimizer, models):
        flat = models.flats.get(id(parameter))
        for key, value in optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor):
                continue
            alike = value.shape == parameter.shape
            share = MINE if is_zero else share_of(flat)
            if flat is not None and not alike:
                # A count of steps: kept by the ranks that have a part, stored by one of them.
                share = MINE if share == MINE and flat.start == 0 else NOT_ME
            where = f"{prefix}{key}.{name}"
            entries.append(Entry(where, "optim", value, share, flat=flat if alike else None))
    return entries


@dataclass
class Loose:
    """Where an optimizer has state that is no tensor."""

    of_parameters: list[tuple[str, dict[Any, Any], list[Any]]]  # name, state, keys
    of_none: list[Any]  # keys of what belongs to no parameter

    @staticmethod
    def find(optimizer: Optimizer, models: Collected) -> Loose:
        optimizer = own_part(optimizer)
        found = []
        for name, parameter in _parameters(optimizer, models):
            state = optimizer.state.get(parameter) or {}
            keys = [key for key, value in state.items() if not isinstance(value, Tensor)]
            if keys:
                found.append((name, state, keys))
        return Loose(found, [key for key in optimizer.state if not isinstance(key, Tensor)])


def optimizer_json(optimizer: Optimizer, loose: Loose, allow_pickle: bool) -> dict[str, Any]:
    """Options of each group, how many parameters it has, and what of the state is no tensor."""
    groups = []
    for i, group in enumerate(optimizer.param_groups):
        # Sorted, as their order means nothing.
        options = {k: group[k] for k in sorted(group.keys() - {"params", "param_names"})}
        where = f"options of the optimizer's group {i}"
        encoded = encode(options, where, allow_pickle)
        groups.append({"options": encoded, "params": len(group["params"])})
    state = {}
    for name, of, keys in loose.of_parameters:
        if _is_zero(optimizer):
            raise CheckpointError(
                f"cannot save the state of {name}: a ZeroRedundancyOptimizer's {keys[0]} is no "
                "tensor, and only one rank has it"
            )
        rest = {key: of[key] for key in keys}
        state[name] = encode(rest, f"the optimizer's state of {name}", allow_pickle)
    more = {key: own_part(optimizer).state[key] for key in loose.of_none}
    _check_keys(optimizer, loose.of_none)
    encoded = encode(more, "the optimizer's state", allow_pickle)
    return {"groups": groups, "state": state, "more": encoded}


def _check_keys(optimizer: Optimizer, keys: list[Any]) -> None:
    """Some optimizers keep something under names of their own, beside the parameters' state."""
    for key in keys:
        if not isinstance(key, str) or _is_zero(optimizer):
            raise CheckpointError(
                f"cannot save a {type(optimizer).__name__}: it has state for {key!r}, which is no "
                "parameter"
            )


def apply_json(
    optimizer: Optimizer,
    saved: dict[str, Any],
    models: Collected,
    loose: Loose,
    allow_pickle: bool,
) -> None:
    groups = optimizer.param_groups
    if [len(g["params"]) for g in groups] != [g["params"] for g in saved["groups"]]:
        raise CheckpointError(
            f"cannot load the optimizer: it has groups of {[len(g['params']) for g in groups]} "
            f"parameters, the checkpoint {[g['params'] for g in saved['groups']]}"
        )
    for group, of in zip(groups, saved["groups"]):
        for key, value in decode(of["options"], allow_pickle).items():
            if key in group and key in _OF_THE_SCRIPT:
                continue
            now = group.get(key)
            if isinstance(now, Tensor):
                now.copy_(torch.as_tensor(value))
            else:
                group[key] = value
    if _is_zero(optimizer) and saved["state"]:
        raise CheckpointError(
            "cannot load into a ZeroRedundancyOptimizer: the checkpoint's optimizer has state that "
            "is no tensor"
        )
    if _is_zero(optimizer):
        return
    has_rest = {name for name, _, _ in loose.of_parameters}
    for name, parameter in _parameters(optimizer, models):
        # Most have nothing but tensors, which are there by now.
        if name not in saved["state"] and name not in has_rest:
            continue
        rest = decode(saved["state"].get(name, {}), allow_pickle)
        state = optimizer.state.setdefault(parameter, {})
        _replace(state, rest, lambda key, value: not isinstance(value, Tensor))
        _drop_empty(optimizer, parameter)
    more = decode(saved.get("more", {}), allow_pickle)
    _replace(optimizer.state, more, lambda key, value: not isinstance(key, Tensor))


def _replace(state: dict[Any, Any], by: dict[str, Any], which: Callable[[Any, Any], bool]) -> None:
    for key in [k for k, v in state.items() if which(k, v) and k not in by]:
        del state[key]
    state.update(by)


def make_state(
    optimizer: Optimizer, prefix: str, models: Collected, stored: dict[str, Any]
) -> list[str]:
    """Makes the state that the checkpoint has and a fresh optimizer has not, and drops what it has
    not. `stored` are the checkpoint's tensors by name. Returns the names of what was dropped."""
    optimizer = own_part(optimizer)
    keys_of: dict[str, list[str]] = {}
    known = dict(_parameters(optimizer, models))
    for where in stored:
        if where.startswith(prefix):
            key, _, name = where[len(prefix) :].partition(".")
            if name in known:
                keys_of.setdefault(name, []).append(key)
    dropped = []
    for group in optimizer.param_groups:
        on_device = bool(group.get("capturable") or group.get("fused"))
        for parameter in group["params"]:
            name = _name_of(parameter, models)
            keys = keys_of.get(name, [])
            if not keys and parameter not in optimizer.state:
                continue
            state = optimizer.state.setdefault(parameter, {})
            for key in [k for k, v in state.items() if isinstance(v, Tensor) and k not in keys]:
                dropped.append(f"{prefix}{key}.{name}")
                del state[key]
            flat = models.flats.get(id(parameter))
            if flat is None or flat.count:
                for key in keys:
                    if not isinstance(state.get(key), Tensor):
                        spec = stored[f"{prefix}{key}.{name}"]
                        shape = flat.shape if flat is not None else tuple(parameter.shape)
                        where = f"{prefix}{key}.{name}"
                        state[key] = _empty(where, parameter, spec, shape, on_device)
            _drop_empty(optimizer, parameter)
    return dropped


def _drop_empty(optimizer: Optimizer, parameter: Tensor) -> None:
    """Where the optimizer would make it again, as torch's do."""
    if not optimizer.state[parameter] and hasattr(optimizer.state, "default_factory"):
        del optimizer.state[parameter]


def _empty(
    where: str, parameter: Tensor, spec: dict[str, Any], whole: tuple[int, ...], on_device: bool
) -> Tensor:
    dtype, shape = dtype_of(spec["dtype"], where), tuple(spec["shape"])
    if shape == whole:
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    if not shape:
        # Counts of steps live on the CPU unless the optimizer runs them on the device.
        device = parameter.device if on_device else torch.device("cpu")
        return torch.zeros((), dtype=dtype, device=device)
    if hasattr(parameter, "_local_tensor"):
        raise CheckpointError(
            f"cannot load {where}: it is shaped {shape}, unlike its sharded parameter; take one "
            "step of the optimizer before the load, so that it makes its own"
        )
    return torch.zeros(shape, dtype=dtype, device=parameter.device)


def _parameters(optimizer: Optimizer, models: Collected) -> Iterator[tuple[str, Tensor]]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield _name_of(parameter, models), parameter


def _name_of(parameter: Tensor, models: Collected) -> str:
    name = models.names.get(id(parameter))
    if name is None:
        raise CheckpointError(
            f"an attached optimizer has a parameter, shaped {tuple(parameter.shape)}, that no "
            "attached model has: attach its module too, and make the optimizer after the model was "
            "moved, sharded or wrapped"
        )
    return name


def unwrapped(optimizer: Any) -> Any:
    """The optimizer that steps, of one that accelerate or Lightning has put around it."""
    while not hasattr(optimizer, "_optimizer_step_pre_hooks") and hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def check_supported(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise CheckpointError(
            f"cannot attach a {type(optimizer).__name__}: only a torch.optim.Optimizer"
        )
    _check_state_dict(optimizer)
    if _is_zero(optimizer):
        # Made of the ranks that have the state, each parameter's one of them.
        if dist.get_world_size(optimizer.process_group) != dist.get_world_size():
            raise CheckpointError(
                "cannot attach this ZeroRedundancyOptimizer: its process group has not all ranks"
            )
        if optimizer._overlap_with_ddp:
            raise CheckpointError(
                "cannot attach this ZeroRedundancyOptimizer: with overlap_with_ddp it changes "
                "parameters during the backward; make it without"
            )


def _check_state_dict(optimizer: Optimizer) -> None:
    """One that has others inside of it says so by more than torch's two keys."""
    if type(optimizer).state_dict is Optimizer.state_dict or _is_zero(optimizer):
        return
    more = sorted(map(str, optimizer.state_dict().keys() - {"state", "param_groups"}))
    if more:
        raise CheckpointError(
            f"cannot attach a {type(optimizer).__name__}: its state_dict has {', '.join(more)} "
            "beside state and param_groups; attach what is inside of it"
        )


def _is_zero(optimizer: Any) -> bool:
    return any(base.__name__ == "ZeroRedundancyOptimizer" for base in type(optimizer).__mro__)
