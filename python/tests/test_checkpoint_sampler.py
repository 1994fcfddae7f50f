"""Positions in the data: any number of ranks goes on where any other stopped."""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from typing import Iterator

import pytest

torch = pytest.importorskip("torch")

from shanty.checkpoint import CheckpointError, ResumableLoader, ResumableSampler  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

WORLDS = (1, 2, 3, 4, 6, 8)


def make(size: int, world: int, tail: str, shuffle: bool = True) -> list[ResumableSampler]:
    return [ResumableSampler(size, shuffle, 7, rank, world, tail) for rank in range(world)]


def take(samplers: list[ResumableSampler], count: int) -> list[int]:
    """`count` samples of each rank."""
    seen = [list(itertools.islice(iter(s), count)) for s in samplers]
    for sampler, of in zip(samplers, seen):
        sampler.advance(count)
    return [i for of in seen for i in of]


@pytest.mark.parametrize("tail", ["keep", "pad", "drop"])
def test_no_sample_is_lost_or_seen_twice_over_changes_of_the_world(tail: str) -> None:
    source = random.Random(1)
    for size, first, second, third in itertools.product((97, 240), WORLDS, WORLDS, (1, 3, 8)):
        seen: list[int] = []
        state = None
        for world, last in ((first, False), (second, False), (third, True)):
            samplers = make(size, world, tail)
            for sampler in samplers:
                if state is not None:
                    sampler.load_state_dict(state)
            left = size - samplers[0].consumed
            count = -(-left // world) if last else source.randint(0, left // world // 2)
            seen += take(samplers, count)
            state = samplers[0].state_dict()
        counts = Counter(seen)
        twice, lost = sum(counts.values()) - len(counts), size - len(counts)
        assert max(counts.values()) <= 2
        assert twice <= (third - 1 if tail == "pad" else 0)
        assert lost <= (third - 1 if tail == "drop" else 0)
        if tail == "keep":
            assert sorted(seen) == list(range(size))


@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_all_ranks_take_as_many_steps(tail: str) -> None:
    for world, consumed in itertools.product(WORLDS, (0, 5, 96, 97)):
        samplers = make(97, world, tail)
        for sampler in samplers:
            sampler.consumed = consumed
        assert len({len(s) for s in samplers}) == 1
        assert all(len(list(s)) == len(s) for s in samplers)


def test_epochs_have_orders_of_their_own_and_the_seed_gives_them_again() -> None:
    one, other = make(50, 1, "keep")[0], make(50, 1, "keep")[0]
    first = list(one)
    one.set_epoch(1)
    assert list(other) == first and list(one) != first
    assert sorted(one) == sorted(first)
    one.set_epoch(0)
    assert list(one) == first


def test_setting_the_epoch_in_progress_changes_nothing() -> None:
    sampler = make(50, 1, "keep")[0]
    sampler.advance(20)
    sampler.set_epoch(0)
    assert sampler.consumed == 20
    sampler.set_epoch(1)
    assert (sampler.consumed, sampler.samples) == (0, 20)


def test_another_data_set_is_refused() -> None:
    state = make(50, 1, "keep")[0].state_dict()
    with pytest.raises(CheckpointError, match="50 samples .* of 51"):
        make(51, 1, "keep")[0].load_state_dict(state)


def batches(loader: ResumableLoader, count: int | None = None) -> list[list[int]]:
    return [batch[0].tolist() for batch in itertools.islice(iter(loader), count)]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_goes_on_in_the_middle_whatever_workers_have_fetched(workers: int) -> None:
    def new() -> ResumableLoader:
        data = TensorDataset(torch.arange(22))
        plain = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
        return ResumableLoader(plain, seed=3)

    straight = new()
    whole = batches(straight)
    assert sorted(sum(whole, [])) == list(range(22)) and straight.epoch == 1

    stopped = new()
    iterator = iter(stopped)
    head = [next(iterator)[0].tolist() for _ in range(2)]
    state = stopped.state_dict()
    assert state["samples"] == 8
    resumed = new()
    resumed.load_state_dict(state)
    assert len(resumed) == 4
    assert head + batches(resumed) == whole
    assert batches(resumed) == batches(straight)


def test_a_checkpoint_of_the_last_batch_begins_the_next_epoch() -> None:
    loader = ResumableLoader(DataLoader(TensorDataset(torch.arange(6)), batch_size=3), seed=1)
    state = None
    for _ in loader:
        state = loader.state_dict()
    loader.load_state_dict(state)
    assert batches(loader) == [] and loader.epoch == 1
    assert batches(loader) == [[0, 1, 2], [3, 4, 5]]


def test_a_distributed_sampler_is_taken_over() -> None:
    data = TensorDataset(torch.arange(10))
    seen = []
    for rank in range(2):
        sampler = DistributedSampler(data, 2, rank, shuffle=True, seed=5)
        loader = ResumableLoader(DataLoader(data, batch_size=2, sampler=sampler))
        assert (loader.sampler.seed, loader.sampler.world_size) == (5, 2)
        seen += sum(batches(loader), [])
    assert sorted(seen) == list(range(10))


def test_iterating_draws_nothing_from_the_global_generator() -> None:
    loader = ResumableLoader(DataLoader(TensorDataset(torch.arange(6)), shuffle=True), seed=1)
    before = torch.get_rng_state()
    batches(loader)
    assert torch.equal(before, torch.get_rng_state())


def test_a_batch_sampler_is_refused_with_advice() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)), batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(CheckpointError, match="derive the batches from the step"):
        ResumableLoader(loader)


class Endless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def test_an_iterable_data_set_is_refused_with_advice() -> None:
    with pytest.raises(CheckpointError, match="an iterable data set; derive"):
        ResumableLoader(DataLoader(Endless()))


def test_a_loop_sees_one_length_from_its_first_batch_to_its_last() -> None:
    loader = ResumableLoader(DataLoader(TensorDataset(torch.arange(10)), batch_size=2), seed=1)
    lengths = []
    for i, _ in enumerate(loader):
        lengths.append(len(loader))
        if i == 1:
            break
    assert lengths == [5, 5] and len(loader) == 3
    assert [len(loader) for _ in loader] == [3, 3, 3]
    assert [len(loader) for _ in loader] == [5] * 5


def test_a_loader_has_what_a_data_loader_has() -> None:
    data = TensorDataset(torch.arange(4))
    loader = ResumableLoader(DataLoader(data, batch_size=2, drop_last=True))
    assert (loader.dataset, loader.drop_last, loader.num_workers) == (data, True, 0)
    with pytest.raises(AttributeError, match="no_such"):
        loader.no_such
    assert copy.copy(loader).dataset is data
