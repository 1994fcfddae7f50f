"""Where an epoch's samples are, counted over all ranks, so that any number of ranks can go on."""

from __future__ import annotations

from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
from torch.utils.data.distributed import DistributedSampler

from shanty.checkpoint.errors import CheckpointError

_TAILS = ("pad", "drop", "keep")


class ResumableSampler(Sampler):  # type: ignore[type-arg]
    """The samples that are left of an epoch, dealt out to the ranks one by one.

    `data` is a data set or its size. The order follows from (seed, epoch) alone. `consumed` of it, over all ranks, are behind;
    `advance` moves on. `tail` says what to do with the last few when the ranks do not divide them:
    "pad" repeats some, as DistributedSampler does, "drop" leaves them out, both so that all ranks
    take as many steps; "keep" gives each sample once, and some ranks one more than others.
    """

    def __init__(
        self,
        data: Any,
        shuffle: bool = True,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        tail: str = "pad",
    ) -> None:
        if tail not in _TAILS:
            raise ValueError(f"tail is {tail!r}, not one of {', '.join(_TAILS)}")
        together = dist.is_available() and dist.is_initialized()
        self.size = data if isinstance(data, int) else len(data)
        self.rank = rank if rank is not None else dist.get_rank() if together else 0
        self.world_size = world_size or (dist.get_world_size() if together else 1)
        self.shuffle, self.seed, self.tail = shuffle, seed, tail
        self.epoch = self.consumed = self._before = 0

    @property
    def samples(self) -> int:
        """Samples that all ranks together have consumed since the first epoch."""
        return self._before + self.consumed

    def set_epoch(self, epoch: int) -> None:
        """Begins that epoch; the one that is in progress goes on."""
        if epoch != self.epoch:
            self._before, self.epoch, self.consumed = self.samples, epoch, 0

    def advance(self, samples: int) -> None:
        """This rank, and each other one, has trained on `samples` more."""
        self.consumed = min(self.consumed + samples * self.world_size, self.size)

    def __len__(self) -> int:
        left = self.size - self.consumed
        if self.tail == "pad":
            return -(-left // self.world_size)
        if self.tail == "drop":
            return left // self.world_size
        return len(range(self.rank, left, self.world_size))

    def __iter__(self) -> Iterator[int]:
        # Fixed here: the position moves on while a loader still draws from this.
        order, first = self._order(), self.consumed + self.rank
        for i in range(len(self)):
            yield order[(first + i * self.world_size) % self.size]

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.size))
        generator = torch.Generator().manual_seed(_mixed(self.seed, self.epoch))
        return torch.randperm(self.size, generator=generator).tolist()

    def state_dict(self) -> dict[str, int]:
        return {
            "epoch": self.epoch,
            "consumed": self.consumed,
            "samples": self.samples,
            "seed": self.seed,
            "size": self.size,
            "shuffle": int(self.shuffle),
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        if state["size"] != self.size:
            raise CheckpointError(
                f"cannot go on in the middle of an epoch of {state['size']} samples with a data "
                f"set of {self.size}"
            )
        self.epoch, self.consumed, self.seed = state["epoch"], state["consumed"], state["seed"]
        self.shuffle = bool(state["shuffle"])
        self._before = state["samples"] - state["consumed"]


class ResumableLoader:
    """A DataLoader of the same data and options whose position is part of a checkpoint.

    A batch counts as consumed when the loop gets it, whatever workers have fetched ahead. The loop
    `for epoch in range(loader.epoch, epochs): for batch in loader:` goes on in the middle of an
    epoch; when an epoch's last batch is done the next one begins. A loop that is left early goes on
    where it was, until set_epoch. Its own generator seeds the workers, so that the iteration draws
    nothing from torch's. What else a DataLoader has (dataset, num_workers) it has too.
    """

    def __init__(self, loader: DataLoader[Any], seed: int = 0, tail: str = "pad") -> None:
        plain = type(loader.batch_sampler) is BatchSampler
        iterable = isinstance(loader.dataset, IterableDataset)
        if not plain or loader.batch_size is None or iterable:
            raise CheckpointError(
                "cannot resume this loader: it has a batch sampler of its own, or an iterable data "
                "set; derive the batches from the step, or attach an object with state_dict"
            )
        self.sampler = _sampler_like(loader, seed, tail)
        self._generator = torch.Generator()
        options: dict[str, Any] = {
            "batch_size": loader.batch_size,
            "num_workers": loader.num_workers,
            "collate_fn": loader.collate_fn,
            "pin_memory": loader.pin_memory,
            "drop_last": loader.drop_last,
            "timeout": loader.timeout,
            "worker_init_fn": loader.worker_init_fn,
            "multiprocessing_context": loader.multiprocessing_context,
        }
        if loader.num_workers:
            options["prefetch_factor"] = loader.prefetch_factor
            options["persistent_workers"] = loader.persistent_workers
        self.loader: DataLoader[Any] = DataLoader(
            loader.dataset, sampler=self.sampler, generator=self._generator, **options
        )
        self.batch_size: int = loader.batch_size
        self._length: int | None = None  # while it is iterated

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not made yet
            raise AttributeError(name)
        return getattr(self.loader, name)

    @property
    def epoch(self) -> int:
        return self.sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches that a loop over it gets or, within one, that this one gets: an epoch's, or what
        is left of it."""
        return len(self.loader) if self._length is None else self._length

    def __iter__(self) -> Iterator[Any]:
        sampler = self.sampler
        epoch, left = sampler.epoch, len(sampler)
        self._generator.manual_seed(_mixed(sampler.seed, epoch, sampler.consumed, sampler.rank))
        self._length = len(self.loader)
        try:
            for batch in self.loader:
                samples = min(self.batch_size, left)
                left -= samples
                sampler.advance(samples)
                yield batch
        finally:
            self._length = None
        if sampler.epoch == epoch:
            sampler.set_epoch(epoch + 1)

    def state_dict(self) -> dict[str, int]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.sampler.load_state_dict(state)


def _sampler_like(loader: DataLoader[Any], seed: int, tail: str) -> ResumableSampler:
    sampler: Any = loader.sampler
    if type(sampler) is ResumableSampler:
        return sampler
    if type(sampler) is DistributedSampler:
        return ResumableSampler(
            sampler.dataset,
            sampler.shuffle,
            sampler.seed,
            sampler.rank,
            sampler.num_replicas,
            "drop" if sampler.drop_last else tail,
        )
    if type(sampler) is SequentialSampler:
        return ResumableSampler(sampler.data_source, False, seed, tail=tail)
    if type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None:
        return ResumableSampler(sampler.data_source, True, seed, tail=tail)
    raise CheckpointError(
        f"cannot resume a loader with a {type(sampler).__name__}: use ResumableSampler in its place"
    )


def _mixed(*numbers: int) -> int:
    """One seed of several numbers; integers hash alike in every process."""
    return hash(numbers) & ((1 << 63) - 1)
