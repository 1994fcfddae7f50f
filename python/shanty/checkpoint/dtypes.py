"""Element types in safetensors' words. What it does not know has a word of its own."""

from __future__ import annotations

import torch

from shanty.checkpoint.errors import CheckpointError

_WORDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "complex128": "C128",
    "complex32": "C32",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4_E2M1_X2",
}
# Not every torch has all of them.
_TYPES = {getattr(torch, name): word for name, word in _WORDS.items() if hasattr(torch, name)}
_BACK = {word: dtype for dtype, word in _TYPES.items()}


def word_of(dtype: torch.dtype, name: str) -> str:
    word = _TYPES.get(dtype)
    if word is None:
        raise CheckpointError(f"cannot save {name}: elements of {dtype} are not supported")
    return word


def dtype_of(word: str, name: str) -> torch.dtype:
    dtype = _BACK.get(word)
    if dtype is None:
        raise CheckpointError(f"cannot load {name}: this torch has no elements of type {word}")
    return dtype
