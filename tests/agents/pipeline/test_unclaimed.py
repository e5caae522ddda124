# SPDX-License-Identifier: Apache-2.0
"""What was handed out and counts for nobody is nobody's, so no miner's part grows by it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.pipeline.credit import PPM, payouts
from agents.pipeline.epoch import Epoch
from agents.pipeline.unclaimed import with_unclaimed
from agents.protocol.numbers import UNCLAIMED
from agents.rounds.plan import Plan
from agents.training.assignment import Manifest

SEED = bytes(32)
EPOCH = Epoch(1, 3, SEED, ((1, 2), (3,)), range(10, 15))
MANIFEST = Manifest(SEED, (), (), 0)


def test_by_hand() -> None:
    assert with_unclaimed({5: 3 * PPM, 2: 4 * PPM, 9: 0}, 10) == {
        UNCLAIMED: 3 * PPM,
        2: 4 * PPM,
        5: 3 * PPM,
    }
    assert list(with_unclaimed({5: PPM, 2: PPM}, 10)) == [UNCLAIMED, 2, 5]


def test_where_all_counts_nothing_is_nobodys() -> None:
    assert with_unclaimed({5: 3 * PPM, 2: 7 * PPM}, 10) == {2: 7 * PPM, 5: 3 * PPM}


def test_where_nothing_counts_nobody_is_paid() -> None:
    assert with_unclaimed({5: 0}, 10) == {} == with_unclaimed({}, 10)


PASSES = st.dictionaries(st.integers(1, 9), st.integers(1, 20), min_size=2)


@given(PASSES, st.data())
def test_what_a_miner_is_paid_does_not_depend_on_the_passes_of_others(
    passes: dict[int, int], data: st.DataObject
) -> None:
    handed_out = sum(passes.values()) + data.draw(st.integers(0, 50))
    miner, rival = data.draw(st.permutations(sorted(passes)))[:2]
    fewer = passes | {rival: data.draw(st.integers(0, passes[rival]))}
    pot = handed_out * PPM  # so no share is rounded

    def paid(done: dict[int, int]) -> int:
        worth = {one: number * PPM for one, number in done.items()}
        return payouts(pot, with_unclaimed(worth, handed_out))[miner]

    assert paid(passes) == paid(fewer) == passes[miner] * PPM


def test_handed_out_are_the_passes_of_the_rounds_that_are_still_paid() -> None:
    """A round in which none counted is not paid any more, nor is one without an epoch."""
    one = len(EPOCH.samples) * len(EPOCH.stages)
    assert Plan(MANIFEST, 2, (), 0, EPOCH).handed_out == one == 10
    assert Plan(MANIFEST, 2, (), 0, EPOCH, ({1: 2}, {1: 0, 2: 0}, {})).handed_out == 2 * one
    assert Plan(MANIFEST, 2, (), 0).handed_out == 0
