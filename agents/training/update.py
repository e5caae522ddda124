# SPDX-License-Identifier: Apache-2.0
"""The update of a round as a file: as few bytes as its numbers need, and one encoding of each.

Rule: each tensor, in order of names, is coded on its own in the way that takes the fewest bytes; of
equals, the first in the tables below. So the merge decides, not the publisher: a signed merge takes
one bit a parameter, a sparse one the places and values of what is not zero, a dense one four bytes.
Where no tensor gains anything the file is the plain safetensors file that any tool opens. No
general-purpose compressor is used: its output may change with its version, and this file's digest
is on chain.

A number is listed or it is +0.0 (-0.0 is listed: subtracting it from -0.0 gives other bits).

    which are listed                              the values of those listed
    0 all of them                                 0 four bytes each, fp32
    1 a bit for each number                       1 a table of the magnitudes (2 bytes count - 1,
    2 the places of those listed (gaps.py)          then fp32, ascending), a number in it for each,
    3 the places of those not listed                in as many bits as it takes, and a bit for each
                                                    sign

2 is tried where at most half are listed, else 3. A table has at most 65,536 magnitudes, and none is
made where zeros are listed too. With one magnitude, nothing but the signs is left: one bit each.
Coding these further (arithmetic coding) gains nothing: `tests/measure/studies/updates.py` measures
it.

The file: an 8-byte mark, which no safetensors file starts with, then each tensor's record: a byte
(4 * values + listed), the coding of places, the coding of values. Bits are packed lowest first.
Names and shapes are the job's, not the file's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.codec.parts import container
from agents.mechanisms.codec.parts.bits import pack_bits, packed_bytes, unpack_bits
from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.gaps import pack_gaps, unpack_gaps
from agents.training.state import PayloadError, Shapes, State, check_state, file_bound, load_state

MARK = b"MENUPD\xff\x01"  # as the length of a safetensors header: 10^17 bytes
_MAX_TABLE = 1 << 16
_SAMPLE = 1 << 17  # so many numbers with too many magnitudes among them: no table
_SIGN = np.uint32(1 << 31)
_ALL, _BITMAP, _LISTED, _UNLISTED = range(4)
_PLAIN, _TABLE = range(2)

_SPELLING = "the update is not in the one encoding that its numbers have"

Bits = NDArray[np.uint32]  # fp32 numbers by their bits
Piece = bytes | memoryview


def pack_update(update: Mapping[str, Tensor]) -> bytes:
    """The one file of this update. PayloadError if a tensor is not fp32 or not finite."""
    return b"".join(_pieces(update))


def _pieces(update: Mapping[str, Tensor]) -> list[Piece]:
    """The file in parts, so that a dense one is copied once at most."""
    check_state(update, {name: tuple(tensor.shape) for name, tensor in update.items()})
    records = [_pack(_bits(update[name])) for name in sorted(update)]
    if all(kind == _ALL + 4 * _PLAIN for kind, _ in records):
        layout = {name: ("F32", tuple(tensor.shape)) for name, tensor in update.items()}
        return [container.header(layout), *(piece for _, parts in records for piece in parts)]
    pieces: list[Piece] = [MARK]
    for kind, parts in records:
        pieces += [bytes([kind]), *parts]
    return pieces


def read_update(raw: bytes, shapes: Shapes) -> State:
    """The update in a stranger's file.

    Raises:
        PayloadError: too long, malformed, of other names or shapes, a value that is NaN or
            infinite, or not the very bytes that `pack_update` gives for what is in it.
    """
    limit = file_bound(shapes)
    if len(raw) > limit:
        raise PayloadError(f"the update has {len(raw)} bytes, at most {limit} are expected")
    update = _unpack_all(raw, shapes) if raw[: len(MARK)] == MARK else load_state(raw, shapes)
    check_state(update, shapes)
    rest = memoryview(raw)
    pieces = _pieces(update)
    if sum(map(len, pieces)) != len(raw):
        raise PayloadError(_SPELLING)
    for piece in pieces:
        if rest[: len(piece)] != piece:
            raise PayloadError(_SPELLING)
        rest = rest[len(piece) :]
    return update


def _unpack_all(raw: bytes, shapes: Shapes) -> State:
    rest = memoryview(raw)[len(MARK) :]
    update = {}
    try:
        for name in sorted(shapes):
            bits, size = _unpack(rest, prod(shapes[name]))
            values = bits.astype("<u4").view("<f4").astype(np.float32)
            update[name] = torch.from_numpy(values).reshape(shapes[name])
            rest = rest[size:]
    except ContainerError as error:
        raise PayloadError(f"the update is malformed: {error}") from error
    if len(rest):
        raise PayloadError(f"the update has {len(rest)} bytes after its last tensor")
    return update


def _bits(tensor: Tensor) -> Bits:
    array = tensor.detach().cpu().contiguous().numpy().reshape(-1)
    return array.astype("<f4", copy=False).view("<u4")


def _pack(bits: Bits) -> tuple[int, list[Piece]]:
    """The shortest record: its kind, and the parts of the rest."""
    listed = bits != 0
    count = int(np.count_nonzero(listed))
    if count == bits.size:
        code, values = _pack_values(bits)
        return _ALL + 4 * code, values
    code, values = _pack_values(bits[listed])
    least, places = _pack_places(listed, count)
    if 4 * bits.size <= len(places) + sum(map(len, values)):
        return _ALL + 4 * _PLAIN, [_raw(bits)]
    return least + 4 * code, [places, *values]


def _raw(bits: Bits) -> memoryview:
    raw: memoryview = np.ascontiguousarray(bits).view(np.uint8).data
    return raw


def _pack_places(listed: NDArray[np.bool_], count: int) -> tuple[int, bytes]:
    """The shorter of a bitmap and the gaps of the rarer kind."""
    rarer, places = (
        (_LISTED, np.flatnonzero(listed))
        if 2 * count <= listed.size
        else (_UNLISTED, np.flatnonzero(~listed))
    )
    gaps = pack_gaps(places)
    if packed_bytes(listed.size, 1) <= len(gaps):
        return _BITMAP, np.packbits(listed, bitorder="little").tobytes()
    return rarer, gaps


def _pack_values(bits: Bits) -> tuple[int, list[Piece]]:
    """The shorter of plain fp32 and a table."""
    if np.unique(bits[:_SAMPLE] & ~_SIGN).size > _MAX_TABLE:
        return _PLAIN, [_raw(bits)]
    magnitudes = bits & ~_SIGN
    table = _table(magnitudes)
    width = _width(table.size)
    size = 2 + 4 * table.size + packed_bytes(bits.size, width) + packed_bytes(bits.size, 1)
    if not table.size or 4 * bits.size <= size:
        return _PLAIN, [_raw(bits)]
    numbers = pack_bits(np.searchsorted(table, magnitudes), width) if width else b""
    signs = np.packbits(bits >= _SIGN, bitorder="little").tobytes()
    return _TABLE, [(table.size - 1).to_bytes(2, "little") + table.tobytes(), numbers, signs]


def _table(magnitudes: Bits) -> Bits:
    """The magnitudes that occur, ascending; empty if there are too many for a table."""
    if (magnitudes == magnitudes[:1]).all():
        return magnitudes[:1]
    found = np.unique(magnitudes)
    return found if found.size <= _MAX_TABLE else found[:0]


def _width(count: int) -> int:
    """Bits that a number below `count` takes."""
    return max(0, count - 1).bit_length()


def _unpack(raw: memoryview, length: int) -> tuple[Bits, int]:
    """(numbers, bytes read) of a record at the start of `raw`; ContainerError if malformed."""
    reader = _Reader(raw)
    kind = reader.take(1)[0]
    if kind >= 8:
        raise ContainerError(f"A record is of kind {kind}, which there is not.")
    where = kind % 4
    listed: slice | NDArray[np.bool_] = slice(None)
    count = length
    if where == _BITMAP:
        listed = unpack_bits(reader.take(packed_bytes(length, 1)), length, 1).astype(bool)
    elif where != _ALL:
        places = reader.read(lambda rest: unpack_gaps(rest, length))
        listed = np.full(length, where == _UNLISTED)
        listed[places] = where == _LISTED
    if not isinstance(listed, slice):
        count = int(np.count_nonzero(listed))
    bits = np.zeros(length, np.uint32)
    bits[listed] = _unpack_values(reader, kind // 4, count)
    return bits, reader.place


def _unpack_values(reader: _Reader, code: int, count: int) -> Bits:
    if code == _PLAIN:
        return np.frombuffer(reader.take(4 * count), "<u4").astype(np.uint32)
    size = int.from_bytes(reader.take(2), "little") + 1
    table = np.frombuffer(reader.take(4 * size), "<u4").astype(np.uint32)
    width = _width(size)
    numbers = np.zeros(count, np.uint16)
    if width:
        numbers = unpack_bits(reader.take(packed_bytes(count, width)), count, width)
    if count and int(numbers.max()) >= size:
        raise ContainerError(f"A value is number {int(numbers.max())} of a table of {size}.")
    signs = unpack_bits(reader.take(packed_bytes(count, 1)), count, 1)
    return table[numbers] | (signs.astype(np.uint32) << np.uint32(31))


class _Reader:
    """Bytes taken one after the other."""

    def __init__(self, raw: memoryview) -> None:
        self._raw = raw
        self.place = 0

    def take(self, count: int) -> memoryview:
        """The next bytes; ContainerError if there are fewer."""
        if count > len(self._raw) - self.place:
            raise ContainerError(f"A record ends where {count} bytes should follow.")
        self.place += count
        return self._raw[self.place - count : self.place]

    def read(self, do: Callable[[memoryview], tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
        """What `do` reads from here on; it says how many bytes that took."""
        found, size = do(self._raw[self.place :])
        self.place += size
        return found
