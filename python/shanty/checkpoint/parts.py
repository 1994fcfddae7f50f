"""Which part of each tensor this rank has, and which of it this rank stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

import torch
from torch import Tensor, nn

from shanty.checkpoint.dtypes import word_of
from shanty.checkpoint.entries import DIVIDE, FIRST, NOT_ME, Entry
from shanty.checkpoint.errors import CheckpointError

DIVIDE_BYTES = 64 << 10


@dataclass(frozen=True)
class Copies:
    """The ranks that have the very same: this one is `index` of `count`. Each stores a part, or the
    first one all."""

    key: str
    index: int
    count: int
    first_only: bool = False


ALONE = Copies("", 0, 1)


@dataclass(frozen=True)
class Part:
    """A box of a tensor, or a range of it flattened, in this rank's memory."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    flat_start: int | None
    local: Tensor
    copies: Copies


@dataclass(frozen=True)
class Piece:
    """What this rank stores of one tensor: `spec` is T of the engine's protocol, without `mode`."""

    spec: dict[str, Any]
    source: Tensor
    pullable: bool  # plain CPU memory that only the optimizer changes
    frozen: bool = False  # a parameter that is not trained
    volatile: bool = False  # may change before the optimizer steps

    @property
    def is_late(self) -> bool:
        """On a device, and copied beside what that computes."""
        return self.source.device.type != "cpu" and not self.volatile


def part_of(entry: Entry, replicas: Copies) -> Part | None:
    """None where this rank is not in the tensor's mesh. `replicas` are those of plain tensors."""
    tensor = entry.tensor
    if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
        return _part_of_dtensor(entry.name, tensor, replicas)
    _check_supported(entry.name, tensor)
    local = tensor.detach()
    if entry.flat is not None and local.dim() == 1 and local.numel() == entry.flat.count:
        return Part(entry.flat.shape, (), entry.flat.start, local, ALONE)
    shape = tuple(local.shape)
    return Part(shape, (0,) * len(shape), None, local, replicas)


def pieces_of(entries: Iterable[Entry], replicas: Copies) -> list[Piece]:
    """In the order of their names, on all ranks alike."""
    ordered = sorted(entries, key=lambda e: e.name)
    parts = [(e, part_of(e, replicas)) for e in ordered]
    shares = {key: _divide(key, parts) for key in {p.copies for _, p in parts if p is not None}}
    pieces = []
    for entry, part in parts:
        if part is None or entry.share == NOT_ME:
            continue
        rows = (0, _rows(part))
        if entry.share == FIRST or (entry.share == DIVIDE and part.copies.first_only):
            rows = rows if part.copies.index == 0 else (0, 0)
        elif entry.share == DIVIDE:
            rows = shares[part.copies][entry.name]
        piece = _piece(entry, part, *rows)
        if piece is not None:
            pieces.append(piece)
    return pieces


