"""Whether the ranks that are taken to have the same tensors have them."""

from __future__ import annotations

import hashlib
from typing import Iterable

from torch import Tensor

from shanty.checkpoint.codec import bytes_of
from shanty.checkpoint.entries import DIVIDE, Entry
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.parts import Copies, part_of
from shanty.checkpoint.world import World

# Of a tensor's elements: the whole of it would cost what a save does.
SAMPLES = 64


def check_replicas(world: World, entries: Iterable[Entry], replicas: Copies) -> None:
    """Collective. Raises, on all ranks, where those that share `replicas.key` have other tensors
    than each other, which would store a mixture: each rank stores a part of what all have."""
    if world.size == 1:
        return
    found = _samples(entries, replicas)
    mine = hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=16).hexdigest()
    kinds = world.gather((replicas.key, mine))
    if len(set(kinds)) == len({key for key, _ in kinds}):
        return
    by_rank = world.gather((replicas.key, found))
    for rank, (key, theirs) in enumerate(by_rank):
        first = next(i for i, (other, _) in enumerate(by_rank) if other == key)
        other = by_rank[first][1]
        names = sorted(n for n in {*theirs, *other} if theirs.get(n) != other.get(n))
        if names:
            count = len({*theirs, *other})
            raise CheckpointError(_problem(names, count, (first, rank), theirs, other))


def _samples(entries: Iterable[Entry], replicas: Copies) -> dict[str, str]:
    """By name, of what this rank stores a part of and others the rest."""
    found = {}
    for entry in entries:
        if entry.share != DIVIDE or replicas.count == 1 or replicas.first_only:
            continue
        try:
            part = part_of(entry, replicas)
        except CheckpointError as error:
            # The save says so too, and more.
            found[entry.name] = str(error)
            continue
        if part is not None and part.copies == replicas:
            found[entry.name] = f"{part.local.dtype} {part.shape} {_sample(part.local)}"
    return found


def _sample(tensor: Tensor) -> str:
    flat = tensor.reshape(-1)
    taken = flat[:: max(1, flat.numel() // SAMPLES)]
    return hashlib.blake2b(bytes_of(taken), digest_size=8).hexdigest()


def _problem(
    names: list[str],
    count: int,
    ranks: tuple[int, int],
    theirs: dict[str, str],
    other: dict[str, str],
) -> str:
    name, (first, rank) = names[0], ranks
    if name in theirs and name in other:
        what = f"ranks {first} and {rank} have different values of {name}"
    else:
        has, lacks = (first, rank) if name in other else (rank, first)
        what = f"rank {has} has {name} and rank {lacks} does not"
    more = f" ({len(names)} of {count} tensors differ)" if len(names) > 1 else ""
    return (
        f"cannot save: {what}{more}, and each rank would store a part of what all should have. "
        "Where each has its own part of the model (pipeline stages), pass replicas=None and give "
        "the parts names that differ by rank; where they have copies that drift apart, or an EMA "
        'that was copied before the ranks\' parameters were made equal, pass replicas="first" to '
        "store the first rank's"
    )
