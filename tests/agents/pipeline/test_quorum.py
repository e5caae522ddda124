# SPDX-License-Identifier: Apache-2.0
"""A merge begins with a quorum, and counts exactly those that have the least batches."""

from __future__ import annotations

from fractions import Fraction

import pytest

from agents.pipeline.quorum import Quorum

TERMS = Quorum(least=4, share=Fraction(1, 2))


def test_exactly_those_with_the_least_batches_contribute() -> None:
    batches = {9: 4, 2: 7, 5: 3, 1: 0}
    assert list(TERMS.contributors(batches).items()) == [(2, 7), (9, 4)]


@pytest.mark.parametrize(
    ("batches", "reached"),
    [
        ([4, 4, 3, 3], True),
        ([4, 3, 3, 3], False),
        ([4, 4, 3, 3, 3], False),
        ([4], True),
        ([], False),
    ],
)
def test_a_quorum_is_rounded_up(batches, reached) -> None:
    assert TERMS.reached(dict(enumerate(batches))) is reached


def test_one_miner_at_least_is_needed_however_small_the_share() -> None:
    assert Quorum(1, Fraction(1, 10**9)).needed(0) == 1
    assert Quorum(1, Fraction(0)).needed(50) == 1


@pytest.mark.parametrize(("least", "share"), [(0, 1), (1, Fraction(11, 10)), (1, -1)])
def test_terms_out_of_range_are_refused(least, share) -> None:
    with pytest.raises(ValueError):
        Quorum(least, Fraction(share))


def test_negative_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        TERMS.contributors({1: -1})
