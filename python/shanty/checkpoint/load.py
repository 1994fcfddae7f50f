"""Fills the attached tensors from the newest whole checkpoint."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from shanty.checkpoint.arena import Mapping
from shanty.checkpoint.attached import Attached
from shanty.checkpoint.dtypes import word_of
from shanty.checkpoint.entries import Collected, Entry
from shanty.checkpoint.errors import CheckpointError, EngineLost
from shanty.checkpoint.parts import ALONE, Part, part_of
from shanty.checkpoint.wire import Connection
from shanty.checkpoint.world import World

WINDOW_BYTES = 64 << 20
MAX_CANDIDATES = 10
STORAGE_LIMIT_S = 1800.0
_NAMES_SHOWN = 5


@dataclass
class Loaded:
    step: int
    epoch: int | None
    samples: int | None
    source: str  # "memory" or "disk"
    findings: list[str] = field(default_factory=list)
    extra: Any = None


class Damaged(Exception):
    """The engine could not read this checkpoint whole."""


def load(
    connection: Connection, world: World, attached: Attached, step: int | None, strict: bool
) -> Loaded | None:
    """Collective: all ranks take the same checkpoint, and another one when it is damaged for any."""
    asked = {} if step is None else {"step": step}
    earlier: list[str] = []
    touched = False  # a candidate was tried
    for _ in range(MAX_CANDIDATES):
        answer, failure = _find(connection, asked)
        findings = [f["message"] for f in answer.get("findings", [])]
        if not failure and answer.get("source") is None:
            found = [*earlier, *findings]
            if step is not None:
                _raise_none(f"there is no whole checkpoint of step {step}", found)
            if touched or found:
                # Training anew beside checkpoints that are damaged must be the user's decision.
                what = "none of the checkpoints is whole; move them away to begin anew"
                _raise_none(what, found)
            return None
        loaded, problem = None, ("damaged", failure)
        try:
            if not failure:
                loaded, problem = _load(connection, world, attached, answer, strict), ("", "")
        except Damaged as error:
            problem = ("damaged", str(error))
        except CheckpointError as error:
            problem = ("unfit", str(error))
        problems = world.gather(problem)
        for kind, text in problems:
            if kind == "unfit":
                raise CheckpointError(text)
        damages = [text for kind, text in problems if kind]
        whole = connection.ask("release", STORAGE_LIMIT_S, ok=not damages).fields["all_ok"]
        if loaded is not None and whole:
            loaded.findings = _once([*earlier, *findings, *loaded.findings])
            return loaded
        earlier += [*findings, *damages]
        touched = True
    _raise_none(f"{MAX_CANDIDATES} checkpoints could not be read", earlier)
    return None


def _find(connection: Connection, asked: dict[str, int]) -> tuple[dict[str, Any], str]:
    """The answer, and why this rank cannot take part in it: the other ranks may."""
    try:
        return connection.ask("find", STORAGE_LIMIT_S, **asked).fields, ""
    except EngineLost:
        raise
    except CheckpointError as error:
        return {}, str(error)


def _load(
    connection: Connection, world: World, attached: Attached, answer: dict[str, Any], strict: bool
) -> Loaded:
    shared, own, stored = answer["global"], answer.get("state"), answer["tensors"]
    if "step" not in shared or "optimizers" not in shared:
        raise CheckpointError("cannot load this checkpoint: shanty.Checkpointer did not write it")
    findings: list[str] = []
    _, models = attached.tensors()
    dropped = attached.make_state(models, stored)
    if dropped:
        findings.append(f"state of the optimizer that the checkpoint has not was dropped: {_some(dropped)}")
    entries, models = attached.tensors()
    aliases = answer.get("aliases") or {}
    entries = _check(entries, models, stored, aliases, bool(attached.optimizers), strict, findings)
    targets = []
    for entry in entries:
        part = part_of(entry, ALONE)
        if part is not None and part.local.numel():
            targets += _wants(entry.name, part)
    _read(connection, targets)
    findings += attached.apply(shared, own, models, world)
    return Loaded(
        answer["step"],
        shared.get("epoch"),
        shared.get("samples"),
        answer["source"],
        findings,
        attached.extra_of(shared),
    )


def _check(
    entries: list[Entry],
    models: Collected,
    stored: dict[str, Any],
    aliases: dict[str, str],
    with_optimizer: bool,
    strict: bool,
    findings: list[str],
) -> list[Entry]:
    """The entries that the checkpoint has; an error says all that does not fit."""
    known, missing, wrong = [], [], []
    for entry in entries:
        spec = stored.get(aliases.get(entry.name, entry.name)) or stored.get(entry.name)
        if spec is None:
            missing.append(entry.name)
            continue
        shape = list(entry.flat.shape if entry.flat is not None else entry.tensor.shape)
        word = word_of(entry.tensor.dtype, entry.name)
        if spec["shape"] != shape or spec["dtype"] != word:
            theirs = f"{spec['dtype']} {spec['shape']}"
            wrong.append(f"{entry.name} is {word} {shape} here and {theirs} in the checkpoint")
        known.append(entry)
    names = {e.name for e in entries} | set(models.aliases)
    extra = [
        name
        for name in stored
        if name not in names and (with_optimizer or not name.startswith("optim."))
    ]
    problems = [f"{len(wrong)} differ ({_some(wrong)})"] if wrong else []
    differences = [
        f"{len(names)} are {what} ({_some(sorted(names))})"
        for what, names in (("missing in it", missing), ("unexpected", extra))
        if names
    ]
    if problems or (strict and differences):
        raise CheckpointError(
            "cannot load: the checkpoint's tensors are not those attached: "
            + "; ".join(problems + differences)
        )
    if differences:
        findings.append("tensors that do not fit were left alone: " + "; ".join(differences))
    return known


def _wants(name: str, part: Part) -> list[tuple[dict[str, Any], Tensor]]:
    """(W of the protocol, where it goes): rows together as large as the window at most."""
    local, found = part.local, []
    if part.flat_start is None and not local.dim():
        return [({"name": name, "offsets": [], "shape": []}, local)]
    rows = local.shape[0]
    row_bytes = local.numel() // rows * local.element_size()
    at_once = max(WINDOW_BYTES // max(row_bytes, 1), 1)
    for first in range(0, rows, at_once):
        piece = local.narrow(0, first, min(at_once, rows - first))
        want: dict[str, Any] = {"name": name}
        if part.flat_start is not None:
            want["flat"] = [part.flat_start + first, piece.numel()]
        else:
            want["offsets"] = [part.offsets[0] + first, *part.offsets[1:]]
            want["shape"] = list(piece.shape)
        found.append((want, piece))
    return found


def _read(connection: Connection, targets: list[tuple[dict[str, Any], Tensor]]) -> None:
    window: Mapping | None = None
    fd = -1
    try:
        at = 0
        while at < len(targets):
            batch, size = [], 0
            while at < len(targets):
                need = _bytes(targets[at][1])
                if batch and size + need > WINDOW_BYTES:
                    break
                batch.append(targets[at])
                # The engine may align each want.
                size += -(-need // 64) * 64
                at += 1
            try:
                answer = connection.ask("read", STORAGE_LIMIT_S, wants=[w for w, _ in batch])
            except EngineLost:
                raise
            except CheckpointError as error:
                raise Damaged(str(error)) from None
            if answer.fd is not None:
                if fd >= 0:
                    os.close(fd)
                fd, window = answer.fd, None
            window = _copy(window, fd, answer.fields["offsets"], [t for _, t in batch])
    finally:
        if fd >= 0:
            os.close(fd)


def _copy(window: Mapping | None, fd: int, offsets: list[int], targets: list[Tensor]) -> Mapping:
    end = max(at + _bytes(target) for at, target in zip(offsets, targets))
    if window is None or window.size < end:
        window = Mapping(fd)
    with torch.no_grad():
        pairs = [
            (target, window.view(at, target.dtype, tuple(target.shape)))
            for at, target in zip(offsets, targets)
        ]
        plain = [(t, source) for t, source in pairs if not (t.is_conj() or t.is_neg())]
        torch._foreach_copy_([t for t, _ in plain], [source for _, source in plain])
        for target, source in pairs:
            if target.is_conj() or target.is_neg():
                target.copy_(source)
    if any(target.device.type != "cpu" for target in targets) and torch.cuda.is_available():
        torch.cuda.synchronize()
    return window


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _once(findings: list[str]) -> list[str]:
    return list(dict.fromkeys(findings))


def _raise_none(what: str, findings: list[str]) -> None:
    raise CheckpointError("; ".join([what, *_once(findings)]))
