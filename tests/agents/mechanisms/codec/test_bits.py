# SPDX-License-Identifier: Apache-2.0
"""Packing is exact to the bit, and a reader refuses spare bits and wrong lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.bits import (
    from_bf16,
    pack_bits,
    packed_bytes,
    read_bf16,
    read_scale,
    to_bf16,
    unpack_bits,
    unwrap,
    wrap,
    wrapped_size,
)
from agents.mechanisms.codec.parts.container import ContainerError


def test_lowest_bit_comes_first():
    # 5 = 101, 3 = 110 (low first), 7 = 111: bits 101 110 11|1 -> 0b11011101, 0b1.
    assert pack_bits(np.array([5, 3, 7]), 3) == bytes([0b11011101, 0b1])
    # Twelve bits: 0xABC then 0x123 -> BC 3A 12.
    assert pack_bits(np.array([0xABC, 0x123]), 12) == bytes([0xBC, 0x3A, 0x12])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 16), st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=50))
def test_round_trip(width, values):
    values = [value % 2**width for value in values]
    raw = pack_bits(np.array(values), width)
    assert len(raw) == packed_bytes(len(values), width)
    assert unpack_bits(raw, len(values), width).tolist() == values


def test_spare_bits_must_be_zero():
    assert unpack_bits(b"\x07", 1, 3).tolist() == [7]
    with pytest.raises(ContainerError, match="spare bits"):
        unpack_bits(b"\x0f", 1, 3)


def test_wrapping_is_one_container_tensor():
    data = wrap(b"abc")
    assert len(data) == wrapped_size(3)
    assert bytes(unwrap(data, 3)) == b"abc"
    with pytest.raises(ContainerError):
        unwrap(data, 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, -0.0, 9.0])
def test_scales_out_of_range_are_refused(value):
    with pytest.raises(ContainerError, match="scale"):
        read_scale(np.array([value], "<f4").tobytes(), 8.0)
    assert read_scale(np.array([8.0], "<f4").tobytes(), 8.0) == 8.0


def test_bf16_by_hand():
    # 1 + 2^-8 lies between 1 and 1 + 2^-7: away from zero. A subnormal is 0.
    values = np.array([1.0, 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-20, 0.0, 2.0**-127, 2.0**-126])
    bits = to_bf16(values)
    assert bits.tolist() == [0x3F80, 0x3F81, 0x3F80, 0, 0, 0x0080]
    assert from_bf16(bits).tolist() == [1, 1 + 2.0**-7, 1, 0, 0, 2.0**-126]
    assert read_bf16(bits.tobytes(), 1).tolist() == bits.tolist()


@pytest.mark.parametrize("bits", [0x8000, 0x0001, 0x007F, 0x3F80, 0x7F80, 0x7FC0, 0xBF00])
def test_bf16_out_of_range_is_refused(bits):
    with pytest.raises(ContainerError, match="scale"):
        read_bf16(np.array([0, bits], "<u2").tobytes(), 0)
