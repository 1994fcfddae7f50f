"""Fills the attached tensors from the newest whole checkpoint."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from shanty.checkpoint.arena import Mapping
from shanty.checkpoint.attached import Attached
from shanty.checkpoint.dtypes import word_of
from shanty.checkpoint.entries import Entry
from shanty.checkpoint.errors import CheckpointError, EngineLost
from shanty.checkpoint.parts import ALONE, Part, part_of
from shanty.checkpoint.wire import Answer, Connection, pack_addresses
from shanty.checkpoint.world import World

WINDOW_BYTES = 64 << 20
MAX_WANTS = 16384  # in one request
MAX_WHOLE = 1 << 20
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
    metrics: dict[str, float] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict, repr=False)  # see schedule.Failures


@dataclass
class Fit:
    """How a checkpoint fits what one rank has attached."""

    error: str = ""  # ends the load
    damage: str = ""  # asks for another checkpoint
    entries: list[Entry] = field(default_factory=list, repr=False)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        # What other ranks are told: no tensors.
        return {**self.__dict__, "entries": []}


class Damaged(Exception):
    """The engine could not read this checkpoint whole."""


def load(
    connection: Connection, world: World, attached: Attached, step: int | None, strict: bool
) -> Loaded | None:
    """Collective: all ranks take the same checkpoint; another one when it is damaged for any."""
    asked = {} if step is None else {"step": step}
    earlier: list[str] = []
    for attempt in range(MAX_CANDIDATES):
        answer, failure = _find(connection, asked)
        findings = [f["message"] for f in answer.get("findings", [])]
        if not failure and answer.get("source") is None:
            _check_none(step, attempt, [*earlier, *findings])
            return None
        fit = _fit(attached, world, answer) if not failure else Fit(damage=failure)
        try:
            fits = world.gather(fit)
            findings += _judge(fits, strict)
            # All or none. Before the tensors are read, so that nothing is left of it but the order.
            if not failure and all(one.buckets == fit.buckets and not one.damage for one in fits):
                attached.restore_buckets(answer["global"], fit.buckets)
            outcome = _fill(connection, world, attached, answer, fit) if not failure else fit
            outcomes = world.gather(Fit(outcome.error, outcome.damage))
            _raise_errors(outcomes)
        except CheckpointError:
            _let_go(connection)
            raise
        damages = [o.damage for o in outcomes if o.damage]
        whole = connection.ask("release", STORAGE_LIMIT_S, ok=not damages).fields["all_ok"]
        if not damages and whole:
            shared = answer["global"]
            return Loaded(
                answer["step"],
                shared.get("epoch"),
                shared.get("samples"),
                answer["source"],
                _once([*earlier, *findings, *fit.findings, *outcome.findings]),
                attached.extra_of(shared, answer.get("state"), world),
                shared.get("metrics", {}),
                shared.get("history", {}),
            )
        earlier += [*findings, *damages]
    raise CheckpointError("; ".join([f"{MAX_CANDIDATES} checkpoints are damaged", *_once(earlier)]))


def _let_go(connection: Connection) -> None:
    """All ranks end the load: nobody reads that checkpoint any more, and it may be pruned."""
    try:
        connection.ask("release", STORAGE_LIMIT_S, ok=False)
    except CheckpointError:
        pass  # The load's error is the one to tell.


def _check_none(step: int | None, attempt: int, findings: list[str]) -> None:
    """Nothing was found. Training anew beside damaged checkpoints must be the user's decision."""
    if step is not None:
        what = f"there is no whole checkpoint of step {step}"
    elif attempt or findings:
        what = "none of the checkpoints is whole; move them away to begin anew"
    else:
        return
    raise CheckpointError("; ".join([what, *_once(findings)]))


def _find(connection: Connection, asked: dict[str, int]) -> tuple[dict[str, Any], str]:
    """The answer, and why this rank cannot take part in it: the other ranks may."""
    try:
        return connection.ask("find", STORAGE_LIMIT_S, **asked).fields, ""
    except EngineLost:
        raise
    except CheckpointError as error:
        return {}, str(error)


