# SPDX-License-Identifier: Apache-2.0
"""The rotation is orthogonal for every length, mixes, and has one result everywhere."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mechanisms.codec.parts.rotation import Rotation
from agents.mechanisms.codec.parts.vector import flatten, norm, signs, split, total, words

SEED = bytes(range(32))
WORDS = [15984485828618530074, 10187397929372196976]


def test_five_numbers_by_hand():
    assert signs(SEED, "signs 1", 5).tolist() == [1, 1, 1, -1, 1]
    assert signs(SEED, "signs 2", 5).tolist() == [1, 1, 1, -1, 1]
    # [1 2 3 -4 | 5] -> H4/2 on the first four: [1 3 2 -4 | 5]; signs: [1 | 3 2 4 5]; H4/2 on the
    # last four: [1 | 7 0 -2 1].
    rotated = Rotation(5, SEED).forward(np.array([1.0, 2, 3, 4, 5]))
    assert rotated.tolist() == [1, 7, 0, -2, 1]
    assert Rotation(5, SEED).transpose(rotated).tolist() == [1, 2, 3, 4, 5]


def test_words_are_the_raw_philox_stream_of_the_named_key():
    # sha256(b"menagerie/codec/v1" + seed + b"rows"), first 16 bytes, little endian.
    assert words(SEED, "rows", 2).tolist() == WORDS
    assert words(SEED, "signs 1", 2).tolist() != WORDS


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100, 255, 257])
def test_rows_are_orthonormal(length):
    rotation = Rotation(length, SEED)
    matrix = np.stack([rotation.forward(row) for row in np.eye(length)], axis=1)
    assert np.allclose(matrix @ matrix.T, np.eye(length), atol=1e-14)
    back = np.stack([rotation.transpose(row) for row in np.eye(length)], axis=1)
    assert np.array_equal(back, matrix.T)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9000), st.binary(min_size=32, max_size=32), st.floats(1e-12, 1e12))
def test_norm_is_kept_and_the_transpose_inverts(length, seed, scale):
    vector = np.random.default_rng(length).standard_normal(length) * scale
    rotated = Rotation(length, seed).forward(vector)
    assert norm(rotated) == pytest.approx(norm(vector), rel=1e-12)
    assert np.allclose(Rotation(length, seed).transpose(rotated), vector, atol=1e-12 * scale)


def test_a_single_number_is_spread_over_the_vector():
    for place in (0, 5000, 9999):
        spike = np.zeros(10_000)
        spike[place] = 1.0
        rotated = Rotation(10_000, SEED).forward(spike)
        assert np.abs(rotated).max() < 0.1
        assert np.count_nonzero(rotated) > 1000


def test_another_seed_is_another_rotation():
    vector = np.arange(100.0)
    assert not np.allclose(
        Rotation(100, SEED).forward(vector), Rotation(100, bytes(32)).forward(vector)
    )


def test_total_has_the_documented_order():
    values = np.random.default_rng(1).standard_normal(1000)
    lanes = np.zeros(256)
    for place, value in enumerate(values):
        lanes[place % 256] += value
    assert total(values) == math.fsum(lanes)
    assert norm(np.array([3.0, 4.0])) == 5.0


def test_flatten_takes_names_in_order_and_split_undoes_it():
    sent = {"b": torch.tensor([[3.0, 4.0]]), "a": torch.tensor([-0.0, 2.0])}
    assert flatten(sent, "x").tolist() == [0.0, 2.0, 3.0, 4.0]
    got = split(flatten(sent, "x"), {"b": (1, 2), "a": (2,)})
    assert torch.equal(got["b"], sent["b"])
    assert not torch.signbit(got["a"]).any()
