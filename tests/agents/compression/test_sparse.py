# SPDX-License-Identifier: Apache-2.0
"""The sparse codec: bytes by hand, the largest of each chunk, one spelling."""

import numpy as np
import pytest
import torch

from agents import compression
from agents.compression.bits import pack_bits, wrap
from agents.compression.container import ContainerError

SEED = bytes(32)


def codec(**options):
    return compression.get("sparse")(**options)


def body(scales: list[float], index: list[int], codes: list[int]) -> bytes:
    bits = (np.array(scales, "<f4").view("<u4") >> 16).astype("<u2")
    return wrap(bits.tobytes() + pack_bits(np.array(index), 12) + pack_bits(np.array(codes), 2))


def test_a_full_and_a_short_chunk_by_hand():
    vector = torch.zeros(4096 + 2048)
    vector[[7, 4000, 9, 100]] = torch.tensor([-1.0, 8.0, 10.0, -2.0])
    vector[4096 + 2047] = -3.0
    vector[4096 + 5] = 1.0
    # Four of the full chunk: high 8 and 10 (mean 9), low 1 and 2 (mean 1.5); two of the short one.
    made = codec(per_chunk=4, gain=1.0)
    data = made.encode({"a": vector}, None, SEED)
    assert data == body([1.5, 9, 1, 3], [7, 9, 100, 4000, 5, 2047], [2, 1, 2, 1, 0, 3])
    assert len(data) == made.wire_size({"a": (6144,)})
    got = made.decode(data, {"a": (6144,)}, SEED)["a"]
    wanted = torch.zeros(6144)
    wanted[[7, 9, 100, 4000, 4101, 6143]] = torch.tensor([-1.5, 9, -1.5, 9, 1, -3])
    assert torch.equal(got, wanted)
    twice = codec(per_chunk=4, gain=2.0)
    assert torch.equal(
        twice.decode(twice.encode({"a": vector}, None, SEED), {"a": (6144,)}, SEED)["a"], 2 * wanted
    )


def test_of_equal_numbers_the_first_are_sent():
    data = codec(per_chunk=1024, gain=1.0).encode({"a": torch.ones(8)}, None, SEED)
    assert data == body([1, 1], [0, 1], [0, 0])


SHORT = {"a": (8,)}
BAD = {
    "don't ascend": [([1, 1], [1, 1], [0, 0]), ([1, 1], [2, 1], [0, 0])],
    "names number 8 of only 8": [([1, 1], [1, 8], [0, 0])],
    "negative, not finite or far too large": [
        ([-1, 1], [0, 1], [0, 0]),
        ([1, float("inf")], [0, 1], [0, 0]),
        ([1, float("nan")], [0, 1], [0, 0]),
        ([1, 2.0**64], [0, 1], [0, 0]),
        ([-0.0, 1], [0, 1], [0, 0]),
    ],
    "scales don't ascend": [([2, 1], [0, 1], [0, 0])],
    "high in a chunk whose scales are equal": [([1, 1], [0, 1], [0, 1])],
    "negative but its scale is 0": [([0, 1], [0, 1], [2, 1])],
}


@pytest.mark.parametrize(("message", "fields"), [(m, f) for m, found in BAD.items() for f in found])
def test_other_spellings_are_refused(message, fields):
    with pytest.raises(ContainerError, match=message):
        codec(per_chunk=1024).decode(body(*fields), SHORT, SEED)


def test_spare_bits_are_refused():
    good = body([1, 1], [0, 1], [0, 0])
    codec(per_chunk=1024).decode(good, SHORT, SEED)
    with pytest.raises(ContainerError, match="spare bits"):
        codec(per_chunk=1024).decode(good[:-1] + b"\x10", SHORT, SEED)


def test_memory_decays():
    made = codec(per_chunk=1024, gain=1.0, decay=0.5)
    sent = {"a": torch.tensor([4.0, 1.0, 2.0, 4.0])}
    decoded = made.decode(made.encode(sent, None, SEED), {"a": (4,)}, SEED)
    assert decoded["a"].tolist() == [4, 0, 0, 0]
    memory = made.remember(sent, None, decoded)
    assert memory["a"].tolist() == [0, 0.5, 1, 2]
    # The next round sends the sum's largest.
    assert made.decode(made.encode(sent, memory, SEED), {"a": (4,)}, SEED)["a"].tolist() == [
        0,
        0,
        0,
        6,
    ]
    assert codec(decay=0).has_memory is False
    assert codec(decay=0).remember(sent, None, decoded) is None


def test_numbers_too_large_are_refused():
    with pytest.raises(ValueError, match="far too large"):
        codec().encode({"a": torch.full((5,), 1e30)}, None, SEED)


@pytest.mark.parametrize(
    "options",
    [{"per_chunk": 0}, {"per_chunk": 5000}, {"gain": 9}, {"decay": 1.5}, {"memory_rounds": 0}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        codec(**options)
