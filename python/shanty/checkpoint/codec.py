"""State that is no tensor of the model, as JSON: exact, and without running anything when read."""

from __future__ import annotations

import base64
import collections
import ctypes
import enum
import math
import pickle
import sys
from typing import Any

import torch

from shanty.checkpoint.dtypes import dtype_of, word_of
from shanty.checkpoint.errors import CheckpointError

_TAG = "__shanty__"
_PLAIN = {bool, type(None)}
# What every reader of JSON keeps: more becomes a rounded number.
_MIN_INT, _MAX_INT = -(1 << 63), (1 << 64) - 1


def encode(value: Any, where: str, allow_pickle: bool = False) -> Any:
    """JSON for numbers, strings, bytes, tuples, dicts with any keys, tensors and NumPy arrays.
    `where` names the value in the error for anything else; with `allow_pickle` that is pickled."""
    kind = type(value)
    if _is_plain(value):
        return value
    if kind is int:
        return {_TAG: "int", "value": str(value)}
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
        return {_TAG: "str", "data": base64.b64encode(data).decode()}
    if kind is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if kind is list:
        if all(map(_is_plain, value)):
            return list(value)
        return [encode(v, f"{where}[{i}]", allow_pickle) for i, v in enumerate(value)]
    if kind is dict and _is_object(value):
        return {k: encode(v, f"{where}.{k}", allow_pickle) for k, v in value.items()}
    if kind is tuple:
        return {_TAG: "tuple", "items": encode(list(value), where, allow_pickle)}
    if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
        pairs = [[encode(k, f"a key of {where}", allow_pickle), v] for k, v in value.items()]
        items = [[k, encode(v, f"{where}[{k}]", allow_pickle)] for k, v in pairs]
        return {_TAG: "counter" if kind is collections.Counter else "dict", "items": items}
    if kind is set:
        return {_TAG: "set", "items": encode(sorted(value, key=repr), where, allow_pickle)}
    if kind is bytes:
        return {_TAG: "bytes", "data": base64.b64encode(value).decode()}
    if isinstance(value, torch.Tensor) and not hasattr(value, "_local_tensor"):
        return _encode_tensor(value, where)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
        return {_TAG: "scalar", "value": _encode_array(numpy.asarray(value))}
    if numpy is not None and kind is numpy.ndarray and not value.dtype.hasobject:
        return _encode_array(value)
    if isinstance(value, enum.Enum):
        return encode(value.value, where, allow_pickle)
    if allow_pickle:
        return {_TAG: "pickle", "data": base64.b64encode(pickle.dumps(value)).decode()}
    raise CheckpointError(
        f"cannot save {where}: a {kind.__module__}.{kind.__qualname__} has no JSON; leave it out, "
        "give it as plain values, or pass allow_pickle=True"
    )


def _is_object(value: dict[Any, Any]) -> bool:
    """JSON says nothing of the order of an object's fields: who passes it on may sort them."""
    if _TAG in value or not all(type(key) is str and _is_plain(key) for key in value):
        return False
    return list(value) == sorted(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return _MIN_INT <= value <= _MAX_INT  # type: ignore[no-any-return]
    if kind is str:
        return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
    return kind in _PLAIN


def decode(value: Any, allow_pickle: bool = False) -> Any:
    """What `encode` was given. Pickles are refused unless allowed: they can run any code."""
    if isinstance(value, list):
        return [decode(v, allow_pickle) for v in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(_TAG)
    if tag is None:
        return {k: decode(v, allow_pickle) for k, v in value.items()}
    if tag == "float":
        return float(value["value"])
    if tag == "int":
        return int(value["value"])
    if tag == "str":
        return base64.b64decode(value["data"]).decode("utf-8", "surrogatepass")
    if tag == "bytes":
        return base64.b64decode(value["data"])
    if tag == "tensor":
        return _decode_tensor(value)
    if tag == "array":
        return _decode_array(value)
    if tag == "scalar":
        return _decode_array(value["value"])[()]
    if tag == "pickle":
        if not allow_pickle:
            raise CheckpointError(
                "cannot load this checkpoint: it holds a pickle, which can run any code; pass "
                "allow_pickle=True where you trust who wrote it"
            )
        return pickle.loads(base64.b64decode(value["data"]))
    items = decode(value["items"], allow_pickle)
    if tag == "tuple":
        return tuple(items)
    if tag == "set":
        return set(items)
    if tag in ("dict", "counter"):
        pairs = {k: v for k, v in items}
        return collections.Counter(pairs) if tag == "counter" else pairs
    raise CheckpointError(
        f"cannot load this checkpoint: it holds an unknown kind of value, {tag!r}"
    )


def bytes_of(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    # NumPy does not know all types, and may not be there.
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())


def _encode_tensor(value: torch.Tensor, where: str) -> dict[str, Any]:
    if value.layout is not torch.strided or value.is_quantized:
        raise CheckpointError(f"cannot save {where}: a sparse or quantized tensor is not supported")
    encoded = {
        _TAG: "tensor",
        "dtype": word_of(value.dtype, where),
        "shape": list(value.shape),
        "data": base64.b64encode(bytes_of(value)).decode(),
    }
    return encoded if value.device.type == "cpu" else {**encoded, "device": value.device.type}


def _decode_tensor(value: dict[str, Any]) -> torch.Tensor:
    dtype = dtype_of(value["dtype"], "a tensor of the state")
    data = bytearray(base64.b64decode(value["data"]))
    if not data:
        return torch.empty(value["shape"], dtype=dtype)
    whole = torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(value["shape"]).clone()
    device = value.get("device", "")
    module = getattr(torch, device, None) if device else None
    return whole.to(device) if module is not None and module.is_available() else whole


def _encode_array(value: Any) -> dict[str, Any]:
    data = base64.b64encode(value.tobytes()).decode()
    return {_TAG: "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def _decode_array(value: dict[str, Any]) -> Any:
    import numpy

    flat = numpy.frombuffer(base64.b64decode(value["data"]), dtype=numpy.dtype(value["dtype"]))
    return flat.reshape(value["shape"]).copy()
