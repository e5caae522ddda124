# SPDX-License-Identifier: Apache-2.0
"""Model states: their hash, their file format and the outer step, each exact to the bit.

A state is ``dict[str, Tensor]``: contiguous fp32 CPU tensors by parameter name. Files are
safetensors; a stranger's bytes are parsed and checked here in full before torch sees them, and
nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.storage.nesting import parse_json

MAX_HEADER_BYTES = 16 * 1024 * 1024
_DTYPE = "F32"

State = dict[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]


class PayloadError(ValueError):
    """Bytes or tensors from somebody else that are not what they must be."""


def numbers_in(state: Mapping[str, Tensor]) -> int:
    """How many numbers all tensors have together."""
    return sum(tensor.numel() for tensor in state.values())


def model_hash(state: Mapping[str, Tensor]) -> bytes:
    """sha2-256 of the canonical state, 32 bytes, independent of any file format.

    For each name in sorted order: name in UTF-8, NUL, dtype (``float32``), NUL, the shape as
    decimal numbers joined by commas, NUL, the little-endian contiguous bytes.
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach()
        dtype = str(tensor.dtype).removeprefix("torch.")
        shape = ",".join(map(str, tensor.shape))
        digest.update(f"{name}\0{dtype}\0{shape}\0".encode())
        digest.update(_little_endian(tensor))
    return digest.digest()


def _little_endian(tensor: Tensor) -> memoryview:
    array = tensor.cpu().contiguous().numpy()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def check_state(state: Mapping[str, Tensor], shapes: Shapes) -> None:
    """Raise PayloadError unless names, shapes, dtype fp32 and finiteness are as expected."""
    _check_names(state.keys(), shapes)
    for name, shape in shapes.items():
        tensor = state[name]
        if tuple(tensor.shape) != shape or tensor.dtype != torch.float32:
            raise PayloadError(
                f"tensor {name!r} is {tensor.dtype} {list(tensor.shape)}, "
                f"expected float32 {list(shape)}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise PayloadError(f"tensor {name!r} holds NaN or infinity")


def save_state(state: Mapping[str, Tensor]) -> bytes:
    """The state as one safetensors file; equal states give equal bytes.

    Raises:
        PayloadError: a tensor is not fp32 or not finite.
    """
    from safetensors.torch import save

    check_state(state, {name: tuple(tensor.shape) for name, tensor in state.items()})
    return save({name: state[name].detach().cpu().contiguous() for name in sorted(state)})


def file_bound(shapes: Shapes) -> int:
    """Upper bound on the length in bytes of an honest file with these shapes."""
    return 8 + header_bound(shapes) + 4 * sum(math.prod(shape) for shape in shapes.values())


def header_bound(shapes: Shapes) -> int:
    """Upper bound on the length in bytes of an honest file's header."""
    names = sum(len(name.encode()) for name in shapes)
    return 1024 + sum(256 + 24 * len(shape) for shape in shapes.values()) + 6 * names


def load_state(raw: bytes, shapes: Shapes) -> State:
    """Parse a safetensors file that must hold exactly ``shapes`` in fp32.

    Args:
        raw: the file.
        shapes: expected name -> shape (``model.template``).

    Raises:
        PayloadError: too long, truncated, malformed, a gap or overlap between tensors, an
            unexpected name, shape or dtype, or a value that is NaN or infinite.
    """
    limit = file_bound(shapes)
    if len(raw) > limit:
        raise PayloadError(f"the file has {len(raw)} bytes, at most {limit} are expected")
    header, data = _split(raw, min(MAX_HEADER_BYTES, header_bound(shapes)))
    _check_names(header.keys(), shapes)
    spans = {name: _span(name, header[name], shapes[name]) for name in shapes}
    position = 0
    for name, (start, stop) in sorted(spans.items(), key=lambda item: item[1]):
        if start != position:
            raise PayloadError(f"tensor {name!r} starts at byte {start}, expected {position}")
        position = stop
    if position != len(data):
        raise PayloadError(f"the tensors end at byte {position} but the data has {len(data)}")
    state = {}
    for name in sorted(shapes):
        start, stop = spans[name]
        array = np.frombuffer(data[start:stop], dtype="<f4").astype(np.float32)
        if not np.isfinite(array).all():
            raise PayloadError(f"tensor {name!r} holds NaN or infinity")
        state[name] = torch.from_numpy(array).reshape(shapes[name])
    return state


def _split(raw: bytes, most: int) -> tuple[dict[str, Any], memoryview]:
    """Header without metadata, of `most` bytes at most, and the tensor bytes. A header in the place
    of the tensors would take a hundred times as long to read as they do."""
    if len(raw) < 8:
        raise PayloadError(f"the file has {len(raw)} bytes, too few for a safetensors header")
    size = int.from_bytes(raw[:8], "little")
    if size > min(most, len(raw) - 8):
        raise PayloadError(
            f"the header claims {size} bytes, the file has {len(raw) - 8} left, and at most {most} "
            "are expected"
        )
    try:
        header = parse_json(raw[8 : 8 + size], _unique)
    except ValueError as error:
        raise PayloadError(f"the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise PayloadError("the header is not a JSON object")
    if "__metadata__" in header:
        raise PayloadError("the header holds metadata, which no state file of this project has")
    return header, memoryview(raw)[8 + size :]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PayloadError("the header names a key twice")
    return found


def _span(name: str, entry: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise PayloadError(f"tensor {name!r} needs exactly dtype, shape and data_offsets")
    if entry["dtype"] != _DTYPE:
        raise PayloadError(f"tensor {name!r} has dtype {repr(entry['dtype'])[:16]}, expected F32")
    if not _integers(entry["shape"]) or tuple(entry["shape"]) != shape:
        raise PayloadError(
            f"tensor {name!r} has shape {repr(entry['shape'])[:80]}, expected {list(shape)}"
        )
    offsets = entry["data_offsets"]
    size = 4 * math.prod(shape)
    if not _integers(offsets) or len(offsets) != 2 or offsets[1] - offsets[0] != size:
        raise PayloadError(f"tensor {name!r} must span {size} bytes, got {repr(offsets)[:80]}")
    return offsets[0], offsets[1]


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_names(names: Any, shapes: Shapes) -> None:
    missing, extra = sorted(set(shapes) - set(names)), sorted(set(names) - set(shapes))
    if missing or extra:
        raise PayloadError(
            f"tensor names differ: missing {missing[:4]}, unexpected {[n[:80] for n in extra[:4]]}"
        )


def apply_outer(
    state: Mapping[str, Tensor], merged: Mapping[str, Tensor], outer_lr: float
) -> State:
    """theta - outer_lr * merged: one fp32 multiply, then one fp32 subtract, per element.

    Both are single IEEE 754 operations on the CPU, never fused, so every machine gets the same
    bits. ``outer_lr`` is rounded to fp32 first.

    Raises:
        PayloadError: names, shapes or dtypes differ, or the result is not finite.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    check_state(merged, shapes)
    rate = np.float32(outer_lr)
    result = {}
    for name in sorted(state):
        with np.errstate(over="ignore"):
            scaled = merged[name].detach().cpu().numpy() * rate
            result[name] = torch.from_numpy(state[name].detach().cpu().numpy() - scaled)
    check_state(result, shapes)
    return result
