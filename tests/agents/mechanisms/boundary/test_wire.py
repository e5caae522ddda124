# SPDX-License-Identifier: Apache-2.0
"""Codes become bytes and come back rounded; bytes that hold no code are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import WireError, pack_tokens, unpack_tokens, wire_ratio
from agents.mechanisms.boundary.parts.wire import BITS, HEADER_BYTES, Wire

FORMS = st.sampled_from(sorted(BITS))
ROW = torch.tensor([[[1.0, -0.5, 0.26, 0.0, 3.0]]])
FP6_FROM_4 = (4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5)


@given(FORMS, st.integers(0, 4), *[st.integers(1, 5)] * 2, st.integers(0, 9), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_receiver_gets_the_rounded_tensor_from_a_message_of_the_stated_size(
    form: str, block: int, batch: int, seq: int, width: int, seed: int
) -> None:
    wire, shape = Wire(form, block), (batch, seq, width)
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.exp(20 * torch.randn(batch, seq, 1, generator=draw)).clamp(1e-37, 1e11)
    values = torch.randn(shape, generator=draw) * sizes
    data = wire.pack(values)
    assert len(data) == wire.size(shape)
    body = wire.bytes_per_token(width) * batch * seq
    body += wire.bytes_per_message if width else 0
    assert 0 <= len(data) - HEADER_BYTES - body < 1
    assert torch.equal(wire.unpack(data, shape), wire.rounded(values))


@pytest.mark.parametrize(
    ("form", "block", "body"),
    [
        ("fp32", 0, struct.pack("<5f", *ROW.flatten())),
        ("bf16", 0, bytes.fromhex("803f 00bf 853e 0000 4040")),
        # 3 / 127 = 1.5118 / 64 is 0x3cc2 as BF16, 0.023682: 42, -21, 11, 0 and 127.
        ("int8", 0, bytes.fromhex("c23c 2a eb 0b 00 7f")),
        # 1 / 7 and 3 / 7 are 0x3e12 and 0x3edb: 7, -4, 2 in the first block, 0, 7 in the second.
        ("int4", 3, bytes.fromhex("123e db3e c7 02 07")),
        # 3 = 0.75 * 2^2, so the exponent is 2 - 9 = -7, and 128 times the numbers are 128, -64,
        # 33.28, 0 and 384: 2^7, -2^6, 2^5 (next is 36), 0 and 1.5 * 2^8. Exponents have 7 added.
        ("fp8", 0, bytes.fromhex("f9 70 e8 60 00 7c")),
        # The exponent is 2 - 3 = -1: 2, -1, 0.52, 0 and 6 are 010000, 101000, 000100 (0.5), 000000
        # and 011100, one after the other from the lowest bit on.
        ("fp6", 0, bytes.fromhex("ff 10 4a 00 1c")),
        # 1 and 3 give the exponents -2 and -1: 4, -2 and 1.04 are 0110, 1100 and 0010; 0 and 6.
        ("fp4", 3, bytes.fromhex("fe ff c6 02 07")),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_the_bytes_are_those_computed_by_hand(form: str, block: int, body: bytes) -> None:
    assert Wire(form, block).pack(ROW)[HEADER_BYTES:] == body


def test_a_whole_number_is_at_most_half_a_scale_away() -> None:
    values = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    for bits, levels in (("int8", 127), ("int4", 7)):
        scale = values.abs().amax(-1, keepdim=True) / levels
        error = (Wire(bits).rounded(values) - values).abs()
        assert bool((error <= scale * 0.5 * 1.01 + scale * levels / 256).all())
        assert float(error.max()) > 0


def test_an_fp8_number_is_at_most_a_sixteenth_of_itself_away_and_its_largest_fits() -> None:
    for largest in (384.0, 384.1, 2.0**-60, 0.75, 0.7500001, 2.0**40):
        values = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
        values *= largest / values.abs().max()
        error = (Wire("fp8").rounded(values) - values).abs()
        smallest = largest / 192 * 2.0**-10  # half of the smallest step, where exponents end
        assert bool((error <= values.abs() / 16 + smallest).all())
        assert float(error.max()) > 0


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("fp6", [*(n / 8 for n in range(16)), *(n / 4 for n in range(8, 16)), *FP6_FROM_4]),
        ("fp4", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
    ],
)
def test_small_floats_are_the_standards_and_a_half_goes_to_the_even_one(
    form: str, numbers: list[float]
) -> None:
    row = torch.tensor([*numbers, *(-number for number in numbers)])
    assert torch.equal(_rounded(form, row), row)
    lower, upper = torch.tensor(numbers[:-1]), torch.tensor(numbers[1:])
    # The even ones, whose last bit is 0, are every second one from 0 on.
    even = torch.tensor([numbers[at + at % 2] for at in range(len(numbers) - 1)])
    halves = torch.cat(((lower + upper) / 2, row[:1] + numbers[-1]))
    assert torch.equal(_rounded(form, halves)[:-1], even)


def _rounded(form: str, row: torch.Tensor) -> torch.Tensor:
    return Wire(form).rounded(row.view(1, 1, -1)).flatten()


def test_a_small_token_or_block_beside_a_large_one_keeps_its_numbers_in_fp4() -> None:
    row = torch.tensor([3.0, -0.5, 4.0, 1.0])
    both = torch.cat((row * 2.0**20, row * 2.0**-20))
    tokens, blocks = both.view(1, 2, 4), both.view(1, 1, 8)
    assert torch.equal(Wire("fp4").rounded(tokens), tokens)
    assert torch.equal(Wire("fp4", 4).rounded(blocks), blocks)
    assert not Wire("fp4").rounded(blocks)[..., 4:].any()
    assert not Wire("fp6").rounded(tokens)[0, 1].any()


@pytest.mark.parametrize("form", ["fp8", "fp6", "fp4"])
def test_a_tensor_of_zeros_or_of_numbers_too_small_crosses_as_zeros(form: str) -> None:
    for values in (torch.zeros(1, 2, 3), torch.full((1, 2, 3), 2.0**-121)):
        assert torch.equal(Wire(form).rounded(values), torch.zeros(1, 2, 3))


def _changed(form: str, at: int, raw: str) -> bytes:
    data, new = bytearray(Wire(form).pack(ROW)), bytes.fromhex(raw)
    data[HEADER_BYTES + at : HEADER_BYTES + at + len(new)] = new
    return bytes(data)


@pytest.mark.parametrize(
    ("form", "data", "says"),
    [
        ("bf16", Wire("bf16").pack(ROW)[:-1], "25 bytes, not 26"),
        ("bf16", Wire("bf16").pack(ROW) + b"\0", "27 bytes, not 26"),
        ("bf16", b"", "0 bytes"),
        ("bf16", Wire("bf16").pack(ROW.view(1, 5, 1)), "header is not that of a bf16 tensor"),
        ("fp32", _changed("fp32", 0, "0000c07f"), "NaN, infinity"),
        ("fp32", _changed("fp32", 4, "000080ff"), "NaN, infinity"),
        ("bf16", _changed("bf16", 0, "c07f"), "NaN, infinity"),
        ("bf16", _changed("bf16", 2, "8153"), "above 1.09951e"),
        ("int8", _changed("int8", 0, "c07f"), "scale of the message holds NaN"),
        ("int8", _changed("int8", 0, "8050"), "scale of the message holds"),
        ("int8", _changed("int8", 0, "c1bc"), "negative scale"),
        ("int8", _changed("int8", 2, "80"), "that int8 leaves out"),
        ("int8", _changed("int8", 0, "0000"), "scale of 0"),
        ("fp8", _changed("fp8", 1, "7f"), "NaN, infinity"),
        ("fp8", _changed("fp8", 1, "ff"), "NaN, infinity"),
        ("fp8", _changed("fp8", 0, "2867"), "above 1.09951e"),
        ("fp8", _changed("fp8", 0, "29"), "exponent 41 is not one from -110 to 40"),
        ("fp8", _changed("fp8", 0, "91"), "exponent -111 is not one from -110 to 40"),
        ("fp6", _changed("fp6", 0, "281f"), "above 1.09951e"),
        ("fp6", _changed("fp6", 0, "29"), "exponent 41 is not one from -110 to 40"),
        ("fp6", _changed("fp6", 4, "5c"), "spare bits"),
        ("fp4", _changed("fp4", 0, "2807"), "above 1.09951e"),
        ("fp4", _changed("fp4", 0, "91"), "exponent -111 is not one from -110 to 40"),
        ("fp4", _changed("fp4", 3, "17"), "spare bits"),
        ("int4", _changed("int4", 2, "08"), "that int4 leaves out"),
        ("int4", _changed("int4", 4, "17"), "spare bits"),
    ],
    ids=lambda value: len(value) if isinstance(value, bytes) else None,
)
def test_a_strangers_message_is_refused_with_a_sentence(form: str, data: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        Wire(form).unpack(data, (1, 1, 5))


@pytest.mark.parametrize("number", [np.nan, np.inf, -(2.0**42)])
@pytest.mark.parametrize("form", sorted(BITS))
def test_numbers_that_are_no_tensors_of_a_model_are_not_packed(form: str, number: float) -> None:
    with pytest.raises(WireError, match="to be sent holds NaN"):
        Wire(form).pack(torch.tensor([[[1.0, number]]]))


@pytest.mark.parametrize("shape", [(2**15, 2**15, 1), (2**40, 1, 0), (1, 1)])
def test_a_shape_too_large_or_of_other_dimensions_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(WireError, match="doesn't cross"):
        Wire("bf16").unpack(b"", shape)


@pytest.mark.parametrize(("vocabulary", "width"), [(65_536, 2), (65_537, 4)])
def test_token_ids_take_two_bytes_up_to_a_vocabulary_of_65536(vocabulary: int, width: int) -> None:
    tokens = torch.tensor([[0, 1, vocabulary - 1]])
    data = pack_tokens(tokens, vocabulary)
    assert len(data) == 3 * width
    assert torch.equal(unpack_tokens(data, (1, 3), vocabulary), tokens)
    with pytest.raises(WireError, match="outside the vocabulary"):
        pack_tokens(tokens + 1, vocabulary)
    with pytest.raises(WireError, match="bytes, not"):
        unpack_tokens(data[1:], (1, 3), vocabulary)


def test_a_strangers_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(WireError, match="a token id outside the vocabulary of 5"):
        unpack_tokens(bytes([4, 0, 5, 0]), (1, 2), 5)


@pytest.mark.parametrize(
    ("name", "options", "ids", "expected"),
    [
        # d_model 256, 4 x 64 tokens: 262,144 bytes in fp32, a header of 16.
        ("none", {}, False, 262_144 / (16 + 262_144)),
        ("residual", {"width": 16}, False, 262_144 / (16 + 256 * 32)),
        ("residual", {"width": 16}, True, 262_144 / (16 + 256 * 34)),
        ("residual", {"width": 16, "code": "int8"}, True, 262_144 / (16 + 256 * 20)),
        ("bottleneck", {"width": 48, "code": "int4", "block": 16}, True, 262_144 / (16 + 256 * 32)),
        ("cut", {}, True, 262_144 / (16 + 256 * 2)),
        # The longer of the two counts: codes of 30 bytes beside gradients of 21, gradients of 6
        # beside codes of 3.
        ("residual", {"width": 40, "code": "fp6", "gradient": "fp4"}, False, 262_144 / (17 + 7680)),
        ("residual", {"width": 4, "code": "fp6", "gradient": "int8"}, False, 262_144 / (16 + 1536)),
        # Ids go forth alone, so these gradients of 6 bytes are still longer than 3 + 2 bytes, and
        # codes of 1.5 + 2 bytes are longer than gradients of 2.
        ("residual", {"width": 4, "code": "fp6", "gradient": "int8"}, True, 262_144 / (16 + 1536)),
        ("residual", {"width": 2, "code": "fp6", "gradient": "fp4"}, True, 262_144 / (17 + 896)),
    ],
)
def test_the_ratio_counts_header_and_ids_of_the_longer_direction(
    name: str, options: dict[str, object], ids: bool, expected: float
) -> None:
    boundary = boundaries.get(name)(**options)
    assert wire_ratio(boundary, 256, 256, 4, 64, ids) == expected
