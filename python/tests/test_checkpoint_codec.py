"""State that is no tensor comes back exactly, and reading it runs nothing."""

from __future__ import annotations

import collections
import json
import math
import random

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from shanty.checkpoint import rng  # noqa: E402
from shanty.checkpoint.codec import decode, encode  # noqa: E402
from shanty.checkpoint.errors import CheckpointError  # noqa: E402
from shanty.checkpoint.orders import Orders  # noqa: E402
from shanty.checkpoint.schedule import Failures, Milestones, Schedule  # noqa: E402


def whole(text: str) -> float:
    """As the engine reads it: what does not fit 64 bits is rounded."""
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 64 else float(value)


def again(value: object, **options: bool) -> object:
    # The engine sorts the fields of objects.
    text = json.dumps(encode(value, "it", **options), allow_nan=False, sort_keys=True)
    text.encode("ascii").decode("unicode_escape").encode()  # no half of a surrogate pair
    return decode(json.loads(text, parse_int=whole), **options)


@pytest.mark.parametrize(
    "value", [{"b": 1, "a": {"é": 1, "z": 2, "Z": 3}}, {"x": [{"2": 1, "10": 2}]}, {2: 0, 1: 0}]
)
def test_dicts_keep_their_order(value: object) -> None:
    assert repr(again(value)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(1 << 70),
        [(1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1],
        "a half \ud800 of a pair",
        {"\udfff": "key"},
        0.1,
        math.inf,
        "é",
        b"\0\xff",
        (1, (2.5, [3])),
        {1: "a", (2, 3): None},
        {"__shanty__": "tuple", "items": []},
        collections.Counter({30: 1, 80: 2}),
        {3, 1},
        random.getstate(),
    ],
)
def test_plain_values_come_back_with_their_types(value: object) -> None:
    got = again(value)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64]
)
def test_tensors_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    for shape in ((2, 3), (), (0, 2)):
        value = torch.rand(shape).to(dtype)
        got = again([value])[0]  # type: ignore[index]
        assert got.dtype == dtype and got.shape == value.shape
        assert torch.equal(got.to(torch.complex64), value.to(torch.complex64))


def test_numpy_values_come_back() -> None:
    got = again({"a": np.arange(6, dtype=np.uint16).reshape(2, 3), "b": np.float64(0.1)})
    assert got["a"].dtype == np.uint16 and got["a"].shape == (2, 3)  # type: ignore[index]
    assert got["b"] == np.float64(0.1)  # type: ignore[index]
    assert math.isnan(again(math.nan))  # type: ignore[arg-type]


class Odd:
    def __init__(self) -> None:
        self.value = 3


def test_objects_need_leave_to_be_pickled_and_again_to_be_read() -> None:
    with pytest.raises(CheckpointError, match=r"cannot save it\.a: a .*Odd has no JSON"):
        encode({"a": Odd()}, "it")
    pickled = encode({"a": Odd()}, "it", allow_pickle=True)
    with pytest.raises(CheckpointError, match="can run any code"):
        decode(pickled)
    assert decode(pickled, allow_pickle=True)["a"].value == 3


def test_generators_go_on_where_they_were() -> None:
    own = [torch.Generator().manual_seed(4), np.random.default_rng(5)]

    def draw() -> list[object]:
        return [
            random.random(),
            float(np.random.rand()),
            torch.rand(3).tolist(),
            torch.rand(2, generator=own[0]).tolist(),
            own[1].random(),
        ]

    state = json.loads(json.dumps(encode(rng.capture(own), "rng")), parse_int=whole)
    first = draw()
    rng.restore(decode(state), own)
    assert draw() == first


def test_derived_generators_differ_by_rank_and_step() -> None:
    seen = set()
    for rank, step in ((0, 1), (1, 1), (0, 2)):
        rng.derive(9, rank, step, [])
        seen.add((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert len({s[0] for s in seen}) == len({s[1] for s in seen}) == len({s[2] for s in seen}) == 3


def test_schedules() -> None:
    assert [s for s in range(9) if Schedule(4).due(s, 0)] == [4, 8]
    assert not Schedule("10min").due(1, 599) and Schedule("10min").due(1, 600)
    auto = Schedule("auto", mtbf_s=10_000)
    auto.learn(cost_s=0.5, durable_s=20)
    assert auto.seconds == pytest.approx(100, abs=1)
    auto.learn(cost_s=0.5, durable_s=200)
    assert auto.seconds == 200
    for wrong in ("often", 0):
        with pytest.raises(CheckpointError, match="every="):
            Schedule(wrong)


def test_the_time_between_failures_is_measured() -> None:
    first = Failures(expected_s=1000)
    assert first.mean_s() == pytest.approx(1000, abs=10)
    history = {**first.saved(generation=0), "trained_s": 5000.0}
    second = Failures(expected_s=1000)
    second.loaded(history, generation=2)
    assert second.mean_s() == pytest.approx(6000 / 3, abs=10)
    # Another job goes on from it: its first start is no failure, its restart is.
    for generation, failures in ((0, 2), (1, 3)):
        third = Failures(expected_s=1000)
        third.loaded(second.saved(generation=2), generation)
        assert third.saved(generation)["failures"] == failures
    assert Failures(7).saved(3).keys() == history.keys()
    before_it_was_kept = Failures(expected_s=1000)
    before_it_was_kept.loaded({}, generation=0)
    assert before_it_was_kept.mean_s() == pytest.approx(1000, abs=10)


class FakeWorld:
    size, rank, generation = 2, 0, 0


def test_the_first_save_in_each_so_many_steps_is_a_milestone() -> None:
    milestones = Milestones(100)
    assert [s for s in (10, 99, 104, 150, 200, 201, 420) if milestones.passed(s)] == [104, 200, 420]
    milestones.loaded_at(200)
    assert not milestones.passed(250) and milestones.passed(300)
    assert not Milestones(0).passed(100)


def test_ranks_that_are_a_call_apart_save_at_the_same_call() -> None:
    store = torch.distributed.HashStore()
    for orderer, order in ((0, [0, 1]), (0, [1, 0]), (1, [0, 1])):
        ranks = [Orders(FakeWorld(), f"{orderer}{order}") for _ in range(2)]
        saved: list[list[int]] = [[], []]
        for call in range(1, 13):
            for rank in order:
                ranks[rank]._store = store
                if ranks[rank].poll(rank == orderer and call in (3, 7)):
                    saved[rank].append(call)
        assert saved == [[4, 8], [4, 8]]
