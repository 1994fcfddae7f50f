"""What is taken for still."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from shanty.checkpoint.entries import Entry, collect_modules  # noqa: E402
from shanty.checkpoint.parts import ALONE, Piece, pieces_of  # noqa: E402
from shanty.checkpoint.stills import Stills  # noqa: E402
from torch import nn  # noqa: E402


def layers(*frozen: int) -> nn.Sequential:
    model = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(4)))
    for i in frozen:
        model[i].weight.requires_grad_(False)
    return model


def pieces(model: nn.Module) -> list[Piece]:
    entries: list[Entry] = collect_modules([("", model)]).entries
    return pieces_of(entries, ALONE)


def change(model: nn.Sequential, *which: int) -> None:
    for i in which:
        with torch.no_grad():
            model[i].weight.add_(1)


def test_frozen_parameters_are_still_at_once_and_until_they_change() -> None:
    model, stills = layers(0, 1), Stills()
    parts = pieces(model)
    assert stills.look(parts) == {"0.weight", "1.weight"}
    change(model, 2, 3)
    assert stills.look(parts) == {"0.weight", "1.weight"}
    change(model, 1, 2, 3)
    assert stills.look(parts) == {"0.weight"}
    assert stills.look(parts) == {"0.weight"}  # the others have changed once
    assert stills.look(pieces(model)) == {"0.weight"}


def test_what_does_not_change_between_two_saves_becomes_still() -> None:
    model, stills = layers(), Stills()
    parts = pieces(model)
    assert not stills.look(parts)
    assert not stills.look(parts)  # nothing was trained
    change(model, 0, 1)
    assert stills.look(parts) == {"2.weight", "3.weight"}


def test_small_tensors_do_not_count() -> None:
    model, stills = nn.Linear(4, 4), Stills()
    parts = pieces(model)
    assert not stills.look(parts) and not stills.look(parts)
