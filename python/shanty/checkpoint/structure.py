"""Notices whether modules and optimizers still have the tensors that they had."""

from __future__ import annotations

from itertools import chain, compress
from operator import attrgetter, is_
from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn

from shanty.checkpoint.entries import Entry

_OF_A_MODULE = ("_parameters", "_buffers", "_modules")
# Tensors that are looked at together: fewer new objects than make Python collect its garbage.
_AT_ONCE = 512
# What changes when `.data` is given another tensor. To be contiguous and to have a shape is to have
# strides, and quicker to ask for.
_PLACE = (Tensor.data_ptr, attrgetter("shape"), attrgetter("dtype"), Tensor.is_contiguous)


class Structure:
    """That of a moment. Walking all modules for their tensors' names takes many times longer than
    this, and a save blocks the training for as long: no loop over tensors here is one of Python's
    own instructions."""

    def __init__(
        self,
        modules: list[nn.Module],
        optimizers: list[torch.optim.Optimizer],
        entries: list[Entry],
    ) -> None:
        all_modules = [module for one in modules for module in one.modules()]
        # FSDP shows other tensors after a forward, and must be asked to put its shards back.
        self._sharded = any(map(_is_sharded, all_modules))
        self._tables = _Tables()
        for module in all_modules:
            for name in _OF_A_MODULE:
                self._tables.add_object(vars(module), name)
                self._tables.add_all(getattr(module, name))
        self._transient = [module._non_persistent_buffers_set for module in all_modules]
        self._transient_then = [set(names) for names in self._transient]
        self._optimizers = [_OptimizerState(one, self._tables) for one in optimizers]
        for entry in entries:
            if hasattr(entry.tensor, "_local_tensor"):
                self._tables.add_object(vars(entry.tensor), "_local_tensor")
        self._places = None if self._sharded else _Places.of([_local(e.tensor) for e in entries])

    def holds(self) -> bool:
        if self._places is None:
            return False
        return (
            self._tables.hold()
            and self._transient == self._transient_then
            and all(optimizer.holds() for optimizer in self._optimizers)
            and self._places.hold()
        )


class _Tables:
    """What many dicts have."""

    def __init__(self) -> None:
        self._owners: list[dict[Any, Any]] = []
        self._names: list[str] = []
        self._objects: list[Any] = []
        self._dicts: list[dict[Any, Any]] = []
        self._lengths: list[int] = []
        self._keys: list[Any] = []
        self._is_fixed: list[bool] = []
        self._fixed: list[Any] = []
        self._loose: list[tuple[dict[Any, Any], Any]] = []  # any value but a tensor

    def add_object(self, owner: dict[Any, Any], name: str) -> None:
        self._owners.append(owner)
        self._names.append(name)
        self._objects.append(owner.get(name))

    def add_all(self, whole: dict[Any, Any]) -> None:
        self._add(whole, [True] * len(whole))

    def add_tensors(self, whole: dict[Any, Any]) -> None:
        self._add(whole, [isinstance(value, Tensor) for value in whole.values()])

    def _add(self, whole: dict[Any, Any], is_fixed: list[bool]) -> None:
        self._dicts.append(whole)
        self._lengths.append(len(whole))
        self._keys += whole
        self._is_fixed += is_fixed
        self._fixed += compress(whole.values(), is_fixed)
        self._loose += [(whole, key) for key, fixed in zip(whole, is_fixed) if not fixed]

    def hold(self) -> bool:
        values = chain.from_iterable(map(dict.values, self._dicts))
        return (
            all(map(is_, map(dict.get, self._owners, self._names), self._objects))
            and list(map(len, self._dicts)) == self._lengths
            and all(map(is_, chain.from_iterable(self._dicts), self._keys))
            and all(map(is_, compress(values, self._is_fixed), self._fixed))
            and not any(isinstance(whole[key], Tensor) for whole, key in self._loose)
        )


class _OptimizerState:
    def __init__(self, optimizer: torch.optim.Optimizer, tables: _Tables) -> None:
        self._optimizer = optimizer
        self._groups = [list(group["params"]) for group in optimizer.param_groups]
        self._keys = list(optimizer.state)
        self._of_parameters = [isinstance(key, Tensor) for key in self._keys]
        self._states = list(compress(optimizer.state.values(), self._of_parameters))
        for state in self._states:
            tables.add_tensors(state)

    def holds(self) -> bool:
        groups, state = self._optimizer.param_groups, self._optimizer.state
        return (
            len(groups) == len(self._groups)
            and all(_same(group["params"], then) for group, then in zip(groups, self._groups))
            and _same(list(state), self._keys)
            and all(map(is_, compress(state.values(), self._of_parameters), self._states))
        )


class _Places:
    """Where tensors lie, and how."""

    def __init__(self, tensors: list[Tensor]) -> None:
        # Most are alike, and what is kept is looked through by each collection of garbage.
        known: dict[Any, Any] = {}
        self._parts = []
        for first in range(0, len(tensors), _AT_ONCE):
            part = tensors[first : first + _AT_ONCE]
            looks = _PLACE if all(map(Tensor.is_contiguous, part)) else (*_PLACE, Tensor.stride)
            then = [[known.setdefault(value, value) for value in one] for one in _look(part, looks)]
            self._parts.append((part, looks, then))

    @staticmethod
    def of(tensors: list[Tensor]) -> _Places | None:
        """None where one has no place: whoever saves it will say so."""
        try:
            return _Places(tensors) if tensors else None
        except (RuntimeError, NotImplementedError):
            return None

    def hold(self) -> bool:
        try:
            return all(_look(part, looks) == then for part, looks, then in self._parts)
        except (RuntimeError, NotImplementedError):
            return False


def _look(tensors: list[Tensor], looks: tuple[Callable[[Tensor], Any], ...]) -> list[list[Any]]:
    return [list(map(look, tensors)) for look in looks]


def _same(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and all(map(is_, now, then))


def _local(tensor: Tensor) -> Tensor:
    return getattr(tensor, "_local_tensor", tensor)


def _is_sharded(module: nn.Module) -> bool:
    classes: Iterable[type] = type(module).__mro__
    return any(base.__name__ in ("FSDPModule", "FullyShardedDataParallel") for base in classes)