def _fit(attached: Attached, world: World, answer: dict[str, Any]) -> Fit:
    """Compares names, shapes and types; makes the optimizers' state where they have none yet."""
    fit, shared, stored = Fit(), answer["global"], _stored(answer["tensors"])
    try:
        if "step" not in shared or "optimizers" not in shared:
            raise CheckpointError(
                "cannot load this checkpoint: shanty.Checkpointer did not write it"
            )
        _, models = attached.tensors()
        dropped = attached.make_state(models, stored)
        if dropped:
            fit.findings.append(
                f"state of the optimizer that the checkpoint has not was dropped: {_some(dropped)}"
            )
        entries, models = attached.tensors()
    except CheckpointError as error:
        fit.error = str(error)
        return fit
    except Exception as error:
        fit.error = f"cannot load: {type(error).__name__}: {error}"
        return fit
    fit.buckets = attached.other_buckets(shared, world)
    aliases = answer.get("aliases") or {}
    for entry in entries:
        spec = stored.get(entry.name) or stored.get(aliases.get(entry.name, ""))
        if spec is None:
            fit.missing.append(entry.name)
            continue
        shape = list(entry.flat.shape if entry.flat is not None else entry.tensor.shape)
        word = word_of(entry.tensor.dtype, entry.name)
        if spec["shape"] != shape or spec["dtype"] != word:
            theirs = f"{spec['dtype']} {spec['shape']}"
            fit.wrong.append(f"{entry.name} is {word} {shape} here and {theirs} in the checkpoint")
        fit.entries.append(entry)
    names = {e.name for e in entries} | set(models.aliases)
    optimizers = bool(attached.optimizers)
    fit.unexpected = [
        name
        for name in stored
        if name not in names and (optimizers or not name.startswith("optim."))
    ]
    return fit


def _stored(told: dict[str, Any]) -> dict[str, Any]:
    """dtype and shape by name."""
    return dict(zip(told["names"], map(told["kinds"].__getitem__, told["kind_of"])))


def _judge(fits: list[Fit], strict: bool) -> list[str]:
    """All ranks come to the same. A tensor is unexpected when no rank expects it: another rank may
    have what this one has not."""
    _raise_errors(fits)
    looked = [fit for fit in fits if not fit.damage]
    if not looked:
        return []
    unexpected = set.intersection(*(set(fit.unexpected) for fit in looked))
    wrong = sorted({name for fit in looked for name in fit.wrong})
    missing = {name for fit in looked for name in fit.missing}
    problems = [f"{len(wrong)} differ ({_some(wrong)})"] if wrong else []
    differences = [
        f"{len(names)} are {what} ({_some(sorted(names))})"
        for what, names in (("missing in it", missing), ("unexpected", unexpected))
        if names
    ]
    if problems or (strict and differences):
        raise CheckpointError(
            "cannot load: the checkpoint's tensors are not those attached: "
            + "; ".join(problems + differences)
        )
    if not differences:
        return []
    return ["tensors that do not fit were left alone: " + "; ".join(differences)]


def _fill(
    connection: Connection, world: World, attached: Attached, answer: dict[str, Any], fit: Fit
) -> Fit:
    """Reads the tensors, then applies the rest."""
    outcome = Fit()
    try:
        whole, direct, windowed = [], [], []
        for entry in fit.entries:
            if answer.get("direct") and _is_whole(entry):
                whole.append((entry.name, entry.tensor))
                continue
            part = part_of(entry, ALONE)
            if part is None or not part.local.numel():
                continue
            if answer.get("direct") and _is_plain(part.local):
                direct.append((_want(entry.name, part, 0, part.local), part.local))
            else:
                windowed += _wants(entry.name, part)
        _read_whole(connection, whole)
        _read_direct(connection, direct)
        _read(connection, windowed)
        _, models = attached.tensors()
        outcome.findings = attached.apply(answer["global"], answer.get("state"), models, world)
    except Damaged as error:
        outcome.damage = str(error)
    except CheckpointError as error:
        outcome.error = str(error)
    except Exception as error:  # Of an attached object: the other ranks must hear of it.
        outcome.error = f"cannot load: {type(error).__name__}: {error}"
    return outcome


def _raise_errors(fits: list[Fit]) -> None:
    for fit in fits:
        if fit.error:
            raise CheckpointError(fit.error)


