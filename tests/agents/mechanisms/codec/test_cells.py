# SPDX-License-Identifier: Apache-2.0
"""The codec `cells`: bytes by hand, who draws what, one spelling, what a bit is worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import SupportCodec
from agents.mechanisms.codec.parts.bits import wrap
from agents.mechanisms.codec.parts.container import ContainerError
from tests.agents.mechanisms.codec.by_hand import (
    SEED,
    assert_altered_bytes_are_noticed,
    bf16,
    low_first,
    packed,
)

SHAPES = {"a": (2, 5), "h": (4,)}
SENT = {
    "a": torch.tensor([[1.0, -3.0, 0.0, 2.0, 5.0], [4.0, 4.0, -1.0, 0.0, -2.0]]),
    "h": torch.tensor([1.0, -1.0, 0.5, -1.5]),
}


def codec(**options):
    return codecs.get("cells")(**{"cell": 4, "fine": "h", "fine_share": 1.0, **options})


def body(a: str, h: str, scales: tuple[float, float] = (3.25, 1.0)) -> bytes:
    return wrap(bf16(scales[0]) + packed(a) + bf16(scales[1]) + packed(h))


def code(place: int, negative: bool) -> str:
    return low_first(place + 4 * negative, 3)


# Cells of a: 1 -3 0 2, 5 4 4 -1, 0 -2. Their largest: -3, 5 and -2, with mean 10 / 3 = 3.328 in
# BF16 (8 bits: 3.328125). Of h each sign; the mean magnitude is 1.
GOOD = body(code(1, True) + code(0, False) + code(1, True), "0101", (3.328125, 1.0))


def test_two_tensors_by_hand():
    assert codec().encode(SENT, None, SEED) == GOOD
    got = codec().decode(GOOD, SHAPES, SEED)
    third = 3.328125
    assert got["a"].tolist() == [[0, -third, 0, 0, third], [0, 0, 0, 0, -third]]
    assert got["h"].tolist() == [1, -1, 1, -1]
    left = codec(decay=0.5).remember(SENT, None, got)
    assert left["h"].tolist() == [0, 0, -0.25, -0.25]
    assert left["a"][0].tolist() == [0.5, (third - 3) / 2, 0, 1, (5 - third) / 2]
    half = codec(gain=0.5).decode(codec(gain=0.5).encode(SENT, None, SEED), SHAPES, SEED)
    assert half["h"].tolist() == [0.5, -0.5, 0.5, -0.5]


def test_numbers_that_are_named_are_the_support():
    made = codec()
    assert isinstance(made, SupportCodec)
    found = made.support(GOOD, SHAPES, SEED)
    assert found.places.tolist() == [1, 4, 9, 10, 11, 12, 13]
    assert found.negative.tolist() == [True, False, True, False, True, False, True]
    zeros = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    nothing = made.encode(zeros, None, SEED)
    assert nothing == body("0" * 9, "0000", (0.0, 0.0))
    assert made.support(nothing, SHAPES, SEED).size == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (body("1" + "0" * 8, "0000", (0.0, 1.0)), "scale of 'a' is 0"),
        (body("0" * 9, "0001", (1.0, 0.0)), "scale of 'h' is 0"),
        (body("0" * 6 + code(2, False), "0000"), "number 10 of only 10"),
        (body("0" * 9, "0000", (-1.0, 1.0)), "negative, not finite"),
        (body("0" * 9, "0000", (2.0**64, 1.0)), "far too large"),
        (body("0" * 9 + "1", "0000"), "spare bits"),
    ],
)
def test_other_spellings_are_refused(data, message):
    with pytest.raises(ContainerError, match=message):
        codec().decode(data, SHAPES, SEED)


def test_every_altered_byte_is_noticed():
    assert_altered_bytes_are_noticed(codec(), GOOD, SHAPES)


def test_each_node_draws_its_own_share_and_all_is_drawn_in_time():
    shapes = {"a": (64, 64), "h": (1000,)}
    sent = {name: torch.ones(shape) for name, shape in shapes.items()}
    made = codec(share=0.25, fine_share=0.125)
    moved = {name: torch.zeros(shape) for name, shape in shapes.items()}
    seen = set()
    for number in range(60):
        seed = bytes([number]) * 32
        data = made.encode(sent, None, seed)
        assert len(data) == made.wire_size(shapes)
        got = made.decode(data, shapes, seed)
        assert torch.count_nonzero(got["a"]) == 256
        assert torch.count_nonzero(got["h"]) == 125
        assert (torch.count_nonzero(got["a"].view(-1, 4), dim=1) <= 1).all()
        seen.add(data[-200:] + bytes(got["h"].to(torch.uint8).tolist()))
        moved = {name: moved[name] + got[name] for name in moved}
    assert len(seen) == 60
    assert moved["h"].all()
    assert moved["a"].view(-1, 4).any(dim=1).all()


def test_a_bit_says_more_of_gaussian_numbers_than_one_of_sparse():
    """Of their mean square, less the error's, a bit: about E[largest of 256]^2 / 9, and 0.78."""
    shapes = {"a": (512, 1024)}
    sent = {"a": torch.randn(shapes["a"], generator=torch.Generator().manual_seed(3))}
    worth = {}
    for name, options in (
        ("cells", {"cell": 256}),
        ("sparse", {"per_chunk": 8, "value_bits": 1, "gain": 1.0}),
    ):
        made = codecs.get(name)(**options)
        data = made.encode(sent, None, SEED)
        got = made.decode(data, shapes, SEED)["a"].double()
        gained = float((2 * got * sent["a"] - got * got).sum())
        worth[name] = gained / (8 * len(data))
    assert worth["cells"] == pytest.approx(1.00, abs=0.03)
    assert worth["sparse"] == pytest.approx(0.78, abs=0.03)


def test_signs_alone_say_nearly_all_where_magnitudes_are_alike():
    shapes = {"h": (4096,)}
    draw = torch.Generator().manual_seed(5)
    sent = {"h": torch.randn(4096, generator=draw).sign() * (0.9 + 0.2 * torch.rand(4096))}
    got = codec().decode(codec().encode(sent, None, SEED), shapes, SEED)
    off = float((got["h"] - sent["h"]).norm() / sent["h"].norm())
    assert off < 0.07


def test_an_empty_tensor_and_a_number_alone():
    sent = {"a": torch.zeros(0), "b": torch.tensor(-2.0)}
    shapes = {"a": (0,), "b": ()}
    data = codec().encode(sent, None, SEED)
    got = codec().decode(data, shapes, SEED)
    assert got["a"].shape == (0,)
    assert got["b"].item() == -2.0
    assert np.isfinite(codec().least_change(sent, None, data, SEED))
