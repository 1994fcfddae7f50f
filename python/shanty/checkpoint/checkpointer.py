"""The checkpointer of a training script; see docs/checkpoints.md."""

from __future__ import annotations

import atexit
import math
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import torch.distributed as dist

from shanty.checkpoint.attached import Attached
from shanty.checkpoint.engine import Engine, find_engine
from shanty.checkpoint.errors import CheckpointError, whole_number
from shanty.checkpoint.load import Loaded, load
from shanty.checkpoint.metrics import BestRule
from shanty.checkpoint.orders import Orders
from shanty.checkpoint.parts import ALONE, Copies
from shanty.checkpoint.replicas import check_replicas
from shanty.checkpoint.save import SaveHandle, Saver, say
from shanty.checkpoint.schedule import MTBF_S, Milestones, Schedule
from shanty.checkpoint.signals import Termination
from shanty.checkpoint.world import World
from shanty.recorder import get_recorder

EXIT_LIMIT_S = 60.0
TRIAL_LIMIT_S = 10.0  # that the first save waits for a trial of the storage
TERM_LIMIT_S = 600.0  # The launcher's grace is shorter and decides.
PROTOCOL = 1


class Checkpointer:
    """Saves and loads all that a training run needs to go on, bit for bit.

    Every rank makes one and calls `load`, `save` and `maybe_save` alike, in its training thread;
    nothing is connected or started before the first of these. What of `directory`, `keep`, `every`
    and `milestones` is not given is what the job file says under `checkpoint`, where `shanty run`
    has started this. `keep` newest checkpoints (3) stay in `directory`. `every` is for maybe_save:
    steps, a time ("10min"), or "auto" (the default), from what a save costs and the mean time
    between failures: as measured, and `mtbf_s` at first. `milestones`: the first save in each so
    many steps is pinned. `rate_limit`:
    bytes per second written, per node. `allow_pickle` lets values that have no JSON be saved, and
    loaded, as pickles: a pickle can run any code. `replicas`: who else has the same plain tensors,
    to store each byte once: "auto" is all ranks, None nobody, or a process group; what they have is
    compared at the first save. "first": as "auto", but the first rank stores all, and what others
    have may differ. `copy_at_once`:
    save() returns only when parameters may change, for scripts that change them outside of the
    optimizer. `keep_best` more stay: those with the lowest (`mode="max"`: highest) value of the
    metric `best` that `save` got.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        keep: int | None = None,
        every: int | str | None = None,
        rate_limit: int | None = None,
        allow_pickle: bool = False,
        replicas: Any = "auto",
        mtbf_s: float = MTBF_S,
        copy_at_once: bool = False,
        keep_best: int = 0,
        best: str = "loss",
        mode: str = "min",
        milestones: int | None = None,
    ) -> None:
        directory = _of_job("DIR", "") if directory is None else directory
        if not os.fspath(directory):
            raise CheckpointError(
                "cannot make a Checkpointer without a directory: give one, or checkpoint.dir in the "
                "job file of shanty run"
            )
        if "://" in os.fspath(directory):
            raise CheckpointError(
                f"cannot save into {directory}: give a directory, which all nodes share; mount "
                "what is reached by a URL"
            )
        if isinstance(replicas, str) and replicas not in ("auto", "first"):
            raise CheckpointError(
                f'replicas="{replicas}": give "auto", "first", None or a process group'
            )
        self._root = str(Path(directory).absolute())
        self._keep = whole_number("keep", _number_of_job("KEEP", 3) if keep is None else keep, 1)
        self._rate = whole_number("rate_limit", math.ceil(rate_limit or 0), 0)
        self._schedule = Schedule(_of_job("EVERY", "auto") if every is None else every, mtbf_s)
        milestones = _number_of_job("MILESTONES", 0) if milestones is None else milestones
        self._milestones = Milestones(whole_number("milestones", milestones, 0))
        self._replicas = replicas
        self._copy_at_once = copy_at_once
        self._best = BestRule(keep_best, best, mode)
        self._attached = Attached(allow_pickle)
        self._termination = Termination()
        self._engine: Engine | None = None
        self._world: World | None = None
        self._saver: Saver | None = None
        self._orders: Orders | None = None
        self._hooks: list[Any] = []
        self._pid = os.getpid()
        self._blocked_s = 0.0
        self._saved_at = time.monotonic()
        self._handle: SaveHandle | None = None
        self._checked_replicas = self._tried_storage = self._checked_storage = False
        atexit.register(self.close)

    def attach(
        self,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        sampler: Any = None,
        loader: Any = None,
        scaler: Any = None,
        ema: Any = None,
        rng: Any = True,
        extra: Any = None,
    ) -> Checkpointer:
        """Says what belongs to a checkpoint. Model, optimizer, scheduler, scaler and ema may each
        be several, in a dict or list. `loader` (or `sampler`): a ResumableLoader, a
        ResumableSampler, or anything with state_dict. `rng`: True, False, or further generators.
        `extra`: a dict, updated in place by `load`; an object with state_dict; or a callable that
        gives a value, found again as `extra` of what `load` returns."""
        before = len(self._attached.optimizers)
        if loader is None:
            loader = sampler
        elif sampler is not None and sampler is not getattr(loader, "sampler", None):
            raise CheckpointError("cannot attach a loader and a sampler: give one of the two")
        self._attached.add(model, optimizer, scheduler, scaler, ema, loader, rng, extra)
        for _, _, one in self._attached.optimizers[before:]:
            self._hooks.append(one.register_step_pre_hook(self._before_step))
        return self

    def save(
        self, step: int, pin: bool = False, metrics: dict[str, Any] | None = None
    ) -> SaveHandle:
        """Returns at once; copying goes on until the optimizer's next step, which waits for it.
        Failing storage does not stop the training: the handle says so, and a line on stderr. A
        pinned checkpoint is never pruned. `metrics`: numbers by name, stored and listed with it;
        rank 0's count."""
        began = time.monotonic()
        step = whole_number("step", step, 0)
        self._check_ready("save")
        self._saved_at = began
        try:
            saver = self._connect_again()
        except CheckpointError as error:
            if self._world is None:
                raise
            handle = SaveHandle(step)
            handle._fail(str(error))
            return handle
        assert self._world is not None
        saver.fence()
        saver.notice()
        pin = self._milestones.passed(step) or pin
        entries, models = self._attached.tensors()
        shared = self._attached.shared(step, models, self._world)
        shared.update(self._best.score(metrics))
        shared["history"] = self._schedule.failures.saved(self._world.generation)
        own = self._attached.own(shared, self._world)
        if not self._checked_replicas:
            check_replicas(self._world, entries, saver.replicas)
            self._checked_replicas = True
        handle = saver.save(step, entries, models.aliases, (own, shared), pin)
        self._preflight(saver, 0.0 if self._tried_storage else TRIAL_LIMIT_S)
        self._tried_storage = True
        self._blocked_s = time.monotonic() - began
        self._handle = handle
        return handle

    def maybe_save(self, step: int, metrics: dict[str, Any] | None = None) -> SaveHandle | None:
        """Call it after each step of the optimizer. Saves when it is time.

        From the first call on, SIGTERM does not end the process at once: the next call saves, waits
        until that is durable, and ends the process as the signal would have. With several ranks the
        one after the next call may be the one that saves, on all ranks alike.
        """
        step = whole_number("step", step, 0)
        self._check_process()
        if self._world is None:
            self._connect()
        assert self._world is not None and self._orders is not None
        self._termination.install()
        if self._saver is not None:
            self._saver.notice()
        self._learn()
        schedule = self._schedule
        due = schedule.due(step, time.monotonic() - self._saved_at)
        by_time = schedule.timed and due and self._world.rank == 0
        ordered = self._orders.poll(self._termination.came or by_time)
        if not ordered and not (due and not schedule.timed):
            return None
        handle = self.save(step, metrics=metrics)
        if self._termination.came:
            try:
                handle.wait(TERM_LIMIT_S)
            except CheckpointError as error:
                say(str(error))
            self._termination.act()
        return handle

    def load(self, step: int | None = None, strict: bool = True) -> Loaded | None:
        """Puts the newest whole checkpoint, or that of `step`, into what is attached. None: there
        is none, and nothing was changed. All ranks call it. After an error the attached state may be
        a mixture: do not train on it."""
        step = None if step is None else whole_number("step", step, 0)
        self._check_ready("load")
        saver = self._connect_again()
        assert self._engine is not None and self._world is not None
        saver.fence()
        found = load(self._engine.connection, self._world, self._attached, step, strict)
        self._saved_at = time.monotonic()
        if found is not None:
            self._schedule.loaded_at(found.step)
            self._milestones.loaded_at(found.step)
            self._schedule.failures.loaded(found.history, self._world.generation)
        recorder = get_recorder()
        if recorder is not None:
            recorder.resumed_at(found.step if found is not None else 0)
        return found

    def fence(self) -> None:
        """Waits until parameters may change. The attached optimizers do so by themselves; for code
        that changes parameters in other ways between a save and the optimizer's next step."""
        if self._saver is not None and os.getpid() == self._pid:
            self._saver.fence()

    def close(self) -> None:
        """Waits, at most EXIT_LIMIT_S, for saves in flight; what failed is on stderr."""
        if os.getpid() != self._pid or self._engine is None:
            return
        engine, self._engine = self._engine, None
        atexit.unregister(self.close)
        self._termination.restore()
        for hook in self._hooks:
            hook.remove()
        saver, self._saver = self._saver, None
        end = time.monotonic() + EXIT_LIMIT_S
        for handle in saver.pending if saver is not None else []:
            try:
                handle.wait(max(end - time.monotonic(), 0.0))
            except CheckpointError as error:
                if handle.error is None:
                    say(str(error))
        if saver is not None:
            saver.notice()
        engine.close(alone=self._world is None or self._world.size == 1)

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _before_step(self, *_: Any) -> None:
        self.fence()

    # Where a step is compiled: Dynamo would trace into the connection, and warn of what it meets.
    setattr(_before_step, "_torchdynamo_disable", True)

    def _check_ready(self, what: str) -> None:
        self._check_process()
        if self._attached.is_empty:
            raise CheckpointError(f"cannot {what} a checkpoint of nothing: call attach() before")

    def _check_process(self) -> None:
        """A forked child must not speak on its parent's connection."""
        if os.getpid() == self._pid:
            return
        if self._engine is not None:
            raise CheckpointError(
                f"this Checkpointer is that of process {self._pid}, from which this one was "
                "forked: make one after the fork"
            )
        self._pid = os.getpid()

    def _connect_again(self) -> Saver:
        """As _connect; and where the engine of any rank has ended, all meet anew."""
        engine, saver = self._engine, self._saver
        if engine is not None and saver is not None and self._world is not None:
            if self._world.any(engine.connection.is_lost()):
                saver.give_up("a checkpoint engine was lost before it was known to be durable")
                self._saver = None
        return self._connect()

    def _connect(self) -> Saver:
        if self._saver is None:
            world = self._world or World()
            leader = self._meet(world)
            assert self._engine is not None
            self._world = world
            # Orders that were given stay good when the engines change.
            self._orders = self._orders or Orders(world, str(leader.get("token", "")))
            copies, at_once = self._copies(world), self._copy_at_once
            number = int(leader.get("first_number", 1))
            self._saver = Saver(self._engine.connection, copies, at_once, number)
        return self._saver

    def _meet(self, world: World) -> dict[str, Any]:
        """All ranks' engines get to know rank 0's. An error of any rank is an error of all."""
        problem, leader = "", {}
        try:
            leader = self._greet(world)
        except (CheckpointError, OSError) as error:
            problem = str(error)
        leader = world.broadcast(leader)
        if not problem and world.rank and "leader" in leader:
            try:
                assert self._engine is not None
                words = {"leader": leader["leader"], "token": leader["token"]}
                self._engine.connection.ask("join", **words)
            except CheckpointError as error:
                problem = str(error)
        problems = [text for text in world.gather(problem) if text]
        if problems:
            raise CheckpointError(problems[0])
        return leader

    def _greet(self, world: World) -> dict[str, Any]:
        self._engine = self._engine.again() if self._engine is not None else find_engine()
        # An engine holds its limit for all that it serves; others of the node have theirs.
        engines = world.local_size if self._engine.is_own else 1
        return self._engine.connection.ask(
            "hello",
            protocol=PROTOCOL,
            root=self._root,
            rank=world.rank,
            world_size=world.size,
            local_world_size=world.local_size,
            address=world.address,
            node=world.node,
            generation=world.generation,
            run=world.run,
            run_dir=os.environ.get("SHANTY_RUN_DIR", ""),
            keep=self._keep,
            rate_bytes_per_s=-(-self._rate // engines),
        ).fields

    def _copies(self, world: World) -> Copies:
        if self._replicas is None or world.size == 1:
            return ALONE
        if self._replicas in ("auto", "first"):
            return Copies("all", world.rank, world.size, self._replicas == "first")
        group = self._replicas
        members = dist.get_process_group_ranks(group)
        return Copies(f"ranks {members}", dist.get_rank(group), len(members))

    def _preflight(self, saver: Saver, limit_s: float) -> None:
        """Once, on all ranks, when the size is known: what will go wrong with this storage. Where it
        takes longer than `limit_s`, the next save asks again."""
        world = self._world
        if self._checked_storage or world is None or self._engine is None:
            return
        nodes = -(-world.size // max(world.local_size, 1))
        try:
            answer = self._engine.connection.ask(
                "preflight", bytes=saver.slot_bytes, nodes=nodes, limit_s=limit_s
            ).fields
        except CheckpointError as error:
            self._checked_storage = True
            say(f"the storage of the checkpoints could not be checked: {error}")
            return
        self._checked_storage = not answer.get("pending", False)
        if not self._checked_storage and limit_s and not world.rank:
            say(f"checkpoints: {self._root} was tried for {limit_s:.0f} s, and does not answer yet")
        for finding in answer.get("findings", []) if not world.rank else []:
            say(f"checkpoints: {finding['severity']}: {finding['message']}")

    def _learn(self) -> None:
        handle = self._handle
        if handle is not None and self._schedule.auto and handle._over:
            self._handle = None
            if handle.error is None:
                handle._ask("status")
                copy_s = float(handle.seconds.get("copy") or 0.0)
                durable_s = float(handle.seconds.get("durable") or 0.0)
                self._schedule.learn(self._blocked_s + copy_s, durable_s)


def _of_job(name: str, default: str) -> str:
    """What `shanty run` says of its job file."""
    return os.environ.get(f"SHANTY_CKPT_{name}") or default


def _number_of_job(name: str, default: int) -> int:
    text = _of_job(name, str(default))
    if not text.isdecimal():
        raise CheckpointError(f"SHANTY_CKPT_{name}={text}: give a whole number")
    return int(text)
