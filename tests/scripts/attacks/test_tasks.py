# SPDX-License-Identifier: Apache-2.0
"""Attacks on redundant tasks, played on the contracts, beside the closed forms."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from agents.protocol.numbers import COVER, MAX_OPEN, ZOO, Violation
from agents.tasks.deterrence import Deterrence, Parameters, deterrence
from agents.tasks.economics import drawn, pair_gain
from scripts._attacks import task_answers, task_backlog, task_draws, task_strategies, task_verdicts
from scripts._attacks.attack import Attack
from scripts._attacks.known import KNOWN
from scripts._attacks.market import Market, Numbers
from scripts._attacks.task_endings import LANES, chances, leaving
from scripts._attacks.task_pool import TaskNumbers
from scripts._attacks.tasks import ATTACKS

ALONE = TaskNumbers(audit_rate=Fraction(0), judges=0, appeals=False)
"""Nobody does anything about a fake, as in the closed forms of what a comparison finds."""

COSTS = {
    "fake what waits while honest hands are full": "creators have fakes",
    "deny the inputs of every task": "the creator's rent",
}
"""What costs honest people something at the default numbers."""


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(Numbers())


def closed_form(market: Market, numbers: TaskNumbers) -> Deterrence:
    """The formulas at the same numbers; whoever finds a fake is no friend of the cheats."""
    table = market.numbers.table
    return deterrence(
        Parameters(
            stake=market.numbers.stake,
            fee=numbers.fee_of(market),
            compute=numbers.compute_of(market),
            mismatch_bps=table[Violation.REDUNDANCY_MISMATCH].bps,
            abort_bps=table[Violation.ABORT].bps,
            collusion_bps=table[Violation.COLLUSION].bps,
            audit_rate=numbers.found_of(market),
            nodes=len(market.trainers),
        ),
        [Fraction(len(market.evil), len(market.trainers))],
    )


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack__at_the_default_numbers__pays_nobody(market: Market, attack: Attack) -> None:
    """But those that are known to pay, so that whoever makes them fail strikes them from there."""
    found = attack.play(market)
    assert (found.profit > 0) == (attack.full_name in KNOWN)
    assert (found.loss > 0) == (attack.name in COSTS)


def test_attacks__leave_the_market_as_it_was(market: Market) -> None:
    before = market.wealth(market.everybody), market.chain.now, market.chain.block
    task_verdicts.judge_ones_own_task(market)
    assert (market.wealth(market.everybody), market.chain.now, market.chain.block) == before


@pytest.mark.parametrize("fee", [2 * ZOO, ZOO + 1])
def test_fake__if_nobody_appeals__is_what_the_closed_form_says(market: Market, fee: int) -> None:
    numbers = replace(ALONE, fee=fee)
    (row,) = closed_form(market, numbers).rows
    assert task_strategies.fake(market, numbers).profit == row.fake.profit


@pytest.mark.parametrize("fee", [2 * ZOO, ZOO + 1])
@pytest.mark.parametrize("numbers", [TaskNumbers(), TaskNumbers(judges=0)])
def test_pair__is_what_the_closed_form_says(market: Market, numbers: TaskNumbers, fee: int) -> None:
    given = replace(numbers, fee=fee)
    (row,) = closed_form(market, given).rows
    assert task_strategies.pair(market, given).profit == row.pair != 0


def test_fake__with_appeals_and_samples__loses_as_the_formula_of_the_study_says(
    market: Market,
) -> None:
    """`tests/measure/studies/task_deterrence.py`, `watched_expectation`."""
    numbers = TaskNumbers()
    draw, given = chances(market), closed_form(market, numbers).parameters
    expected = (
        draw.pair * pair_gain(given.fee, given.collusion, given.audit_rate)
        - draw.framed * 2 * given.collusion
        - draw.loses * given.mismatch
    )
    assert task_strategies.fake(market, numbers).profit == expected


def test_leave__costs_each_who_leaves__and_more_than_the_bound_says(market: Market) -> None:
    """The closed form counts the first who leaves."""
    (row,) = closed_form(market, ALONE).rows
    found = task_strategies.leave(market, ALONE).profit
    draw, abort = chances(market), closed_form(market, ALONE).parameters.abort
    more = sum(((count - 1) * chance for count, chance in leaving(market)), Fraction(0))
    assert found == row.leave.profit - draw.split * more * abort
    assert more > 0


def test_leaving__its_chances_are_all_there_is(market: Market) -> None:
    """Of 3 of 9, one of them drawn beside an honest one: 5 of the 7 left are honest."""
    found = dict(leaving(market))
    assert found == {1: Fraction(5, 7), 2: Fraction(5, 21), 3: Fraction(1, 21)}
    assert sum(found.values()) == 1 and max(found) < LANES
    assert chances(market) == drawn(3, 6)


def test_pair__pays_below_the_audit_rate_that_is_needed_and_not_above(market: Market) -> None:
    needed = closed_form(market, TaskNumbers()).rate_needed
    assert needed is not None and 0 < needed < 1
    judges = len(TaskNumbers().honest_judges(market))
    below, above = (
        task_strategies.pair(market, TaskNumbers(audit_rate=needed * part / judges)).profit
        for part in (Fraction(9, 10), Fraction(11, 10))
    )
    assert below > 0 > above


@pytest.mark.parametrize("judges", [0, 2])
def test_pair__where_no_verdict_can_be_given__pays(market: Market, judges: int) -> None:
    """Nobody declares the class, or one honest verifier of three does beside the attacker's."""
    numbers = TaskNumbers(judges=judges)
    saved = 2 * chances(market).pair * numbers.compute_of(market)
    assert task_strategies.pair(market, numbers).profit == saved > 0


def test_frame__where_nobody_appeals__costs_the_victim_a_fifth(market: Market) -> None:
    found = task_verdicts.frame(market, replace(ALONE, audit_rate=Fraction(0)))
    assert (found.profit, found.loss) == (0, market.numbers.stake // 5)


@pytest.mark.parametrize("waiting", [60, 200])
def test_backlog__brings_less_than_the_stakes_however_much_waits(
    market: Market, waiting: int
) -> None:
    """A node is drawn while half of its stake covers its pay, and answers for two lanes then."""
    fee, stake = TaskNumbers().fee_of(market), market.numbers.stake
    found = task_backlog.fake_what_waits(market, TaskNumbers(), waiting)
    assert found.capital == len(market.evil) * stake
    most = len(market.evil) * (stake // COVER + MAX_OPEN * fee // 2)
    assert found.profit + found.capital <= min(waiting * fee, most)


def test_jam__costs_the_least_fee_of_every_lane_pair(market: Market) -> None:
    terms = market.settings.tasks
    found = task_draws.jam_the_pool(market)
    least = len(market.trainers) * terms.max_run_s * terms.fee_per_s
    assert -found.profit == found.capital == least


def test_silence__costs_what_losing_costs(market: Market) -> None:
    silent = task_answers.hold_the_last_reveal_back(market)
    lost = task_answers.copy_a_revealed_tag(market)
    assert silent.profit == lost.profit == -market.numbers.stake // 5
