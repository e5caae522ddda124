# SPDX-License-Identifier: Apache-2.0
"""Attacks of trainers on who is seated in a round, and on the seed that draws."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from agents.protocol.numbers import BPS, Role
from scripts._attacks.attack import Attack, Outcome, outcome
from scripts._attacks.market import Market
from scripts._attacks.plays import NOTHING, hired, impossible, paid_round, refuse, refused

_FORGOTTEN = 257  # blocks after which the chain no longer knows a hash
_OPENINGS = 100  # in which seats are counted
_BY_CHANCE = 3  # standard deviations that count as chance


def register_after_the_draw(market: Market) -> Outcome:
    """Makes a node that fits the seed of a round that is open."""

    def deed(market: Market) -> None:
        number = market.open()
        late = market.join("late", Role.TRAINER, market.numbers.stake)
        market.benchmark(late)
        market.commit(number, late)

    return refused(market, deed, "rounds: not expected", market.numbers.stake)


def let_a_seed_expire(market: Market) -> Outcome:
    """Keeps silent until the chain has forgotten the seed's block, for another draw: the next seed
    is of a block to come, and stays. (Blocks come fast here; of 12 s each they outlast the time to
    commit.)"""
    cheat = market.evil[0]

    def deed(market: Market) -> None:
        chain = market.chain
        number = int(chain.send(cheat.operator, "TrainingRounds", "open_round", market.job))
        chain.wait(1, _FORGOTTEN + 1)
        place = (market.job, number)
        if market.state(number).n_eligible:
            refuse("rounds: seed expired", lambda: market.commit(number, cheat))
        chain.send(cheat.operator, "TrainingRounds", "capture_seed", *place)
        assert int(market.state(number).seed_block) == chain.block + 1
        again = (cheat.operator, "TrainingRounds", "capture_seed", *place)
        refuse("randomness: too early", lambda: chain.send(*again))
        chain.wait(1, 2)
        chain.send(*again)
        refuse("rounds: no seed due", lambda: chain.send(*again))
        market.hand_in(number)
        market.finish(number, dict.fromkeys(market.trainers, 1))

    def instead(market: Market) -> None:
        paid_round(market, market.trainers)

    return outcome(market, deed, instead, [cheat], market.numbers.stake)


def crowd_the_seats(market: Market) -> Outcome:
    """Registers nodes that never pass a benchmark, to fill the places a round looks at: they have
    none."""
    count, stake = len(market.evil), market.numbers.stake
    with market.attack():
        idle = [market.join(f"idle {i}", Role.TRAINER, stake) for i in range(count)]

        def deed(market: Market) -> None:
            number = market.open()
            assert int(market.state(number).n_eligible) == len(market.trainers)
            market.hand_in(number)
            market.finish(number, dict.fromkeys(market.trainers, 1))

        def instead(market: Market) -> None:
            paid_round(market, market.trainers)

        return outcome(market, deed, instead, idle, stake * count)


def arrange_the_seats(market: Market) -> Outcome:
    """Where a round has seats for a third of the trainers, rests and wakes its nodes before each
    opening, so that they lie at the other end of the list."""
    nodes, own = len(market.trainers), len(market.evil)
    seats = nodes // 3
    if not 0 < seats < nodes:
        return impossible("trainers beyond the seats")
    won = 0
    with hired(market, "sponsor of few seats", 1, max_nodes=seats):
        for opening in range(_OPENINGS):
            with market.attack():
                market.chain.wait(blocks=1 + opening)
                for player in market.evil if opening % 2 else reversed(market.evil):
                    for active in (False, True):
                        args = ("NodeRegistry", "set_active", player.node, active)
                        market.chain.send(player.operator, *args)
                place = (market.job, market.open())
                asked = ((*place, player.node) for player in market.evil)
                won += sum(market.chain.read("TrainingRounds", "is_expected", *a) for a in asked)
    return seated(market, won, own, seats)


def seated(market: Market, won: int, own: int, seats: int) -> Outcome:
    """What seats in `_OPENINGS` rounds bring beyond those of a fair draw: nothing, unless there are
    more than chance explains.

    `won`: seats that the attacker's `own` nodes had; `seats`: of a round.
    """
    terms, nodes = market.numbers.terms, len(market.trainers)
    fair = Fraction(seats * own, nodes)
    spread = sqrt(fair * (1 - Fraction(own, nodes)) * Fraction(nodes - seats, nodes - 1))
    more = Fraction(won, _OPENINGS) - fair
    cuts = terms.verifier_bps + terms.aggregator_bps
    pay = Fraction(terms.reward_per_round * (BPS - cuts), BPS * seats)
    extra = more * pay if abs(more) * sqrt(_OPENINGS) > _BY_CHANCE * spread else NOTHING
    note = f"{won / _OPENINGS:.2f} of {seats} seats, {float(fair):.2f} are fair"
    return Outcome(extra, extra, market.numbers.stake * own, note)


ATTACKS = (
    Attack("register after the draw", "training", register_after_the_draw),
    Attack("let a seed expire", "training", let_a_seed_expire),
    Attack("arrange one's nodes for the seats", "training", arrange_the_seats),
    Attack("crowd the seats with idle nodes", "training", crowd_the_seats),
)
