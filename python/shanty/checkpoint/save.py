"""Puts the tensors into the engine's memory, and holds the optimizer until that is done."""

from __future__ import annotations

import os
import sys
import threading
import time
from operator import attrgetter
from typing import Any, Callable

import torch
from torch import Tensor

from shanty.checkpoint.arena import COMMITTED, COPIED, FAILED, FILLING, Arena
from shanty.checkpoint.entries import Entry
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.parts import Copies, Piece, pieces_of
from shanty.checkpoint.stills import Stills
from shanty.checkpoint.wire import Answer, Connection, pack_addresses
from shanty.saves import count_save, tell_save

FENCE_LIMIT_S = 60.0
# Memory that was never touched takes a copy ten times slower than this machine's others.
FENCE_BYTES_PER_S = 100e6
_POLL_MS = 1
_WAIT_SLICE_S = 0.25
_STATES = ("copying", "staged", "durable", "committed")
_version = attrgetter("_version")


class SaveHandle:
    """One save. `staged`: it is whole in memory, parameters may change. `durable`: all ranks' files
    are on storage and the checkpoint is committed. `error`: why it will never be."""

    def __init__(self, step: int, number: int = 0) -> None:
        self.step = step
        self._number = number
        self.error: str | None = None
        self.seconds: dict[str, float] = {}
        self._state = 0
        self._peek: Callable[[], int] | None = None
        self._connection: Connection | None = None
        self._sent = threading.Event()  # `save` was asked, or never will be
        # The parameters' versions at the save, until it is sure that the copy has them.
        self._changed = 0
        self._versions: Callable[[], int] | None = None

    @property
    def staged(self) -> bool:
        return self.error is None and self._look() >= COPIED

    @property
    def durable(self) -> bool:
        return self.error is None and self._look() == COMMITTED

    def wait(self, limit_s: float | None = None) -> None:
        """Returns once it is durable. CheckpointError when it failed, or after `limit_s`."""
        self._wait("committed", limit_s)

    def _wait(self, state: str, limit_s: float | None) -> None:
        end = time.monotonic() + limit_s if limit_s is not None else float("inf")
        while self.error is None and not (self._state == COMMITTED):
            left = end - time.monotonic()
            if left <= 0:
                raise CheckpointError(f"the checkpoint of step {self.step} is not {state} yet")
            # In slices, as others have requests on the same connection.
            slice_s = min(_WAIT_SLICE_S, left)
            if self._sent.wait(slice_s) and self._ask("wait", state=state, limit_s=slice_s):
                break
        if self.error is not None:
            raise CheckpointError(f"the checkpoint of step {self.step} failed: {self.error}")

    def _ask(self, op: str, **fields: Any) -> bool:
        """Whether the state in `fields` is reached."""
        if self._connection is None:
            return False
        try:
            answer = self._connection.ask(op, **self._id, **fields).fields
        except CheckpointError as error:
            self._fail(str(error))
            return False
        state = answer.get("state", "failed")
        self.seconds = answer.get("seconds") or self.seconds
        if state not in _STATES:
            self._fail(str(answer.get("error") or "the engine says no more"))
            return False
        self._state = max(self._state, FILLING + _STATES.index(state))
        self._settle()
        return _STATES.index(state) >= _STATES.index(fields.get("state", "committed"))

    @property
    def _id(self) -> dict[str, int]:
        return {"step": self.step, "number": self._number}

    def _look(self) -> int:
        """The newest known state, without asking unless the slot is another's by now."""
        if self.error is not None or self._state == COMMITTED or self._peek is None:
            return self._state
        if not self._sent.is_set():
            return self._state
        state = self._peek()
        if state in (0, FAILED):
            self._ask("status")
        else:
            self._state = max(self._state, state)
            self._settle()
        return self._state

    def _settle(self) -> None:
        """Who saw that all is copied while nothing had changed may change parameters."""
        if self._changed and self._state >= COPIED and self._versions is not None:
            if self._versions() == self._changed:
                self._changed = 0

    @property
    def _over(self) -> bool:
        return self.error is not None or self._look() == COMMITTED

    def _fail(self, error: str) -> None:
        if self.error is None:
            self.error = error
            say(f"the checkpoint of step {self.step} failed: {error}")
            tell_save(step=self.step, failed=error)
        self._sent.set()


