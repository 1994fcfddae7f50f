"""Signals, interrupts and forks around a checkpointer."""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

torch = pytest.importorskip("torch")

from checkpoint_double import Double, Session, Store  # noqa: E402
from shanty.checkpoint import CheckpointError, Checkpointer  # noqa: E402
from shanty.checkpoint.signals import Termination  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    store = Store(pull=False)
    double = Double(store)
    monkeypatch.setenv("SHANTY_CKPT_SOCKET", double.name)
    yield double
    double.die()


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ended_of(child: int) -> int:
    """How it ended, with SIGALRM for one that does not within the limit."""
    pidfd = os.pidfd_open(child)
    wait = select.poll()
    wait.register(pidfd, select.POLLIN)
    in_time = wait.poll(60_000)
    os.close(pidfd)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if in_time else -signal.SIGALRM


def test_a_forked_child_ends_by_the_first_sigterm() -> None:
    termination = Termination()
    termination.install()
    ready, say_ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say_ready, b"x")
        while True:
            signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    assert ended_of(child) == -signal.SIGTERM
    assert not termination.came
    os.kill(os.getpid(), signal.SIGTERM)  # noted here as before
    assert termination.came


def test_a_handler_that_came_later_stays() -> None:
    termination = Termination()
    termination.install()
    theirs = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGTERM, theirs)
    termination.restore()
    assert signal.getsignal(signal.SIGTERM) is theirs


def test_a_script_that_handles_sigterm_saves_once_for_it(tmp_path: Path, double: Double) -> None:
    came = []
    signal.signal(signal.SIGTERM, lambda *_: came.append(len(double.store.checkpoints)))
    with Checkpointer(tmp_path, every=1000).attach(model=nn.Linear(2, 2)) as checkpointer:
        for step in range(1, 6):
            checkpointer.maybe_save(step)
            if step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
        assert list(double.store.checkpoints) == [3] and came == [1]
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [1, 1]


class Interrupted(Exception):
    pass


def on_status(monkeypatch: pytest.MonkeyPatch, handler: Any) -> None:
    """`handler` is run by a signal that comes while the engine is asked for the status, which it
    answers afterwards."""
    handled = threading.Event()

    def handle(*args: Any) -> None:
        try:
            handler(*args)
        finally:
            handled.set()

    signal.signal(signal.SIGUSR1, handle)
    original = Session.wait

    def wait(self: Session, request: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert handled.wait(60)
        return original(self, request)

    monkeypatch.setattr(Session, "wait", wait)


def test_an_interrupted_request_takes_no_answer_from_the_next(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise Interrupted

    with Checkpointer(tmp_path).attach(model=nn.Linear(2, 2)) as checkpointer:
        double.store.hold.clear()
        handle = checkpointer.save(1)
        with monkeypatch.context() as patch:
            on_status(patch, interrupt)
            with pytest.raises(Interrupted):
                handle.wait(60)
        double.store.hold.set()
        checkpointer.save(2).wait(60)
        assert checkpointer.load().step == 2


def test_a_save_in_a_signal_handler_says_why_it_cannot(
    tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    with Checkpointer(tmp_path).attach(model=nn.Linear(2, 2)) as checkpointer:

        def save(*_: Any) -> None:
            said.append(checkpointer.save(2).error)

        with monkeypatch.context() as patch:
            on_status(patch, save)
            checkpointer.save(1).wait(60)
        assert said and "as in a signal handler: note the signal there" in said[0]
        checkpointer.save(3).wait(60)
    assert {1, 3} <= double.store.checkpoints.keys()


def test_a_forked_child_makes_its_own(tmp_path: Path, double: Double) -> None:
    with Checkpointer(tmp_path).attach(model=nn.Linear(2, 2)) as checkpointer:
        unused = Checkpointer(tmp_path / "child").attach(model=nn.Linear(2, 2))
        checkpointer.save(1).wait(60)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for call in (checkpointer.save, checkpointer.load, checkpointer.maybe_save):
                    with pytest.raises(CheckpointError, match="make one after the fork"):
                        call(2)
                unused.save(7).wait(60)
                code = 0
            finally:
                os._exit(code)
        assert ended_of(child) == 0
        checkpointer.save(3).wait(60)
    assert list(double.store.checkpoints) == [1, 7, 3]
