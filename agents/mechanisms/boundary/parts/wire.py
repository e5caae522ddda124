# SPDX-License-Identifier: Apache-2.0
"""How codes and their gradients become bytes, and what of a stranger's bytes is refused.

A message is a header of 16 bytes and the body. The header: the letters MB, the version 1, the form
(fp32 0, bf16 1, int8 2, int4 3, fp8 4, fp6 5, fp4 6), then batch, sequence and width as u32,
little-endian. The bodies:

    fp32        4 bytes a number
    bf16        2 bytes a number, rounded to nearest, ties to even
    int8, int4  a BF16 scale for each block of each token, then 8 or 4 bits a number (`integers`)
    fp8, fp6    a power of two for the whole message, as one signed byte, then 8 or 6 bits a number
                (`small_floats`)
    fp4         such a power for each block of each token, then 4 bits a number: with so few, a
                token much smaller than the largest would cross as zeros

Numbers of fewer than 8 bits lie one after the other, the lowest bit of each first, from the lowest
bit of a byte on; spare bits of the last byte are 0.

The receiver knows the shape, so the header only finds mistakes early, and nothing is allocated
by what it says.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agents.mechanisms.boundary.parts.integers import (
    blocks,
    cut_up,
    empty_blocks_filled,
    highest,
    quantise,
    restore,
)
from agents.mechanisms.boundary.parts.small_floats import EXPONENTS, SMALL, exponents_of

Shape = tuple[int, int, int]

# Larger numbers than these no sane activation has; their squares still sum in fp32.
MAX_MAGNITUDE = 2.0**40
# What may be packed, which is more than what is sent. Hardware rounds differently, and a neighbour
# can choose numbers that give one at the limit. Replay then must not fail where the work did not.
MAX_PACKED = 2 * MAX_MAGNITUDE
MAX_VALUES = 2**28
# In the order of their numbers in the header.
BITS = {"fp32": 32, "bf16": 16, "int8": 8, "int4": 4, "fp8": 8, "fp6": 6, "fp4": 4}
_SCALE_BYTES = {"int8": 2, "int4": 2, "fp4": 1}  # of each block of each token
_ONE_POWER = ("fp8", "fp6")  # for the whole message

_HEADER = struct.Struct("<2sBB3I")
HEADER_BYTES = _HEADER.size


class WireError(ValueError):
    """A message that is not what it must be, or a tensor that no message can hold."""


@dataclass(frozen=True)
class Wire:
    """One form of messages.

    Attributes:
        form: a name in `BITS`.
        block: channels per scale of int8 and int4, or per power of fp4; 0 is all of a token's.
    """

    form: str
    block: int = 0

    @property
    def bytes_per_message(self) -> int:
        """Bytes of the body that no token adds to."""
        return int(self.form in _ONE_POWER)

    def bytes_per_token(self, width: int) -> float:
        """Bytes of a token in the body."""
        scales = _SCALE_BYTES.get(self.form, 0) * blocks(width, self.block)
        return scales + width * BITS[self.form] / 8

    def size(self, shape: Shape) -> int:
        """Exact bytes of the message of a tensor [batch, seq, width]."""
        batch, seq, width = shape
        if not prod(shape):
            return HEADER_BYTES
        scales = _SCALE_BYTES.get(self.form, 0) * batch * seq * blocks(width, self.block)
        numbers = -(-prod(shape) * BITS[self.form] // 8)
        return HEADER_BYTES + self.bytes_per_message + scales + numbers

    def rounded(self, values: Tensor) -> Tensor:
        """fp32 of the same shape and device: what the receiver of `pack(values)` gets."""
        if self.form == "fp32" or not values.numel():
            return values.float()
        if self.form == "bf16":
            return values.to(torch.bfloat16).float()
        if self.form in SMALL:
            numbers, exponents = self._small(values)
            return self._widened(numbers, exponents, tuple(values.shape))
        whole, scales = quantise(values.float(), BITS[self.form], self.block)
        return restore(whole, scales, self.block)

    def pack(self, values: Tensor) -> bytes:
        """The message of a floating tensor [batch, seq, width].

        WireError if a number is not finite or exceeds `MAX_PACKED`, or there are too many.
        """
        shape = _checked(tuple(values.shape))
        values = values.detach().float()
        _check_numbers(values, "The tensor to be sent", MAX_PACKED)
        head = _HEADER.pack(b"MB", 1, list(BITS).index(self.form), *shape)
        if not values.numel():
            return head
        if self.form == "fp32":
            return head + values.cpu().contiguous().numpy().astype("<f4").tobytes()
        if self.form == "bf16":
            return head + _bf16_bytes(values.to(torch.bfloat16))
        if self.form in SMALL:
            numbers, exponents = self._small(values)
            powers = exponents.to(torch.int8).cpu().numpy().tobytes()
            return head + powers + _bits(self._shown(numbers, shape), BITS[self.form])
        whole, scales = quantise(values, BITS[self.form], self.block)
        return head + _bf16_bytes(scales) + _bits(whole.view(torch.uint8), BITS[self.form])

    def unpack(self, data: bytes, shape: Shape) -> Tensor:
        """A new fp32 CPU tensor of `shape`.

        WireError for a wrong length or header, a number that is not finite or exceeds
        `MAX_MAGNITUDE`, or a second spelling of whole numbers.
        """
        batch, seq, width = _checked(shape)
        if len(data) != self.size(shape):
            raise WireError(f"The message has {len(data)} bytes, not {self.size(shape)}.")
        expected = (b"MB", 1, list(BITS).index(self.form), batch, seq, width)
        if _HEADER.unpack(data[:HEADER_BYTES]) != expected:
            raise WireError(
                f"The message's header is not that of a {self.form} tensor {[batch, seq, width]}."
            )
        body = memoryview(data)[HEADER_BYTES:]
        if not prod(shape):
            return torch.zeros(shape)
        if self.form == "fp32":
            values = torch.from_numpy(np.frombuffer(body, "<f4").astype(np.float32))
        elif self.form == "bf16":
            values = _from_bf16(body)
        elif self.form in SMALL:
            values = self._small_floats(body, shape)
        else:
            return self._whole_numbers(body, shape)
        _check_numbers(values, "The message")
        return values.view(shape)

    def _small(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers, uint8 [..., group], and exponents, [...], of the groups of a tensor."""
        small = SMALL[self.form]
        grouped = self._grouped(values)
        exponents = exponents_of(grouped, small.largest)
        return small.numbers(grouped, exponents), exponents

    def _grouped(self, tensor: Tensor) -> Tensor:
        """[..., group]: what has one power of two, filled up with zeros."""
        return tensor.reshape(1, -1) if self.form in _ONE_POWER else cut_up(tensor, self.block)

    def _shown(self, grouped: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A tensor of `shape` from its groups."""
        if self.form in _ONE_POWER:
            return grouped.reshape(shape)
        return grouped.flatten(-2)[..., : shape[-1]]

    def _widened(self, numbers: Tensor, exponents: Tensor, shape: tuple[int, ...]) -> Tensor:
        return self._shown(SMALL[self.form].widened(numbers, exponents), shape)

    def _small_floats(self, body: memoryview, shape: Shape) -> Tensor:
        batch, seq, width = shape
        powers = 1 if self.form in _ONE_POWER else batch * seq * blocks(width, self.block)
        exponents = torch.from_numpy(np.frombuffer(body[:powers], np.int8).astype(np.int32))
        least, most = int(exponents.min()), int(exponents.max())
        if least < EXPONENTS[0] or most > EXPONENTS[1]:
            wrong = least if least < EXPONENTS[0] else most
            span = "{} to {}".format(*EXPONENTS)
            raise WireError(f"The message's exponent {wrong} is not one from {span}.")
        numbers = torch.from_numpy(_from_bits(body[powers:], prod(shape), BITS[self.form]))
        grouped = self._grouped(numbers.view(shape))
        return self._widened(grouped, exponents.view(grouped.shape[:-1]), shape)

    def _whole_numbers(self, body: memoryview, shape: Shape) -> Tensor:
        batch, seq, width = shape
        count = batch * seq * blocks(width, self.block)
        scales = _from_bf16(body[: 2 * count]).view(batch, seq, -1)
        _check_numbers(scales * highest(BITS[self.form]), "A scale of the message")
        if bool(torch.signbit(scales).any()):
            raise WireError("The message has a negative scale.")
        bits = BITS[self.form]
        raw = _from_bits(body[2 * count :], prod(shape), bits)
        numbers = (raw << 8 - bits).view(np.int8) >> 8 - bits  # the highest bit is the sign
        if (numbers < -highest(bits)).any():
            raise WireError(f"The message holds the number that {self.form} leaves out.")
        whole = torch.from_numpy(numbers).view(shape)
        if empty_blocks_filled(whole, scales, self.block):
            raise WireError("The message has a scale of 0 for numbers that are not 0.")
        return restore(whole, scales, self.block)


def _checked(shape: tuple[int, ...]) -> Shape:
    if len(shape) != 3 or prod(shape) > MAX_VALUES or max(shape) > MAX_VALUES:
        raise WireError(
            f"A tensor {list(shape)[:4]} doesn't cross: it needs a batch, a sequence and channels, "
            f"and at most {MAX_VALUES} numbers."
        )
    return shape[0], shape[1], shape[2]


def _check_numbers(values: Tensor, what: str, most: float = MAX_MAGNITUDE) -> None:
    # Not `> most`: a NaN compares false.
    if not bool((values.abs() <= most).all()):
        raise WireError(f"{what} holds NaN, infinity or a number above {most:g}.")


def _bf16_bytes(values: Tensor) -> bytes:
    return values.cpu().contiguous().view(torch.int16).numpy().astype("<i2").tobytes()


def _from_bf16(raw: memoryview) -> Tensor:
    bits = torch.from_numpy(np.frombuffer(raw, "<i2").astype(np.int16))
    return bits.view(torch.bfloat16).float()


def _bits(numbers: Tensor, bits: int) -> bytes:
    """The lowest `bits` of each number of a uint8 tensor, one after the other."""
    flat = numbers.cpu().contiguous().numpy().reshape(-1)
    if bits == 8:
        return flat.tobytes()
    each = np.unpackbits(flat[:, None], axis=1, count=bits, bitorder="little")
    return np.packbits(each, bitorder="little").tobytes()


def _from_bits(raw: memoryview, count: int, bits: int) -> NDArray[np.uint8]:
    """uint8 [count]; WireError if spare bits of the last byte are not 0."""
    data = np.frombuffer(raw, np.uint8)
    if bits == 8:
        return data.copy()
    each = np.unpackbits(data, bitorder="little")
    if each[count * bits :].any():
        raise WireError("The message's last byte has spare bits that are not zero.")
    each = each[: count * bits].reshape(count, bits)
    return np.packbits(each, axis=1, bitorder="little")[:, 0]
