# SPDX-License-Identifier: Apache-2.0
"""The sparse codec: bytes by hand, the largest of each chunk, one spelling."""

import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec.parts.bits import wrap
from agents.mechanisms.codec.parts.container import ContainerError
from tests.agents.mechanisms.codec.by_hand import (
    SEED,
    assert_altered_bytes_are_noticed,
    bf16,
    low_first,
    packed,
)
from tests.agents.mechanisms.codec.conftest import gradient


def codec(**options):
    return codecs.get("sparse")(**options)


def test_a_run_of_2048_and_one_of_4096_by_hand():
    long, short = torch.zeros(4096), torch.zeros(2048)
    long[[7, 4000, 9, 100]] = torch.tensor([-1.0, 8.0, 10.0, -2.0])
    short[[2047, 5]] = torch.tensor([-3.0, 1.0])
    sent, shapes = {"a": long, "b": short}, {"a": (4096,), "b": (2048,)}
    # Two of the short run: 1 and 3. Four of the long one: low 1 and 2 (mean 1.5), high 8 and 10
    # (mean 9). Places keep 9 low bits; the others, 0 3 and 0 0 0 7, are steps to a one.
    made = codec(per_chunk=4, gain=1.0)
    data = made.encode(sent, None, SEED)
    assert data == wrap(
        bf16(1, 3)
        + packed("1", "0001")
        + packed(low_first(5, 9), low_first(511, 9))
        + packed("00", "11")
        + bf16(1.5, 9)
        + packed("1", "1", "1", "00000001")
        + packed(*(low_first(place % 512, 9) for place in (7, 9, 100, 4000)))
        + packed("01", "10", "01", "10")
    )
    assert len(data) == made.wire_size(shapes)
    got = made.decode(data, shapes, SEED)
    wanted = torch.zeros(4096)
    wanted[[7, 9, 100, 4000]] = torch.tensor([-1.5, 9, -1.5, 9])
    assert torch.equal(got["a"], wanted)
    assert torch.equal(got["b"], short)
    support = made.support(data, shapes, SEED)
    assert support.places.tolist() == [5, 2047, 2048 + 7, 2048 + 9, 2048 + 100, 2048 + 4000]
    assert support.negative.tolist() == [False, True, True, False, True, False]
    twice = codec(per_chunk=4, gain=2.0)
    got = twice.decode(twice.encode(sent, None, SEED), shapes, SEED)
    assert torch.equal(got["a"], 2 * wanted)


def test_one_bit_says_the_mean_magnitude():
    made = codec(per_chunk=1536, gain=1.0, value_bits=1)
    sent = {"a": torch.tensor([-6.0, 1.0, 0.5, 2.0, 0, 0, 0, 0])}
    data = made.encode(sent, None, SEED)
    # 3 of 8 places, one bit each; the mean of 6, 1 and 2 is 3.
    assert data == wrap(bf16(3) + packed("11010000") + packed("1", "0", "0"))
    assert made.decode(data, {"a": (8,)}, SEED)["a"].tolist() == [-3, 3, 0, 3, 0, 0, 0, 0]


def test_blocks_take_the_largest_of_each_square():
    matrix = torch.zeros(32, 48)
    matrix[3, 5], matrix[20, 40], matrix[31, 0], matrix[0, 20] = 4.0, -2.0, 1.0, 9.0
    made = codec(per_chunk=16, block=16, gain=1.0)
    shapes = {"a": (32, 48)}
    data = made.encode({"a": matrix}, None, SEED)
    # Six blocks of 16 by 16, one number of each; two blocks are empty.
    assert torch.equal(made.decode(data, shapes, SEED)["a"], matrix)
    support = made.support(data, shapes, SEED)
    assert support.places.tolist() == [3 * 16 + 5, 256 + 4, 3 * 256 + 240, 5 * 256 + 72]
    assert support.negative.tolist() == [False, False, False, True]


