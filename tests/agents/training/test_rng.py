# SPDX-License-Identifier: Apache-2.0
"""Philox words are numpy's, and what is made of them is exact."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from agents.training.rng import bell, derive_key, raw_words


def test_words_of_the_zero_key_are_fixed() -> None:
    # Philox4x64-10 with key 0 and counter (1,0,0,0), numpy's first block, computed independently.
    assert [int(w) for w in raw_words(bytes(16), 4)] == _philox_block(key=(0, 0), counter=1)
    key = bytes(range(16))
    halves = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    expected = _philox_block(halves, 1) + _philox_block(halves, 2)
    assert [int(w) for w in raw_words(key, 8)] == expected


def _philox_block(key: tuple[int, int], counter: int) -> list[int]:
    """Ten rounds of Philox4x64 (Salmon et al. 2011), in Python integers."""
    mask = 2**64 - 1
    c = [counter, 0, 0, 0]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [(p1 >> 64) ^ c[1] ^ k0, p1 & mask, (p0 >> 64) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c


def test_bell_is_the_rounded_sum_of_four_parts() -> None:
    key = derive_key("bell")
    sd = float(np.sqrt((65536.0**2 - 1.0) / 3.0))
    for word, draw in zip(raw_words(key, 50), bell(key, 50, 0.02), strict=True):
        total = sum((int(word) >> shift) & 0xFFFF for shift in (0, 16, 32, 48)) - 131070
        assert np.float32(float(Fraction(total) * Fraction(0.02 / sd))) == draw


def test_bell_has_the_asked_moments_and_bound() -> None:
    draws = bell(derive_key("moments"), 200_000, 2.0).astype(np.float64)
    assert abs(draws.mean()) < 0.02
    assert abs(draws.std() - 2.0) < 0.02
    assert np.abs(draws).max() < 2.0 * 3.47


def test_keys_depend_on_where_parts_end() -> None:
    assert derive_key("ab", "c") != derive_key("a", "bc")
    body = b"menagerie/rng/v1" + (1).to_bytes(8, "big") + b"x" + (1).to_bytes(8, "big") + b"7"
    assert derive_key("x", 7) == hashlib.sha256(body).digest()


def test_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 16 bytes, got 3"):
        raw_words(b"abc", 1)
