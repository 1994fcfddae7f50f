"""Trains a small character-level transformer on the licence texts of this machine, on CPUs.

    python train.py                                   one process
    torchrun --nproc-per-node=2 train.py              two, by torchrun
    shanty run --nproc-per-node=2 train.py            two, by shanty

With --checkpoint DIR it saves there, and goes on from there when started again. Whatever is random
in a step derives from (seed, step, rank), so a resumed run takes the very steps that an
uninterrupted one would have taken.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler

try:
    from shanty import Checkpointer, step as report_step
except ImportError:

    def report_step(**_: object) -> None:
        """Nobody to report to."""


LICENCES = Path("/usr/share/common-licenses")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=LICENCES, help="a file, or a folder of them")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=12, help="sequences per rank and step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=10, help="steps until the full rate")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=64, help="characters seen at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, metavar="DIR")
    parser.add_argument("--checkpoint-every", type=int, default=25, metavar="STEPS")
    parser.add_argument("--engine", action="store_true", help="let shanty.Checkpointer save there")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS")
    arguments = parser.parse_args()
    if arguments.width % arguments.heads:
        parser.error("--width must be a multiple of --heads")
    return arguments


# Data.


def read_text(path: Path) -> str:
    """All regular files, each content once: a folder of licences is half symbolic links."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    contents = dict.fromkeys(f.read_text(encoding="utf-8", errors="replace") for f in files)
    return "\n".join(contents)


class Windows(Dataset):
    """Every stretch of `context` characters, with the characters that follow each."""

    def __init__(self, text: str, context: int) -> None:
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        self.codes = torch.tensor([number[character] for character in text])
        self.context = context
        if len(self) < 1:
            sys.exit(f"the text has {len(text)} characters, too few for a context of {context}")

    def __len__(self) -> int:
        return len(self.codes) - self.context

    def __getitem__(self, start: int) -> tuple[Tensor, Tensor]:
        window = self.codes[start : start + self.context + 1]
        return window[:-1], window[1:]


class StepBatches(Sampler):
    """The windows of each step of this rank, from `first` to `last`."""

    def __init__(self, windows: int, batch: int, seed: int, rank: int, first: int, last: int):
        self.windows, self.batch, self.seed, self.rank = windows, batch, seed, rank
        self.steps = range(first, last)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[list[int]]:
        for step in self.steps:
            # Integers hash alike in every process, unlike strings.
            source = torch.Generator().manual_seed(hash((self.seed, step, self.rank)))
            yield torch.randint(self.windows, (self.batch,), generator=source).tolist()


# Model.


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mix = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mix = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.query_key_value(self.norm_attention(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mix(self.norm_mix(x))


class CharGPT(nn.Module):
    def __init__(self, alphabet: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.character = nn.Embedding(alphabet, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, alphabet)
        nn.init.normal_(self.character.weight, std=0.02)

    def forward(self, characters: Tensor) -> Tensor:
        x = self.character(characters) + self.position[: characters.shape[1]]
        return self.out(self.norm(self.blocks(x)))


# Checkpoints.


def save_checkpoint(directory: Path, state: dict) -> None:
    """Whole or not at all: a crash leaves the one before."""
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / "last.pt.part"
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(directory / "last.pt")
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_checkpoint(directory: Path | None, rank: int) -> dict | None:
    """Rank 0 reads it and hands it to the others, who may not see the same disk."""
    state = [None]
    if rank == 0 and directory is not None and (directory / "last.pt").exists():
        state[0] = torch.load(directory / "last.pt", map_location="cpu", weights_only=True)
    if dist.is_initialized():
        dist.broadcast_object_list(state)
    return state[0]


# Training.


def say(line: str) -> None:
    # One write, so that the lines of several ranks cannot mix.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def train(arguments: argparse.Namespace, rank: int, world_size: int) -> None:
    torch.manual_seed(arguments.seed)
    data = Windows(read_text(arguments.text), arguments.context)
    model: nn.Module = CharGPT(
        len(data.alphabet), arguments.width, arguments.layers, arguments.heads, arguments.context
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)

    first = 0
    engine = Checkpointer(arguments.checkpoint) if arguments.engine else None
    if engine is not None:
        state = engine.attach(model=model, optimizer=optimizer).load()
        first = state.step if state is not None else 0
    else:
        state = load_checkpoint(arguments.checkpoint, rank)
    if state is not None and engine is None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if rank == 0:
        parameters = sum(p.numel() for p in model.parameters())
        start = f"from step {first}" if state is not None else "from scratch"
        say(f"{len(data.codes)} characters, {parameters} parameters, {world_size} ranks, {start}")

    trained = DistributedDataParallel(model) if dist.is_initialized() else model
    trained.train()
    batches = StepBatches(len(data), arguments.batch, arguments.seed, rank, first, arguments.steps)
    began, losses = time.monotonic(), []
    for step, (characters, targets) in enumerate(DataLoader(data, batch_sampler=batches), first):
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * min(1.0, (step + 1) / arguments.warmup)
        logits = trained(characters)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        report_step(loss=losses[-1], samples=len(characters), step=step, total=arguments.steps)

        done = step + 1
        if rank == 0 and (done % arguments.log_every == 0 or done == arguments.steps):
            seconds = time.monotonic() - began
            rate = len(losses) * arguments.batch * world_size / seconds
            mean = sum(losses) / len(losses)
            say(f"step {done}/{arguments.steps}  loss {mean:.3f}  {rate:.0f} samples/s")
            began, losses = time.monotonic(), []
        if arguments.checkpoint is not None:
            due = done % arguments.checkpoint_every == 0 or done == arguments.steps
            if due and engine is not None:
                engine.save(done)
            elif due and rank == 0:
                save_checkpoint(
                    arguments.checkpoint,
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "step": done,
                    },
                )


def main() -> None:
    arguments = parse_arguments()
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if "OMP_NUM_THREADS" not in os.environ:
        local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // local_ranks))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    try:
        train(arguments, int(os.environ.get("RANK", "0")), world_size)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
