# SPDX-License-Identifier: Apache-2.0
"""Attacks on a job that is paid by scores, played on the contracts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from agents.protocol.numbers import BPS, SCALE
from agents.storage.embedded import EmbeddedStore
from scripts._attacks import scores
from scripts._attacks.attack import Attack, Outcome, gains
from scripts._attacks.denying import _Missing, deny_payloads
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.scores import ATTACKS, cut_of
from scripts._attacks.scoring_round import ScoringRound, scored
from scripts._attacks.strategies import trains
from scripts._attacks.swarm import Swarm
from scripts._attacks.tilted_swarm import TiltedSwarm
from scripts._attacks.tilting import tilt_the_losses


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(Numbers())


def rest(market: Market) -> int:
    """What trainers get of a round if all verifiers have their cuts."""
    terms = market.numbers.terms
    return terms.reward_per_round * (BPS - terms.aggregator_bps - terms.verifier_bps) // BPS


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack__at_the_default_numbers__pays_nobody(market: Market, attack: Attack) -> None:
    """But those that are known to pay, so that whoever makes them fail strikes them from there."""
    assert (attack.play(market).profit > 0) == (attack.full_name in KNOWN)


@pytest.mark.parametrize(
    ("attack", "overruled"),
    [
        (scores.lift_a_friend, True),
        (scores.score_first, True),
        (scores.give_next_to_nothing, True),
        (scores.copy_a_vector, False),
        (scores.read_then_commit, False),
        (scores.stay_silent, False),
        (scores.commit_in_the_last_second, False),
    ],
)
def test_lie__costs_the_cut_and_the_others_get_it(
    market: Market, attack: Callable[[Market], Outcome], overruled: bool
) -> None:
    """To the unit but for what is lost where shares are rounded down. Who has revealed a lie is
    slashed too; the treasury has that."""
    found, dust = attack(market), len(market.trainers) + len(market.verifiers)
    slash = fifth(market) if overruled else 0
    assert abs(found.profit + cut_of(market) + slash) <= dust
    assert abs(found.loss + cut_of(market)) <= dust


def fifth(market: Market) -> int:
    """What an overruled verifier loses."""
    return market.numbers.verifier_stake // 5


def test_silent_node__has_no_part_of_what_the_others_get(market: Market) -> None:
    found = scores.score_a_silent_node(market)
    assert found.profit == found.loss == 0


def test_honest_round__pays_verifiers_their_cuts_and_trainers_by_the_truth(market: Market) -> None:
    cuts, pay = gains(market, scored, market.verifiers, market.honest)
    dust = len(market.trainers) + len(market.verifiers)
    assert 0 <= len(market.verifiers) * cut_of(market) - cuts <= dust
    assert 0 <= rest(market) - pay <= dust


def test_round_with_a_lie__is_another_round_than_without(market: Market) -> None:
    """Half of the weight by two owners would pay the friend: with two of three verifiers the same
    vectors do what one can't."""

    def majority(market: Market) -> None:
        round_ = ScoringRound(market)
        liars = dict.fromkeys(market.verifiers[:2], round_.lie)
        round_.finish({**liars, market.verifiers[2]: round_.truth})

    won, _ = gains(market, majority, market.evil, [])
    assert won > rest(market)


def test_tie_of_the_first_scores__pays_every_accepted_node_alike(market: Market) -> None:
    """By silence, which costs the cut and no stake."""
    found = scores.tie_the_first_scores(market)
    share = Fraction(rest(market) * len(market.evil), len(market.trainers))
    dust = len(market.trainers) + len(market.verifiers)
    assert abs(found.profit - share + cut_of(market)) <= dust
    assert found.capital == 3 * market.numbers.stake + 2 * market.numbers.verifier_stake


def test_tilted_medians__win_what_the_shares_say_and_cost_a_fifth(market: Market) -> None:
    """Nine trainers, three of them the attacker's: everybody else's score falls to the lower of
    the honest ones, theirs rises to the higher. No record gives that."""
    found = scores.tilt_the_medians(market)
    fair, many = SCALE * 9 // 10 // 9, len(market.trainers)
    high, low = int(fair * Fraction(11, 10)), int(fair * Fraction(9, 10))
    tilted = Fraction(3 * high, 3 * high + 6 * low)
    # Honest verifiers agree less with it than the attacker's, and their lost cuts go to trainers.
    won = found.profit + fifth(market)
    assert won > (tilted - Fraction(3, many)) * rest(market)
    assert won == pytest.approx(found.loss)
    assert found.profit < 0


def test_repeated_consensus__saves_what_measuring_costs_and_costs_a_fifth(market: Market) -> None:
    found = scores.repeat_the_last_consensus(market)
    assert found.profit == cut_of(market) * Fraction(market.numbers.compute) - fifth(market)
    assert found.loss == 0


@pytest.mark.parametrize(
    ("attack", "swarm"), [(tilt_the_losses, TiltedSwarm), (deny_payloads, _Missing)]
)
def test_measured_rounds__are_those_of_the_market_s_own_gauntlet_job(
    monkeypatch: pytest.MonkeyPatch, attack: Callable[[Market], Outcome], swarm: type[Swarm]
) -> None:
    """Its codec and steps, and not those of the attacks' own job."""
    opened = []

    def stop(*args: object, **fields: Any) -> None:
        opened.append(fields)
        raise InterruptedError

    monkeypatch.setattr(swarm, "open", stop)
    own = {**SIGNS, "codec_options": {"per_chunk": 64}, "optimizer": {"inner": "gradient"}}
    for spec in (own, {}):
        with pytest.raises(InterruptedError):
            attack(Market(Numbers(rounds=1, spec=spec)))
    assert opened[0] == fields_of(own, 9) and opened[1] == fields_of(SIGNS, 9)


def test_losses_tilted_within_the_tolerance__move_no_median(tmp_path: Path) -> None:
    """In real rounds of training the first validator tilts, and the two others find the same."""
    people, store = dict.fromkeys(range(1, 10), trains()), EmbeddedStore(tmp_path / "store")
    swarm = TiltedSwarm.open(store, people, **fields_of(SIGNS, len(people)))
    swarm.friends = frozenset({1, 2, 3})
    for _ in range(2):
        swarm.round()
        assert swarm.vectors[0] != swarm.vectors[1] == swarm.vectors[2]
    assert tilt_the_losses(Market(Numbers(rounds=4))).profit == 0