class Saver:
    """Used by the training thread only, but for `_push`, which may have a thread of its own. Saves
    have numbers from `first_number` on, the same on all ranks."""

    def __init__(
        self, connection: Connection, replicas: Copies, at_once: bool, first_number: int = 1
    ) -> None:
        self._connection = connection
        self._number = first_number
        self.replicas = replicas
        self._at_once = at_once
        self._plan = Plan([], replicas)
        self._stills = Stills()
        self._arena: Arena | None = None
        self._layout = -1
        self._offsets: list[int] = []
        self._pull = True
        self._laid_out: Any = None
        self._ways: Ways | None = None
        self._told: Ways | None = None  # whose pointers the engine has
        self._stream: Any = None
        self._pinned: Arena | None = None
        self.slot_bytes = 0
        self.pending: list[SaveHandle] = []

    def save(
        self,
        step: int,
        entries: list[Entry],
        aliases: dict[str, str],
        texts: tuple[dict[str, Any], dict[str, Any]],
        pin: bool,
    ) -> SaveHandle:
        """Never raises for what goes wrong outside of this process: the handle tells."""
        handle = SaveHandle(step, self._number)
        self._number += 1
        handle._connection = self._connection
        if self._plan.entries is not entries:
            self._plan = Plan(entries, self.replicas)
        try:
            self._lay_out(aliases)
            slot = int(self._connection.ask("begin", layout=self._layout, step=step).fields["slot"])
            self._fill(handle, slot, texts, pin)
        except (CheckpointError, OSError) as error:
            handle._fail(str(error))
            self._abandon(handle, str(error))
            return handle
        self.pending.append(handle)
        if self._at_once:
            self.fence()
        return handle

    def notice(self) -> None:
        """Says what failed since, once; counts and forgets what is committed. Cheap."""
        for handle in [handle for handle in self.pending if handle._over]:
            self.pending.remove(handle)
            if handle.error is None:
                count_save()

    def give_up(self, why: str) -> None:
        """Says of all that is not known to be committed that it has failed."""
        self.notice()
        for handle in self.pending:
            handle._fail(why)
        self.pending = []

    def fence(self) -> None:
        """Returns when parameters may change: at once unless the last save is being copied."""
        if not self.pending:
            return
        handle = self.pending[-1]
        end = time.monotonic() + self._fence_limit_s()
        while not handle._sent.wait(0.2):
            self._check_engine(handle, end)
        while handle._peek is not None and handle.error is None and handle._peek() == FILLING:
            if self._connection.is_lost(_POLL_MS):
                handle._fail("the checkpoint engine was lost while it copied")
            self._check_engine(handle, end)
        self._check_unchanged(handle)

    def _fence_limit_s(self) -> float:
        return FENCE_LIMIT_S + self.slot_bytes / FENCE_BYTES_PER_S

    def _check_engine(self, handle: SaveHandle, end: float) -> None:
        if time.monotonic() > end:
            raise CheckpointError(
                f"the checkpoint of step {handle.step} was not copied within "
                f"{self._fence_limit_s():.0f} s, and the optimizer cannot step before: the "
                "checkpoint engine hangs; see its messages on stderr"
            )

    def _check_unchanged(self, handle: SaveHandle) -> None:
        """Anyone but the optimizer who changed a parameter in place spoiled the copy."""
        versions, handle._changed = handle._changed, 0
        if not versions or handle.error is not None or versions == self._plan.versions():
            return
        self._at_once = True
        trouble = self._abandon(handle, "its tensors changed while they were copied")
        outcome = "it is given up"
        if trouble:
            outcome = f"it may hold a mixture and could not be taken back ({trouble})"
        handle._fail(
            "parameters were changed between the save and the optimizer's next step, not by the "
            f"optimizer; {outcome}, and from now on save() returns only when all is copied"
        )

    def _abandon(self, handle: SaveHandle, why: str) -> str:
        """Tells the other ranks, who would wait for this one's part. Returns what went wrong."""
        try:
            self._connection.ask("abandon", **handle._id, why=why)
        except CheckpointError as error:
            return str(error)
        return ""

    def _lay_out(self, aliases: dict[str, str]) -> None:
        plan = self._plan
        still = self._stills.look(plan.pieces)
        if self._ways is not None and self._ways.plan is plan and self._ways.still == still:
            return
        pullable = [piece.pullable for piece in plan.pieces]
        if self._laid_out != (plan.specs, pullable, aliases, still):
            answer = self._ask_layout(aliases, still)
            if self._pull and not answer.fields.get("pull", True):
                self._pull = False
                answer = self._ask_layout(aliases, still)
            self._take_arena(answer)
            self._laid_out = (plan.specs, pullable, aliases, still)
        assert self._arena is not None
        self._ways = Ways(plan, still, self._arena, self._offsets, self._pull)

    def _take_arena(self, answer: Answer) -> None:
        if answer.fd is None:
            raise CheckpointError("the checkpoint engine gave no memory to save into")
        try:
            self.slot_bytes = int(answer.fields["slot_bytes"])
            self._arena = Arena(answer.fd, self.slot_bytes)
        finally:
            os.close(answer.fd)
        self._layout, self._offsets = answer.fields["layout"], answer.fields["offsets"]

    def _ask_layout(self, aliases: dict[str, str], still: frozenset[str]) -> Answer:
        modes = [("pull" if p.pullable and self._pull else "push") for p in self._plan.pieces]
        tensors = [{**spec, "mode": mode} for spec, mode in zip(self._plan.specs, modes)]
        for tensor in tensors:
            if tensor["name"] in still:
                tensor["still"] = True
        return self._connection.ask("layout", tensors=tensors, aliases=aliases)

    def _fill(
        self,
        handle: SaveHandle,
        slot: int,
        texts: tuple[dict[str, Any], dict[str, Any]],
        pin: bool,
    ) -> None:
        arena, ways, step = self._arena, self._ways, handle.step
        assert arena is not None and ways is not None
        handle._changed = self._plan.versions()
        handle._versions = self._plan.versions
        request: dict[str, Any] = {
            "slot": slot,
            **handle._id,
            **({"pointers": ways.pointers} if self._told is not ways else {}),
            "state": texts[0],
            "global": texts[1],
            "pin": pin,
        }
        try:
            ways.copy(slot, ways.now)
            event = self._copy_device(slot, ways)
        except Exception as error:
            raise CheckpointError(f"cannot copy the tensors: {error}") from error
        handle._peek = lambda: arena.state(slot, step)
        if not ways.later and event is None:
            self._ask_save(handle, ways, request)
            return
        arguments = (handle, slot, ways, event, request)
        threading.Thread(target=self._push, args=arguments, name="shanty-save", daemon=True).start()

    def _push(
        self, handle: SaveHandle, slot: int, ways: Ways, event: Any, request: dict[str, Any]
    ) -> None:
        try:
            ways.copy(slot, ways.later)
            if event is not None:
                event.synchronize()
            self._ask_save(handle, ways, request)
        except Exception as error:
            handle._fail(str(error))
            self._abandon(handle, str(error))

    def _ask_save(self, handle: SaveHandle, ways: Ways, request: dict[str, Any]) -> None:
        self._connection.ask("save", **request)
        self._told = ways
        handle._sent.set()

    def _copy_device(self, slot: int, ways: Ways) -> Any:
        """Beside what the device computes; the event is when it is done."""
        if not ways.device and not ways.volatile:
            return None
        if not torch.cuda.is_available():
            ways.copy(slot, ways.volatile)
            ways.copy(slot, ways.device)
            return None
        current = torch.cuda.current_stream()
        self._stream = self._stream or torch.cuda.Stream()
        self._pin()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            ways.copy(slot, ways.volatile, non_blocking=True)
            # A forward may change these; what it computes must come after their copy.
            current.wait_event(self._stream.record_event())
            ways.copy(slot, ways.device, non_blocking=True)
            return self._stream.record_event()

    def _pin(self) -> None:
        """Once per arena; where the driver refuses, copies are slower."""
        arena, before = self._arena, self._pinned
        if arena is None or arena is before:
            return
        runtime = torch.cuda.cudart()
        if before is not None:
            # What is copied into it may still be under way.
            self._stream.synchronize()
            runtime.cudaHostUnregister(before.bytes.data_ptr())
        runtime.cudaHostRegister(arena.bytes.data_ptr(), arena.size, 0)
        self._pinned = arena


