# SPDX-License-Identifier: Apache-2.0
"""Codes of ascending places: by hand, one size, one spelling, and nothing else is accepted."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.container import ContainerError
from agents.mechanisms.codec.parts.places import place_code
from tests.agents.mechanisms.codec.by_hand import low_first, packed


def test_bits_of_common_settings():
    for size, sent, bits in [(4096, 64, 511), (4096, 32, 287), (4096, 8, 87), (64, 8, 39)]:
        assert place_code(size, sent).bits == bits
    assert place_code(64, 60).bits == 64  # one bit a place
    assert place_code(64, 64).bits == 0


def test_four_of_4096_by_hand():
    code = place_code(4096, 4)
    assert (code.low, code.width) == (9, 4 + 7)
    # 7, 9 and 100 lie in the first 512, 4000 in the eighth: three ones, seven steps, a one.
    raw = code.pack(np.array([[7, 9, 100, 4000]]))
    low = (low_first(place % 512, 9) for place in (7, 9, 100, 4000))
    assert raw == packed("11100000001") + packed(*low)
    assert code.unpack(raw, 1).tolist() == [[7, 9, 100, 4000]]


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_every_set_has_one_spelling_and_nothing_else_is_one(size):
    for sent in range(1, size + 1):
        code = place_code(size, sent)
        wanted = {tuple(chosen) for chosen in combinations(range(size), sent)}
        spelt = {code.pack(np.array([chosen])): chosen for chosen in wanted}
        assert len(spelt) == len(wanted)
        accepted = set()
        for raw in map(bytes, product(range(256), repeat=code.nbytes(1))):
            try:
                places = code.unpack(raw, 1)
            except ContainerError:
                continue
            assert spelt[raw] == tuple(places[0].tolist())
            accepted.add(raw)
        assert accepted == spelt.keys()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 4), st.data())
def test_round_trip(size, count, data):
    sent = data.draw(st.integers(1, size))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    places = np.sort([rng.choice(size, sent, replace=False) for _ in range(count)], axis=1)
    code = place_code(size, sent)
    raw = code.pack(places)
    assert len(raw) == code.nbytes(count)
    assert np.array_equal(code.unpack(raw, count), places)
    assert code.bits <= min(size, sent * max(1, (size - 1).bit_length()) + sent)


def test_a_row_cannot_lend_ones_to_another():
    code = place_code(16, 2)
    good = code.pack(np.array([[3, 9], [0, 1]]))
    bits = np.unpackbits(np.frombuffer(good, np.uint8), bitorder="little")
    unary = bits[: 2 * code.width].reshape(2, code.width)
    unary[0, unary[0].argmax()] = 0
    unary[1, np.flatnonzero(unary[1] == 0)[0]] = 1
    with pytest.raises(ContainerError, match="another number of places than 2"):
        code.unpack(np.packbits(bits, bitorder="little").tobytes(), 2)


@pytest.mark.parametrize(
    ("places", "spare", "message"),
    [
        ([7, 7, 100, 3999], 0, "don't ascend"),
        ([9, 7, 100, 3999], 0, "don't ascend"),
        ([7, 9, 100, 4000], 0, "number 4000 of only 4000"),
        ([7, 9, 100, 3999], 0x80, "spare bits"),
    ],
)
def test_other_spellings_are_refused(places, spare, message):
    code = place_code(4000, 4)
    raw = bytearray(code.pack(np.array([places])))
    raw[1] |= spare
    with pytest.raises(ContainerError, match=message):
        code.unpack(bytes(raw), 1)
