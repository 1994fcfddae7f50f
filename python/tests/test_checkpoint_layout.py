"""What each rank stores: every element once, the bytes in balance, tied tensors once."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from shanty.checkpoint.attached import Attached  # noqa: E402
from shanty.checkpoint.entries import DIVIDE, FIRST, Entry, collect_modules  # noqa: E402
from shanty.checkpoint.errors import CheckpointError  # noqa: E402
from shanty.checkpoint.parts import ALONE, Copies, Piece, cut, pieces_of  # noqa: E402
from torch import nn  # noqa: E402

WORLDS = (1, 2, 3, 4, 6, 8)


@pytest.mark.parametrize("count", WORLDS)
def test_cuts_cover_all_rows_once_and_are_even(count: int) -> None:
    source = random.Random(count)
    for _ in range(50):
        sizes = [
            (source.randint(0, 40), source.randint(1, 99)) for _ in range(source.randint(0, 9))
        ]
        cuts = [cut(sizes, index, count) for index in range(count)]
        for tensor, (rows, _) in enumerate(sizes):
            ends = [c[tensor] for c in cuts]
            assert ends[0][0] == 0 and ends[-1][1] == rows
            assert all(a[1] == b[0] for a, b in zip(ends, ends[1:]))
        total = sum(rows * row_bytes for rows, row_bytes in sizes)
        for of_rank in cuts:
            stored = sum((b - a) * size for (a, b), (_, size) in zip(of_rank, sizes))
            assert abs(stored - total / count) <= 99 + 1


def entry(name: str, tensor: torch.Tensor, share: str = DIVIDE, volatile: bool = False) -> Entry:
    return Entry(name, "model", tensor, share, volatile)


def stored(entries: list[Entry], count: int) -> list[list[Piece]]:
    return [pieces_of(entries, Copies("all", index, count)) for index in range(count)]


@pytest.mark.parametrize("count", WORLDS)
def test_replicas_store_each_element_once(count: int) -> None:
    entries = [
        entry("big", torch.arange(100_000.0).reshape(1000, 100)),
        entry("wide", torch.zeros(1, 50_000)),
        entry("small", torch.zeros(30, 3)),
        entry("scalar", torch.tensor(3.0)),
        entry("empty", torch.zeros(0, 3)),
        entry("turned", torch.arange(60_000.0).reshape(300, 200).t()),
        entry("buffer", torch.zeros(100_000), FIRST, True),
    ]
    by_rank = stored(list(reversed(entries)), count)
    for one in entries:
        seen = torch.zeros(one.tensor.shape, dtype=torch.int32)
        specs = [p.spec for pieces in by_rank for p in pieces if p.spec["name"] == one.name]
        for spec in specs:
            box = tuple(slice(o, o + n) for o, n in zip(spec["offsets"], spec["piece_shape"]))
            seen[box] += 1
            assert spec["nbytes"] == seen[box].numel() * 4
        assert (seen == 1).all(), one.name
    assert [s.spec["nbytes"] for p in by_rank for s in p if s.spec["name"] == "empty"] == [0]
    assert all(p.spec["name"] != "buffer" for pieces in by_rank[1:] for p in pieces)


def test_a_piece_is_the_rows_it_says() -> None:
    tensor = torch.arange(40_000.0).reshape(400, 100)
    for pieces in stored([entry("a", tensor)], 3):
        spec = pieces[0].spec
        first, rows = spec["offsets"][0], spec["piece_shape"][0]
        assert torch.equal(pieces[0].source, tensor[first : first + rows])
        assert pieces[0].source.data_ptr() == tensor.data_ptr() + first * 400


def test_only_plain_memory_that_nobody_else_changes_is_pulled() -> None:
    large = torch.zeros(200, 200)
    entries = [
        entry("large", large),
        entry("buffer", torch.zeros(200, 200), FIRST, True),
        entry("turned", torch.zeros(200, 100).t()),
        entry("small", torch.zeros(10)),
        entry("nothing", torch.zeros(0, 3)),
        entry("conjugate", torch.zeros(200, 200, dtype=torch.complex64).conj()),
    ]
    assert [p.spec["name"] for p in pieces_of(entries, ALONE) if p.pullable] == [
        "large",
        "small",
    ]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.inner.weight
        self.piece = nn.Parameter(self.inner.weight.detach()[:2])
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("forgotten", torch.zeros(2), persistent=False)


def test_names_are_those_of_the_plain_model_and_tied_ones_are_stored_once() -> None:
    found = collect_modules([("", Tied()), ("ema.", Tied())])
    names = ["inner.weight", "kept", "piece"]
    assert sorted(e.name for e in found.entries) == sorted(names + [f"ema.{n}" for n in names])
    assert found.aliases == {
        "out.weight": "inner.weight",
        "ema.out.weight": "ema.inner.weight",
    }


def test_wrappers_leave_no_trace_in_the_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    plain = [e.name for e in collect_modules([("", model)]).entries]
    for wrapped in (nn.DataParallel(model), torch.compile(model)):
        assert [e.name for e in collect_modules([("", wrapped)]).entries] == plain
    assert "1.running_mean" in plain and "1.num_batches_tracked" in plain


@pytest.mark.parametrize(
    "tensor, word",
    [
        (torch.zeros(2, device="meta"), "meta device"),
        (torch.zeros(2).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8), "quantized"),
    ],
)
def test_what_cannot_be_saved_is_named(tensor: torch.Tensor, word: str) -> None:
    with pytest.raises(CheckpointError, match=f"cannot checkpoint odd.*{word}"):
        pieces_of([entry("odd", tensor)], ALONE)


def change_data(model: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    model.weight.data = torch.ones(3, 4)


def change_parameter(model: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    model.bias = nn.Parameter(torch.ones(3))


def make_buffer(model: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    model.register_buffer("mean", torch.zeros(2))


def make_state(model: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    optimizer.state[model.weight]["momentum_buffer"] = torch.zeros(3, 4)


@pytest.mark.parametrize("change", [change_data, change_parameter, make_buffer, make_state])
def test_tensors_are_collected_again_only_when_they_are_others(change: Any) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD([model.weight], lr=0.1, momentum=0.9)
    attached = Attached(allow_pickle=False)
    attached.add(model, optimizer, None, None, None, None, True, None)
    entries, _ = attached.tensors()
    model.weight.grad = torch.ones(3, 4)
    with torch.no_grad():
        model.weight += 1
    assert attached.tensors()[0] is entries
    change(model, optimizer)
    now, _ = attached.tensors()
    assert now is not entries and attached.tensors()[0] is now
    if change is change_data:
        assert pieces_of(now, ALONE)[1].source.data_ptr() == model.weight.data_ptr()