def _wants(name: str, part: Part) -> list[tuple[dict[str, Any], Tensor]]:
    """(W of the protocol, where it goes): rows together as large as the window at most."""
    local, found = part.local, []
    if part.flat_start is None and not local.dim():
        return [(_want(name, part, 0, local), local)]
    rows = local.shape[0]
    row_bytes = local.numel() // rows * local.element_size()
    at_once = max(WINDOW_BYTES // max(row_bytes, 1), 1)
    for first in range(0, rows, at_once):
        piece = local.narrow(0, first, min(at_once, rows - first))
        found.append((_want(name, part, first, piece), piece))
    return found


def _want(name: str, part: Part, first: int, piece: Tensor) -> dict[str, Any]:
    """W for `piece`, the rows from `first` on of the part."""
    if part.flat_start is not None:
        return {"name": name, "flat": [part.flat_start + first, piece.numel()]}
    offsets = list(part.offsets)
    if offsets:
        offsets[0] += first
    return {"name": name, "offsets": offsets, "shape": list(piece.shape)}


def _is_plain(tensor: Tensor) -> bool:
    """Whether the engine can write it where it lies."""
    return bool(
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _is_whole(entry: Entry) -> bool:
    """Whether that is so, and this rank has all of it: what most tensors are is soon told."""
    tensor = entry.tensor
    known = type(tensor) is Tensor or type(tensor) is nn.Parameter
    return known and entry.flat is None and tensor.numel() > 0 and _is_plain(tensor)


def _read_whole(connection: Connection, targets: list[tuple[str, Tensor]]) -> None:
    """The engine writes into the tensors; no byte passes through this process."""
    for first in range(0, len(targets), MAX_WHOLE):
        batch = targets[first : first + MAX_WHOLE]
        addresses = pack_addresses(tensor.data_ptr() for _, tensor in batch)
        _ask_read(connection, [], whole={"names": [name for name, _ in batch], "to": addresses})
    _count_changes([tensor for _, tensor in targets])


def _read_direct(connection: Connection, targets: list[tuple[dict[str, Any], Tensor]]) -> None:
    """Likewise, parts of tensors."""
    for first in range(0, len(targets), MAX_WANTS):
        batch = targets[first : first + MAX_WANTS]
        _ask_read(connection, [{**want, "to": tensor.data_ptr()} for want, tensor in batch])
    _count_changes([tensor for _, tensor in targets])


def _count_changes(tensors: list[Tensor]) -> None:
    # Since torch 2.1; nobody else tells autograd that they changed.
    increment = getattr(torch.autograd.graph, "increment_version", None)
    for tensor in tensors if increment is not None else []:
        if not tensor.is_inference():
            increment(tensor)


def _ask_read(connection: Connection, wants: list[dict[str, Any]], **more: Any) -> Answer:
    try:
        return connection.ask("read", STORAGE_LIMIT_S, wants=wants, **more)
    except EngineLost:
        raise
    except CheckpointError as error:
        raise Damaged(str(error)) from None


def _read(connection: Connection, targets: list[tuple[dict[str, Any], Tensor]]) -> None:
    window: Mapping | None = None
    fd = -1
    try:
        at = 0
        while at < len(targets):
            batch: list[tuple[dict[str, Any], Tensor]] = []
            size = 0
            while at < len(targets) and len(batch) < MAX_WANTS:
                need = _bytes(targets[at][1])
                if batch and size + need > WINDOW_BYTES:
                    break
                batch.append(targets[at])
                # The engine may align each want.
                size += -(-need // 64) * 64
                at += 1
            answer = _ask_read(connection, [want for want, _ in batch])
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
        plain = [(t, source) for t, source in pairs if not _is_odd(t)]
        torch._foreach_copy_([t for t, _ in plain], [source for _, source in plain])
        for target, source in pairs:
            if _is_odd(target):
                with torch.inference_mode(target.is_inference()):
                    target.copy_(source)
    if any(target.device.type != "cpu" for target in targets) and torch.cuda.is_available():
        torch.cuda.synchronize()
    return window


def _is_odd(tensor: Tensor) -> bool:
    return tensor.is_conj() or tensor.is_neg() or tensor.is_inference()


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _once(findings: list[str]) -> list[str]:
    return list(dict.fromkeys(findings))