def cut(sizes: list[tuple[int, int]], index: int, count: int) -> list[tuple[int, int]]:
    """Rows (first, last) of each tensor for rank `index` of `count`; `sizes` are (rows, bytes of a
    row). All tensors in a line are cut into equal stretches, at the nearest row."""
    total = sum(rows * row_bytes for rows, row_bytes in sizes)
    ends = [total * i // count for i in (index, index + 1)]
    found, at = [], 0
    for rows, row_bytes in sizes:
        near = [(end - at + row_bytes // 2) // max(row_bytes, 1) for end in ends]
        first, last = (min(max(row, 0), rows) for row in near)
        found.append((first, last))
        at += rows * row_bytes
    return found


def _divide(copies: Copies, parts: list[Any]) -> dict[str, tuple[int, int]]:
    ours = [(e, p) for e, p in parts if p is not None and p.copies == copies and e.share == DIVIDE]
    sizes = []
    for _, part in ours:
        size, rows = part.local.numel() * part.local.element_size(), _rows(part)
        # Small ones stay whole: a cut costs more than it balances.
        rows = rows if size >= DIVIDE_BYTES else min(rows, 1)
        sizes.append((rows, size // rows if rows else 0))
    found = {}
    for (entry, part), (rows, _), piece in zip(ours, sizes, cut(sizes, copies.index, copies.count)):
        whole = rows == 1 and piece == (0, 1)
        found[entry.name] = (0, _rows(part)) if whole else piece
    return found


def _rows(part: Part) -> int:
    if not part.local.numel():
        return 0
    return part.local.shape[0] if part.local.dim() else 1


def _piece(entry: Entry, part: Part, first: int, last: int) -> Piece | None:
    local = part.local
    whole_is_empty = 0 in part.shape
    if whole_is_empty:
        # Only named, by one rank.
        if part.copies.index or any(part.offsets):
            return None
    elif first >= last:
        return None
    elif local.dim() and last - first < local.shape[0]:
        local = local.narrow(0, first, last - first)
    size = local.numel() * local.element_size()
    plain = local.device.type == "cpu" and local.is_contiguous()
    plain = plain and not (local.is_conj() or local.is_neg())
    spec: dict[str, Any] = {
        "name": entry.name,
        "group": entry.group,
        "dtype": word_of(local.dtype, entry.name),
        "shape": list(part.shape),
        "element_bytes": local.element_size(),
        "nbytes": size,
    }
    if part.flat_start is not None:
        spec["flat"] = [part.flat_start + first, local.numel()]
    else:
        offsets = list(part.offsets)
        if offsets:
            offsets[0] += first
        spec["offsets"], spec["piece_shape"] = offsets, list(local.shape)
    frozen = isinstance(entry.tensor, nn.Parameter) and not entry.tensor.requires_grad
    # Of tensors made in inference mode torch does not tell whether they changed.
    volatile = entry.volatile or local.is_inference()
    pullable = plain and not volatile and size > 0
    return Piece(spec, local, pullable, frozen, volatile)


def version_of(tensor: Tensor) -> int:
    """Goes up with each change in place that torch sees; constant where it does not count them."""
    return 0 if tensor.is_inference() else tensor._version


def _part_of_dtensor(name: str, tensor: Any, replicas: Copies) -> Part | None:
    mesh, placements, local = tensor.device_mesh, tensor.placements, tensor._local_tensor.detach()
    _check_supported(name, local)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return None
    if any(placement.is_partial() for placement in placements):
        raise CheckpointError(f"cannot checkpoint {name}: its ranks hold partial sums")
    shape, offsets = _local_box(tensor)
    if tuple(shape) != tuple(local.shape):
        raise CheckpointError(
            f"cannot checkpoint {name}: this rank holds {tuple(local.shape)} of it, and torch says "
            f"that {placements} make {tuple(shape)}; such a mixed sharding is not supported"
        )
    index, count = (0, 1) if replicas == ALONE else _mesh_among_its_like(mesh)
    copied = []
    for dimension, placement in enumerate(placements):
        if placement.is_replicate():
            size = mesh.size(dimension)
            index, count = index * size + coordinate[dimension], count * size
            copied.append(dimension)
    copies = ALONE
    if count > 1:
        copies = Copies(f"{mesh} {copied} {tuple(coordinate)}", index, count)
    return Part(tuple(tensor.shape), tuple(offsets), None, local, copies)


def _mesh_among_its_like(mesh: Any) -> tuple[int, int]:
    """(Which one, of how many): a mesh may be one of several slices of another. Tensor parallel
    leaves a tensor that is not in its plan to FSDP2, each of whose meshes then has all of it."""
    root = _root_of(mesh)
    spread = torch.isin(root.mesh, mesh.mesh).nonzero()
    index, count = 0, 1
    for dimension, own in enumerate(root.get_coordinate() or ()):
        if len(spread[:, dimension].unique()) == 1:
            size = root.size(dimension)
            index, count = index * size + own, count * size
    return index, count


def _root_of(mesh: Any) -> Any:
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    from torch.distributed import device_mesh  # before torch 2.8

    resources = getattr(device_mesh, "_mesh_resources", None)
    if resources is None:
        return mesh
    if hasattr(resources, "get_root_mesh"):
        return resources.get_root_mesh(mesh)
    return resources.get_parent_mesh(mesh) or mesh


def _local_box(tensor: Any) -> tuple[Any, Any]:
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor._utils import (  # type: ignore[no-redef]
            compute_local_shape_and_global_offset,
        )
    return compute_local_shape_and_global_offset(
        tuple(tensor.shape), tensor.device_mesh, tensor.placements
    )


def _check_supported(name: str, tensor: Tensor) -> None:
    problem = ""
    if tensor.device.type == "meta":
        problem = "it is on the meta device, without content"
    elif tensor.layout is not torch.strided:
        problem = f"its layout is {tensor.layout}"
    elif tensor.is_quantized:
        problem = "it is quantized"
    elif hasattr(tensor, "__tensor_flatten__"):
        problem = f"it is a {type(tensor).__name__}, which hides several tensors"
    if problem:
        raise CheckpointError(f"cannot checkpoint {name}: {problem}, which is not supported")
