"""The random number generators of one rank."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import torch


def capture(generators: list[Any]) -> dict[str, Any]:
    """States of Python's, NumPy's, torch's and the current CUDA device's generator, and of those
    given: torch.Generator or numpy.random.Generator."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "torch": _bytes(torch.get_rng_state()),
        "own": [_capture_one(generator) for generator in generators],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = _bytes(torch.cuda.get_rng_state())
    return state


def restore(state: dict[str, Any], generators: list[Any]) -> None:
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
        else:
            generator.bit_generator.state = own


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
        else:
            fresh = type(generator.bit_generator)(number(f"own {i}"))
            generator.bit_generator.state = fresh.state


def _capture_one(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return _bytes(generator.get_state())
    return generator.bit_generator.state


def _bytes(state: torch.Tensor) -> bytes:
    return bytes(state.tolist())


def _tensor(state: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8).clone()
