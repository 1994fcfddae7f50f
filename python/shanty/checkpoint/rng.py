"""The random number generators of one rank."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import torch

from shanty.checkpoint.codec import bytes_of
from shanty.checkpoint.errors import CheckpointError


def capture(generators: list[Any]) -> dict[str, Any]:
    """States of Python's, NumPy's, torch's and the current CUDA device's generator, and of those
    given, which are supported."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "torch": bytes_of(torch.get_rng_state()),
        "own": [_capture_one(generator) for generator in generators],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = bytes_of(torch.cuda.get_rng_state())
    return state


def check_supported(generator: Any) -> None:
    kinds = (torch.Generator, random.Random)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kinds += (numpy.Generator, numpy.RandomState)
    if not isinstance(generator, kinds):
        raise CheckpointError(
            f"cannot attach a {type(generator).__name__} as rng: give True, False, or generators "
            "of torch, NumPy or Python"
        )


def restore(state: dict[str, Any], generators: list[Any]) -> list[str]:
    """Returns findings."""
    random.setstate(state["python"])
    torch.set_rng_state(_tensor(state["torch"]))
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(_tensor(state["cuda"]))
    for generator, own in zip(generators, state["own"]):
        if isinstance(generator, torch.Generator):
            generator.set_state(_tensor(own))
        elif isinstance(generator, random.Random):
            generator.setstate(own)
        elif hasattr(generator, "set_state"):
            generator.set_state(own)
        else:
            generator.bit_generator.state = own
    saved = len(state["own"])
    if saved == len(generators):
        return []
    return [f"the checkpoint has {saved} further generators, {len(generators)} are attached"]


def derive(seed: int, rank: int, step: int, generators: list[Any]) -> None:
    """New states that no other rank and no other step derives."""

    def number(what: str) -> int:
        text = f"{seed}/{rank}/{step}/{what}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1

    random.seed(number("python"))
    torch.manual_seed(number("torch"))
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number("numpy") & 0xFFFFFFFF)
    for i, generator in enumerate(generators):
        if isinstance(generator, torch.Generator):
            generator.manual_seed(number(f"own {i}"))
        elif isinstance(generator, random.Random):
            generator.seed(number(f"own {i}"))
        elif hasattr(generator, "set_state"):
            generator.seed(number(f"own {i}") & 0xFFFFFFFF)
        else:
            fresh = type(generator.bit_generator)(number(f"own {i}"))
            generator.bit_generator.state = fresh.state


def _capture_one(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return bytes_of(generator.get_state())
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "get_state"):
        return generator.get_state()
    return generator.bit_generator.state


def _tensor(state: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8).clone()
