# SPDX-License-Identifier: Apache-2.0
"""The container of payloads: a set of tensors has exactly one encoding.

The container is safetensors: an 8-byte little-endian header length, a JSON header padded with
spaces to a multiple of 8, then the tensors' little-endian bytes. Here the header is canonical:
names ascend by Unicode code point, offsets are contiguous from 0, JSON has no optional white space,
and there is no metadata. Any safetensors reader can open it. Since one gradient has one encoding,
equal gradients have equal digests and a copy can't hide behind a re-spaced header.

A reader knows which layout it expects, hence the exact size and the exact header. It allocates
nothing because a stranger's header claims so. Bytes that differ are parsed, within bounds, only to
say what is wrong with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import prod
from typing import Any

from torch import Tensor

# Wire dtypes and their widths in bytes.
WIDTH = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "U16": 2, "U8": 1, "I8": 1}
# A larger header is not even parsed to explain an error.
MAX_EXPLAINED_HEADER = 1 << 20
# A header nests an object, one object a tensor, and lists in it.
_MAX_DEPTH = 8
_MAX_SHOWN = 80
_STRUCTURE = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)

# Tensor name -> (wire dtype, shape).
Layout = Mapping[str, tuple[str, tuple[int, ...]]]
# Tensor name -> values.
Payload = Mapping[str, Tensor]


class ContainerError(ValueError):
    """Bytes that are not the expected container; the message says where they differ."""


def _nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    if dtype not in WIDTH:
        raise ValueError(f"Wire dtype {dtype!r} is unknown; use one of {', '.join(WIDTH)}.")
    return prod(shape) * WIDTH[dtype]


def header(layout: Layout) -> bytes:
    """The canonical header of `layout`, length prefix included. ValueError for an unknown dtype."""
    fields = {}
    offset = 0
    for name in sorted(layout):
        dtype, shape = layout[name]
        end = offset + _nbytes(dtype, shape)
        fields[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def size(layout: Layout) -> int:
    """Exact size in bytes of a container with this layout."""
    return len(header(layout)) + sum(_nbytes(dtype, shape) for dtype, shape in layout.values())


def pack(layout: Layout, parts: Mapping[str, bytes | memoryview]) -> bytes:
    """The container of `parts`: raw little-endian bytes per tensor name of `layout`.

    ValueError if names or lengths don't match the layout.
    """
    if parts.keys() != layout.keys():
        raise ValueError("The tensors to pack don't have the names of the layout.")
    pieces: list[bytes | memoryview] = [header(layout)]
    for name in sorted(layout):
        part = memoryview(parts[name]).cast("B")
        if part.nbytes != _nbytes(*layout[name]):
            raise ValueError(f"Tensor {name!r} has {part.nbytes} bytes, not those of its layout.")
        pieces.append(part)
    return b"".join(pieces)


def unpack(data: bytes, layout: Layout) -> dict[str, memoryview]:
    """Raw bytes per tensor name, as views of `data`; ContainerError unless `data` is canonical."""
    expected = header(layout)
    total = size(layout)
    if len(data) != total or data[: len(expected)] != expected:
        raise ContainerError(_explain(data, layout, total))
    view = memoryview(data)
    parts = {}
    offset = len(expected)
    for name in sorted(layout):
        end = offset + _nbytes(*layout[name])
        parts[name] = view[offset:end]
        offset = end
    return parts


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _depth(text: bytes) -> int:
    """Upper bound on the nesting of JSON text.

    Counted before parsing, because the json module recurses on the C stack: where some library has
    raised the recursion limit, deep nesting ends the process instead of raising RecursionError.
    """
    depth = deepest = 0
    in_string = False
    for match in _STRUCTURE.finditer(text):
        mark = match.group()
        if mark == b'"':
            in_string = not in_string
        elif not in_string and mark in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not in_string and mark in b"]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ContainerError("The header names a tensor or a field twice.")
    return fields


def _reject_constant(text: str) -> None:
    raise ContainerError(f"The header holds the number {text}, which JSON doesn't have.")


def _explain(data: bytes, layout: Layout, total: int) -> str:
    """One sentence on the first thing wrong with `data`; bounded work."""
    if len(data) < 8:
        return f"The payload has {len(data)} bytes; even its header length needs 8."
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        return f"The header claims {length} bytes but only {len(data) - 8} follow."
    if length > MAX_EXPLAINED_HEADER:
        return f"The header claims {length} bytes; the expected one has {len(header(layout)) - 8}."
    text = data[8 : 8 + length]
    if _depth(text) > _MAX_DEPTH:
        return "The header is nested too deeply."
    try:
        fields = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_reject_constant,
        )
    except ContainerError as error:
        return str(error)
    except ValueError:  # UnicodeDecodeError, JSONDecodeError and over-long integers
        return "The header is not UTF-8 JSON."
    if not isinstance(fields, dict):
        return "The header is not a JSON object."
    return _explain_fields(fields, layout) or _explain_rest(data, length, layout, total)


def _explain_fields(fields: dict[str, Any], layout: Layout) -> str | None:
    """What is wrong with a parsed header, or None."""
    for name in fields:
        if name not in layout:
            return f"The payload holds the unknown tensor {_shown(name)}."
    offset = 0
    for name in sorted(layout):
        dtype, shape = layout[name]
        if name not in fields:
            return f"The payload lacks the tensor {_shown(name)}."
        entry = fields[name]
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            return f"Tensor {_shown(name)} needs exactly a dtype, a shape and data_offsets."
        if entry["dtype"] != dtype:
            return f"Tensor {_shown(name)} has dtype {_shown(entry['dtype'])}, not {dtype}."
        if entry["shape"] != list(shape):
            return f"Tensor {_shown(name)} has shape {_shown(entry['shape'])}, not {list(shape)}."
        end = offset + _nbytes(dtype, shape)
        if entry["data_offsets"] != [offset, end]:
            return (
                f"Tensor {_shown(name)} lies at {_shown(entry['data_offsets'])}, "
                f"not at {[offset, end]}."
            )
        offset = end
    return None


def _explain_rest(data: bytes, length: int, layout: Layout, total: int) -> str:
    """The header means the right thing: its spelling or the data's length must be wrong."""
    if 8 + length != len(header(layout)) or data[: 8 + length] != header(layout):
        return "The header is not canonical: sort the names and use no optional white space."
    return f"The payload has {len(data)} bytes, not {total}."