def test_blocks_and_runs_send_the_same_of_a_single_block():
    sent = {"a": torch.randn(64, 64, generator=torch.Generator().manual_seed(1))}
    assert codec(block=64).encode(sent, None, SEED) == codec().encode(sent, None, SEED)


def test_batches_and_pieces_change_nothing(monkeypatch):
    shapes = {"a": (130, 200), "b": (9000,)}
    wanted = codec().encode(gradient(shapes), None, SEED)
    monkeypatch.setattr("agents.mechanisms.codec.sparse._BATCH", 2)
    monkeypatch.setattr("agents.mechanisms.codec.parts.places._BATCH", 3)
    monkeypatch.setattr("agents.mechanisms.codec.parts.chunks.PIECE", 5000)
    assert codec().encode(gradient(shapes), None, SEED) == wanted


def test_of_equal_numbers_the_first_are_sent():
    data = codec(per_chunk=1536, gain=1.0).encode({"a": torch.ones(8)}, None, SEED)
    assert data == wrap(bf16(1, 1) + packed("11100000") + packed("00", "00", "00"))


SHORT = {"a": (8,)}


def body(scales: list[float], places: str, codes: str) -> bytes:
    """Three of eight: one bit a place."""
    return wrap(bf16(*scales) + packed(places) + packed(codes))


THREE = "10000011"
BAD = {
    "another number of places": [([1, 1], "11110000", "000000"), ([1, 1], "11000000", "000000")],
    "negative, not finite, tiny or far too large": [
        ([-1, 1], THREE, "000000"),
        ([1, float("inf")], THREE, "010000"),
        ([1, float("nan")], THREE, "010000"),
        ([1, 2.0**64], THREE, "010000"),
        ([-0.0, 1], THREE, "000000"),
        ([2.0**-127, 1], THREE, "100000"),
    ],
    "scales don't ascend": [([2, 1], THREE, "000000"), ([0, 1], THREE, "100000")],
    "two scales just if": [([1, 1], THREE, "001000"), ([1, 2], THREE, "000001")],
    "nothing that is low": [([1, 2], THREE, "101011")],
    "not the first": [
        ([0, 0], "11100000", "010000"),
        ([0, 0], THREE, "000000"),
        ([0, 0], "11100000", "100000"),
    ],
    "spare bits": [([1, 1], THREE, "0000001")],
}


@pytest.mark.parametrize(("message", "fields"), [(m, f) for m, found in BAD.items() for f in found])
def test_other_spellings_are_refused(message, fields):
    codec(per_chunk=1536).decode(body([1, 2], THREE, "100110"), SHORT, SEED)
    with pytest.raises(ContainerError, match=message):
        codec(per_chunk=1536).decode(body(*fields), SHORT, SEED)


@pytest.mark.parametrize("options", [{}, {"block": 16}, {"value_bits": 1}])
def test_whatever_byte_is_altered_is_refused_or_says_something_else(options):
    made, shapes = codec(per_chunk=256, **options), {"a": (36, 40), "b": (100,)}
    good = made.encode(gradient(shapes), None, SEED)
    assert_altered_bytes_are_noticed(made, good, shapes)


def test_memory_decays():
    made = codec(per_chunk=1024, gain=1.0, decay=0.5)
    sent = {"a": torch.tensor([4.0, 1.0, 2.0, 4.0])}

    def said(memory):
        return made.decode(made.encode(sent, memory, SEED), {"a": (4,)}, SEED)

    assert said(None)["a"].tolist() == [4, 0, 0, 0]
    memory = made.remember(sent, None, said(None))
    assert memory["a"].tolist() == [0, 0.5, 1, 2]
    # The next round sends the sum's largest.
    assert said(memory)["a"].tolist() == [0, 0, 0, 6]
    assert codec(decay=0).has_memory is False
    assert codec(decay=0).remember(sent, None, said(None)) is None
