"""Which tensors do not change from save to save: the engine links their bytes to those of the
checkpoint before. What is taken for still and changes costs time only, since the bytes decide."""

from __future__ import annotations

from shanty.checkpoint.parts import Piece, version_of

# Less is not worth a new layout.
MIN_SHARE = 0.1
_LARGE_BYTES = 64 << 10


class Stills:
    """Frozen parameters are still from the first save on, others once they have not changed between
    two saves and some did; what has changed once is not taken for still again."""

    def __init__(self) -> None:
        self._pieces: list[Piece] | None = None
        self._large: list[Piece] = []
        self._versions: list[int] = []
        self._total = 0
        self._moved: set[str] = set()
        self._names: frozenset[str] = frozenset()

    def look(self, pieces: list[Piece]) -> frozenset[str]:
        """Once per save, before anything is copied: the names of those that are still."""
        is_new = pieces is not self._pieces
        if is_new:
            self._pieces = pieces
            self._large = [p for p in pieces if p.spec["nbytes"] >= _LARGE_BYTES]
            self._total = sum(p.spec["nbytes"] for p in pieces)
        before, self._versions = self._versions, [version_of(p.source) for p in self._large]
        if is_new:
            frozen = {p.spec["name"] for p in self._large if p.frozen}
            known = {p.spec["name"] for p in self._large} & self._names
            self._names = frozenset((frozen | known) - self._moved)
        else:
            self._compare(before)
        return self._names

    def _compare(self, before: list[int]) -> None:
        changed, quiet, quiet_bytes = set(), set(), 0
        for piece, old, new in zip(self._large, before, self._versions):
            name = piece.spec["name"]
            if old != new:
                changed.add(name)
            elif name not in self._names and name not in self._moved:
                quiet.add(name)
                quiet_bytes += piece.spec["nbytes"]
        self._moved |= changed
        if changed & self._names:
            self._names -= changed
        # Where nothing changed, nothing was trained between the two saves.
        if changed and quiet_bytes >= MIN_SHARE * self._total:
            self._names |= quiet