class Plan:
    """What this rank stores of certain tensors; good as long as these stay in their places."""

    def __init__(self, entries: list[Entry], replicas: Copies) -> None:
        self.entries = entries
        self.pieces: list[Piece] = pieces_of(entries, replicas)
        self.specs = [piece.spec for piece in self.pieces]
        self._late = [piece.source for piece in self.pieces if piece.pullable or piece.is_late]

    def versions(self) -> int:
        """Changes when a tensor that is copied after save() returned is changed in place where
        torch sees it; 0: there are none."""
        return sum(map(_version, self._late)) + bool(self._late)


class Ways:
    """How each piece of a plan comes into an arena. Made once, as it costs what a save may not."""

    def __init__(
        self, plan: Plan, still: frozenset[str], arena: Arena, offsets: list[int], pull: bool
    ) -> None:
        # What the layout was made for; `still` is what it took for unchanging.
        self.plan, self.still = plan, still
        self.now: list[int] = []  # copied before `save` returns
        self.later: list[int] = []  # by a thread, where the engine may not pull them
        self.device: list[int] = []
        self.volatile: list[int] = []  # on a device too, and not only the optimizer changes them
        self._arena, self._offsets = arena, offsets
        self._pairs: dict[tuple[int, int], tuple[list[Tensor], list[Tensor], list[int]]] = {}
        addresses = []
        for i, piece in enumerate(plan.pieces):
            if piece.source.device.type != "cpu":
                (self.volatile if piece.volatile else self.device).append(i)
            elif not piece.pullable:
                self.now.append(i)
            elif pull:
                addresses.append(piece.source.data_ptr())
            else:
                self.later.append(i)
        self.pointers = pack_addresses(addresses)

    def copy(self, slot: int, which: list[int], non_blocking: bool = False) -> None:
        """`which` is one of the lists above."""
        if not which:
            return
        key = (slot, which[0])
        if key not in self._pairs:
            self._pairs[key] = self._pair(slot, which)
        targets, sources, odd = self._pairs[key]
        with torch.no_grad():
            if odd:
                sources = list(sources)
                for i in odd:
                    sources[i] = _as_bytes(sources[i])
            torch._foreach_copy_(targets, sources, non_blocking)

    def _pair(self, slot: int, which: list[int]) -> tuple[list[Tensor], list[Tensor], list[int]]:
        sources = [self.plan.pieces[i].source for i in which]
        targets = [self._view(slot, source, self._offsets[i]) for i, source in zip(which, sources)]
        odd = [i for i, s in enumerate(sources) if s.dtype != targets[i].dtype]
        return targets, sources, odd

    def _view(self, slot: int, source: Tensor, offset: int) -> Tensor:
        at = self._arena.at(slot, offset)
        if at % source.element_size():
            # An element type that the engine stores as bytes.
            return self._arena.view(at, torch.uint8, (source.numel() * source.element_size(),))
        return self._arena.view(at, source.dtype, tuple(source.shape))


def _as_bytes(tensor: Tensor) -> Tensor:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)


def say(line: str) -> None:
    sys.stderr.write(f"shanty: {line}\n")
    sys.stderr.flush()
