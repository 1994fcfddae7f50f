"""What belongs to a checkpoint: tensors, what else all ranks share, what each has of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from shanty.checkpoint import rng as generators
from shanty.checkpoint.buckets import Buckets, replicas_in
from shanty.checkpoint.codec import decode, encode
from shanty.checkpoint.entries import Collected, Entry, collect_modules
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.optimizers import (
    Loose,
    apply_json,
    check_supported,
    make_state,
    optimizer_entries,
    optimizer_json,
    own_part,
    unwrapped,
)
from shanty.checkpoint.sampler import ResumableLoader, ResumableSampler
from shanty.checkpoint.structure import Structure
from shanty.checkpoint.world import World

FORMAT = 1


class Attached:
    def __init__(self, allow_pickle: bool) -> None:
        self._allow_pickle = allow_pickle
        self.modules: list[tuple[str, nn.Module]] = []
        self.optimizers: list[tuple[str, str, torch.optim.Optimizer]] = []
        self._others: dict[str, list[tuple[str, Any]]] = {"schedulers": [], "scalers": []}
        self._loader: Any = None
        self._rng = True
        self._generators: list[Any] = []
        self._extra: Any = None
        self._structure: Structure | None = None
        self._entries: list[Entry] = []
        self._models = Collected()
        self._loose: list[Loose] = []  # of the optimizers
        self._replicas: list[tuple[str, nn.Module]] = []
        self._buckets = Buckets()

    def add(
        self,
        model: Any,
        optimizer: Any,
        scheduler: Any,
        scaler: Any,
        ema: Any,
        loader: Any,
        rng: Any,
        extra: Any,
    ) -> None:
        self._structure = None
        for prefix, value in (("", model), ("ema.", ema)):
            for key, module in _several(value):
                if not isinstance(module, nn.Module):
                    raise CheckpointError(
                        f"cannot attach a {type(module).__name__}: it is no Module"
                    )
                self.modules.append((f"{prefix}{key}." if key else prefix, module))
        inner = [(key, unwrapped(one)) for key, one in _several(optimizer)]
        for key, one in _new("optimizer", inner, [o[1:] for o in self.optimizers]):
            check_supported(one)
            self.optimizers.append((f"optim.{key}." if key else "optim.", key, one))
        for kind, value in (("schedulers", scheduler), ("scalers", scaler)):
            known = self._others[kind]
            ones = _new(kind[:-1], _several(value), known)
            for _, one in ones:
                if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                    raise CheckpointError(
                        f"cannot attach a {type(one).__name__} as {kind[:-1]}: it has no "
                        "state_dict and load_state_dict"
                    )
            known += ones
        if loader is not None:
            _check_only("loader", loader, self._loader)
            if not hasattr(loader, "load_state_dict"):
                raise CheckpointError(
                    f"cannot attach a {type(loader).__name__} as loader or sampler: wrap it, "
                    "loader = shanty.ResumableLoader(loader, seed=...)"
                )
            self._loader = loader
        self._rng = rng is not False
        if rng is not None and not isinstance(rng, bool):
            for generator in rng if isinstance(rng, (list, tuple)) else [rng]:
                generators.check_supported(generator)
                self._generators.append(generator)
        if extra is not None:
            _check_only("extra", extra, self._extra)
            self._extra = extra

    @property
    def is_empty(self) -> bool:
        alone = self._loader is None and self._extra is None and not any(self._others.values())
        return alone and not self.modules and not self.optimizers

    def tensors(self) -> tuple[list[Entry], Collected]:
        """The very same lists as long as nothing has changed."""
        if self._structure is None or not self._structure.holds():
            self._entries, self._models = self._collect()
            self._loose = [Loose.find(one, self._models) for _, _, one in self.optimizers]
            self._replicas = replicas_in(self.modules)
            modules = [module for _, module in self.modules]
            optimizers = [own_part(optimizer) for _, _, optimizer in self.optimizers]
            self._structure = Structure(modules, optimizers, self._entries)
        return self._entries, self._models

    def _collect(self) -> tuple[list[Entry], Collected]:
        models = collect_modules(self.modules)
        entries = list(models.entries)
        for prefix, _, optimizer in self.optimizers:
            entries += optimizer_entries(optimizer, prefix, models)
        names = {e.name for e in entries}
        if len(names) < len(entries):
            twice = sorted(e.name for e in entries)
            name = next(a for a, b in zip(twice, twice[1:]) if a == b)
            raise CheckpointError(f"two attached tensors are called {name}: attach them as a dict")
        return entries, models

    # What is no tensor, to be saved.

    def shared(self, step: int, models: Collected, world: World) -> dict[str, Any]:
        pickles = self._allow_pickle
        state: dict[str, Any] = {
            "format": FORMAT,
            "step": step,
            "epoch": getattr(self._loader, "epoch", None),
            "samples": None,
            "world_size": world.size,
            "seed": torch.initial_seed() & ((1 << 63) - 1),
            "optimizers": {
                key: optimizer_json(one, loose, pickles)
                for (_, key, one), loose in zip(self.optimizers, self._loose)
            },
            "extra": encode(self._extra_now(), "extra", pickles),
            "ddp": self._buckets.saved(self._replicas),
            "modules": {
                name: encode(module.get_extra_state(), f"the extra state of {name}", pickles)
                for name, module in models.speaking.items()
            },
        }
        for kind, ones in self._others.items():
            state[kind] = {
                key: encode(one.state_dict(), f"the state of one of the {kind}", pickles)
                for key, one in ones
            }
        if isinstance(self._loader, (ResumableLoader, ResumableSampler)):
            state["loader"] = self._loader.state_dict()
            state["samples"] = state["loader"]["samples"]
        return state

    def own(self, shared: dict[str, Any], world: World) -> dict[str, Any]:
        state: dict[str, Any] = {"shared": shared if world.rank else None}
        if self._rng:
            captured = generators.capture(self._generators)
            state["rng"] = encode(captured, "the random number generators", self._allow_pickle)
        if self._loader is not None and "loader" not in shared:
            where = "the loader's state"
            state["loader"] = encode(self._loader.state_dict(), where, self._allow_pickle)
        return state

    # Loaded again.

    def make_state(self, models: Collected, stored: dict[str, Any]) -> list[str]:
        """The lazily made state of fresh optimizers; see optimizers.make_state."""
        dropped = []
        for prefix, _, optimizer in self.optimizers:
            dropped += make_state(optimizer, prefix, models, stored)
        return dropped

    def other_buckets(self, shared: dict[str, Any], world: World) -> list[str]:
        """Names of the DistributedDataParallel modules that would add up in another order."""
        if shared["world_size"] != world.size:
            return []
        return self._buckets.laid_out_anew(self._replicas, shared.get("ddp") or {})

    def restore_buckets(self, shared: dict[str, Any], keys: list[str]) -> None:
        """Collective."""
        if keys:
            self._buckets.restore(self._replicas, shared["ddp"], keys)

    def apply(
        self, shared: dict[str, Any], own: dict[str, Any] | None, models: Collected, world: World
    ) -> list[str]:
        """All that is no tensor; the generators last. Returns findings."""
        if shared.get("format", FORMAT) > FORMAT:
            raise CheckpointError("cannot load this checkpoint: a newer version of shanty wrote it")
        same_world = shared["world_size"] == world.size and own is not None
        state = _nearest(shared, own, world)
        self._apply_optimizers(state, models)
        findings = self._apply_modules(state.get("modules", {}), models)
        findings += self._apply_others(state)
        findings += self._apply_loader(shared, own if same_world else None)
        findings += self._apply_extra(decode(state["extra"], self._allow_pickle))
        if self._rng and same_world and "rng" in (own or {}):
            saved = decode(own["rng"])  # type: ignore[index]
            findings += generators.restore(saved, self._generators)
        elif self._rng:
            generators.derive(shared["seed"], world.rank, shared["step"], self._generators)
            findings.append(
                f"the random number generators were derived anew from (seed, rank, step): the "
                f"checkpoint has those of {shared['world_size']} ranks, this job has {world.size}"
            )
        return findings

    def extra_of(self, shared: dict[str, Any], own: dict[str, Any] | None, world: World) -> Any:
        return decode(_nearest(shared, own, world)["extra"], self._allow_pickle)

    def _apply_optimizers(self, state: dict[str, Any], models: Collected) -> None:
        for (_, key, optimizer), loose in zip(self.optimizers, self._loose):
            if key not in state["optimizers"]:
                raise CheckpointError(f'cannot load: the checkpoint has no optimizer "{key}"')
            apply_json(optimizer, state["optimizers"][key], models, loose, self._allow_pickle)

    def _apply_modules(self, saved: dict[str, Any], models: Collected) -> list[str]:
        findings = []
        for name, module in models.speaking.items():
            if name in saved:
                module.set_extra_state(decode(saved[name], self._allow_pickle))
            else:
                findings.append(f"the checkpoint has no extra state of {name or 'the model'}")
        return findings

    def _apply_others(self, state: dict[str, Any]) -> list[str]:
        findings = []
        for kind, ones in self._others.items():
            for key, one in ones:
                if key not in state[kind]:
                    raise CheckpointError(
                        f"cannot load: the checkpoint has none of the {kind} {key}"
                    )
                saved = decode(state[kind][key], self._allow_pickle)
                if kind == "scalers" and not saved and one.is_enabled():
                    findings.append("the scaler begins anew: it was disabled when this was saved")
                else:
                    one.load_state_dict(saved)
        return findings

    def _apply_loader(self, shared: dict[str, Any], own: dict[str, Any] | None) -> list[str]:
        if self._loader is None:
            return []
        if isinstance(self._loader, (ResumableLoader, ResumableSampler)):
            if "loader" not in shared:
                return ["the checkpoint has no position in the data: the loader begins anew"]
            self._loader.load_state_dict(shared["loader"])
        elif own is None or "loader" not in own:
            return ["the loader begins anew: its own state is of another number of ranks"]
        else:
            self._loader.load_state_dict(decode(own["loader"], self._allow_pickle))
        return []

    def _extra_now(self) -> Any:
        if hasattr(self._extra, "state_dict"):
            return self._extra.state_dict()
        return self._extra() if callable(self._extra) else self._extra

    def _apply_extra(self, value: Any) -> list[str]:
        takes = hasattr(self._extra, "load_state_dict") or isinstance(self._extra, dict)
        if takes and value is None:
            return ["the checkpoint has no extra: what is attached stays as it is"]
        if hasattr(self._extra, "load_state_dict"):
            self._extra.load_state_dict(value)
        elif isinstance(self._extra, dict) and isinstance(value, dict):
            self._extra.clear()
            self._extra.update(value)
        return []


def _nearest(
    shared: dict[str, Any], own: dict[str, Any] | None, world: World
) -> dict[str, Any]:
    """What this rank itself saved of what is told once for all; rank 0's where there is none."""
    if own is not None and shared["world_size"] == world.size:
        return own.get("shared") or shared
    return shared


def _new(
    kind: str, given: list[tuple[str, Any]], known: list[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """Those of `given` that are not `known`. State is saved by name, so each is one object's."""
    found: dict[str, Any] = {}
    for key, value in given:
        before = found.get(key, dict(known).get(key))
        if before is None:
            found[key] = value
        elif before is not value:
            name = f'the {kind} "{key}"' if key else f"the {kind}"
            raise CheckpointError(
                f"cannot attach another object as {name}: attach them together, as a dict"
            )
    return list(found.items())


def _check_only(kind: str, value: Any, before: Any) -> None:
    if before is not None and before is not value:
        raise CheckpointError(f"cannot attach a second {kind}: there can be one")


def _several(value: Any) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [(str(k), v) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(value)]
    return [("", value)]
