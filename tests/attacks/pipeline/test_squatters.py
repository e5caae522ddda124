# SPDX-License-Identifier: Apache-2.0
"""Who takes the places of samples that it never had."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.stage.memory.miners_pot import MINERS, SLASH, STAGES, won
from tests.stage.memory.paid_by_logs import ASKED, Does, drawn, each_paid, paid_by_logs

SQUATTER, FRIEND = STAGES[1][0], STAGES[4][0]


def squat(sample: int, way: tuple[int, ...], trail: bool = True) -> Collection[int]:
    """The squatter, of the second stage, sends numbers of its own for a sample to all miners of the
    third before its true sender does. They take one sample once, so they refuse the true one. It
    spares the samples of its friend, and shows no log: nobody can say what it should have sent.

    With the `trail` of a sample it can do so only where the sample was handed to it."""
    there = [ASKED[sample][1][1] if m == SQUATTER else m for m in way]
    if FRIEND in way or (trail and SQUATTER not in way):
        return there
    return there[2:]


def squat_without_trails(sample: int, way: tuple[int, ...]) -> Collection[int]:
    return squat(sample, way, trail=False)


def test_squatter_takes_the_places_of_samples__their_trail_does_not_lead_to_it() -> None:
    """It loses with its friend, and without trails it would take far more from the others with it.
    Control: were the pot shared, a smaller part of what it takes would be its own loss."""
    pair = (SQUATTER, FRIEND)
    honest, cost = each_paid(drawn), dict[Does, float]()
    for name, does in (("without trails", squat_without_trails), ("with trails", squat)):
        shared = paid_by_logs(does, pair, fixed=True) - paid_by_logs(drawn, pair)
        won(f"squatter, letters {name}, the pot is shared", shared)
        found = each_paid(does)
        profit = sum(found[miner] - honest[miner] for miner in pair)
        assert won(f"squatter, letters {name}", profit) < -20
        # A log convicts it, by one letter: with it neither logged nor true, and without it signed.
        assert won("    the same with a log", shared - SLASH) < -60
        cost[does] = sum(honest[m] - found[m] for m in MINERS if m not in pair)
        print(f"    the others: {-cost[does]:+.1f} ZOO")
    assert cost[squat_without_trails] > 5 * cost[squat]


@pytest.mark.parametrize("friends", range(1, 5))
def test_squatter_with_more_friends__wins_nothing(friends: int) -> None:
    """What it was handed itself it can still spoil: it gives up its own pay for its friends'."""
    clique = (SQUATTER, *(STAGES[stage][0] for stage in (4, 3, 2, 0)[:friends]))

    def spoil(sample: int, way: tuple[int, ...]) -> Collection[int]:
        """Where it has the sample and no friend does."""
        mine = SQUATTER in way and not {*clique[1:]} & {*way}
        there = [ASKED[sample][1][1] if m == SQUATTER else m for m in way]
        return there[2:] if mine else there

    profit = paid_by_logs(spoil, clique) - paid_by_logs(drawn, clique)
    assert won(f"squatter with trails, {friends} friends", profit) < 0
