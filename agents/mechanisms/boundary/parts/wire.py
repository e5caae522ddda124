# SPDX-License-Identifier: Apache-2.0
"""How codes and their gradients become bytes, and what of a stranger's bytes is refused.

A message is a header of 16 bytes and the body. The header: the letters MB, the version 1, the form
(fp32 0, bf16 1, int8 2, int4 3, fp8 4), then batch, sequence and width as u32, little-endian. The
bodies:

    fp32        4 bytes a number
    bf16        2 bytes a number, rounded to nearest, ties to even
    int8, int4  a BF16 scale for each block of each token, then 1 byte or 4 bits a number
                (`integers`); of two numbers in a byte the first has the lower bits
    fp8         a power of two for the whole message, as one signed byte, then 1 byte a number
                (`small_floats`)

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
    empty_blocks_filled,
    highest,
    quantise,
    restore,
)
from agents.mechanisms.boundary.parts.small_floats import EXPONENTS, eighths, exponent_of, widened

Shape = tuple[int, int, int]

# Larger numbers than these no sane activation has; their squares still sum in fp32.
MAX_MAGNITUDE = 2.0**40
# What may be packed, which is more than what is sent. Hardware rounds differently, and a neighbour
# can choose numbers that give one at the limit. Replay then must not fail where the work did not.
MAX_PACKED = 2 * MAX_MAGNITUDE
MAX_VALUES = 2**28
# In the order of their numbers in the header.
BITS = {"fp32": 32, "bf16": 16, "int8": 8, "int4": 4, "fp8": 8}
WHOLE = ("int8", "int4")

_HEADER = struct.Struct("<2sBB3I")
HEADER_BYTES = _HEADER.size


class WireError(ValueError):
    """A message that is not what it must be, or a tensor that no message can hold."""


@dataclass(frozen=True)
class Wire:
    """One form of messages.

    Attributes:
        form: a name in `BITS`.
        block: channels per scale of the whole-number forms; 0 is one scale a token.
    """

    form: str
    block: int = 0

    @property
    def bytes_per_message(self) -> int:
        """Bytes of the body that no token adds to."""
        return int(self.form == "fp8")

    def bytes_per_token(self, width: int) -> float:
        """Bytes of a token in the body."""
        scales = 2 * blocks(width, self.block) if self.form in WHOLE else 0
        return scales + width * BITS[self.form] / 8

    def size(self, shape: Shape) -> int:
        """Exact bytes of the message of a tensor [batch, seq, width]."""
        batch, seq, width = shape
        if not prod(shape):
            return HEADER_BYTES
        scales = 2 * batch * seq * blocks(width, self.block) if self.form in WHOLE else 0
        numbers = -(-prod(shape) * BITS[self.form] // 8)
        return HEADER_BYTES + self.bytes_per_message + scales + numbers

    def rounded(self, values: Tensor) -> Tensor:
        """fp32 of the same shape and device: what the receiver of `pack(values)` gets."""
        if self.form == "fp32" or not values.numel():
            return values.float()
        if self.form == "bf16":
            return values.to(torch.bfloat16).float()
        if self.form == "fp8":
            exponent = exponent_of(values)
            return widened(eighths(values, exponent), exponent)
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
        if self.form == "fp8":
            exponent = exponent_of(values)
            numbers = eighths(values, exponent).cpu().contiguous().view(torch.int8).numpy()
            return head + exponent.to(torch.int8).cpu().numpy().tobytes() + numbers.tobytes()
        whole, scales = quantise(values, BITS[self.form], self.block)
        numbers = whole.cpu().contiguous().numpy().reshape(-1)
        body = numbers.tobytes() if self.form == "int8" else _nibbles(numbers)
        return head + _bf16_bytes(scales) + body

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
        elif self.form == "fp8":
            values = _from_fp8(body)
        else:
            return self._whole_numbers(body, shape)
        _check_numbers(values, "The message")
        return values.view(shape)

    def _whole_numbers(self, body: memoryview, shape: Shape) -> Tensor:
        batch, seq, width = shape
        count = batch * seq * blocks(width, self.block)
        scales = _from_bf16(body[: 2 * count]).view(batch, seq, -1)
        _check_numbers(scales * highest(BITS[self.form]), "A scale of the message")
        if bool(torch.signbit(scales).any()):
            raise WireError("The message has a negative scale.")
        numbers = np.frombuffer(body[2 * count :], np.int8)
        if self.form == "int4":
            numbers = _from_nibbles(numbers, prod(shape))
        if (numbers < -highest(BITS[self.form])).any():
            raise WireError(f"The message holds the number that {self.form} leaves out.")
        whole = torch.from_numpy(numbers.copy()).view(shape)
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


def _from_fp8(body: memoryview) -> Tensor:
    exponent = torch.from_numpy(np.frombuffer(body[:1], np.int8).copy()).squeeze()
    if not EXPONENTS[0] <= int(exponent) <= EXPONENTS[1]:
        span = "{} to {}".format(*EXPONENTS)
        raise WireError(f"The message's exponent {int(exponent)} is not one from {span}.")
    numbers = torch.from_numpy(np.frombuffer(body[1:], np.int8).copy())
    return widened(numbers.view(torch.float8_e4m3fn), exponent)


def _nibbles(numbers: NDArray[np.int8]) -> bytes:
    even = np.zeros(len(numbers) + len(numbers) % 2, np.uint8)
    even[: len(numbers)] = numbers.view(np.uint8) & 0xF
    return (even[::2] | even[1::2] << 4).astype(np.uint8).tobytes()


def _from_nibbles(raw: NDArray[np.int8], count: int) -> NDArray[np.int8]:
    """int8 [count]; WireError if the spare half of the last byte is not 0."""
    pairs = np.empty(2 * len(raw), np.int8)
    pairs[::2] = (raw << 4) >> 4
    pairs[1::2] = raw >> 4
    if pairs[count:].any():
        raise WireError("The message's last byte has spare bits that are not zero.")
    return pairs[:count]
