# SPDX-License-Identifier: Apache-2.0
"""The market that attacks are played on: its rounds pay by the protocol, its numbers are set."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from agents.jobs.publish import Terms
from agents.protocol.formulas import split
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS
from scripts._attacks.market import Market, Numbers
from scripts._attacks.plays import hired


def test_ordinary_round__pays_each_party_to_the_unit(market: Market) -> None:
    with market.attack():
        number = market.train()
        duty = market.on_duty(number)
        arrays = market.propose(number, {p: 1 + i for i, p in enumerate(market.trainers)})
        market.attest(number, market.verifiers)
        before = {p: market.wealth([p]) for p in market.everybody}
        market.finalize(number, arrays)
        gained = {p: market.wealth([p]) - before[p] for p in market.everybody}
    terms, stake = market.numbers.terms, market.numbers.verifier_stake
    weights = {v.node: stake for v in market.verifiers}
    contributions = dict(zip(*arrays, strict=True))
    cuts = terms.reward_per_round, terms.verifier_bps, terms.aggregator_bps
    due = split(*cuts, duty.node, weights, contributions)
    for node, amount in (*due.cuts, *due.shares.items()):
        player = next(p for p in gained if not isinstance(p, str) and p.node == node)
        assert gained[player] == amount, player.name
    dust = terms.reward_per_round - sum(a for _, a in due.cuts) - sum(due.shares.values())
    assert gained[market.sponsor] == dust and sum(gained.values()) == terms.reward_per_round
    assert gained[market.stranger] == 0


def test_attack__leaves_nothing_behind(market: Market) -> None:
    before = [market.wealth([one]) for one in market.everybody]
    with market.attack():
        market.ordinary_round()
        assert [market.wealth([one]) for one in market.everybody] != before
    assert [market.wealth([one]) for one in market.everybody] == before
    assert market.chain.read("TrainingJobs", "rounds_opened", market.job) == 0


def test_attackers__are_no_more_than_their_share() -> None:
    assert (Numbers().evil_nodes, Numbers().evil_verifiers) == (3, 1)
    few = Numbers(nodes=2, verifiers=2)
    assert (few.evil_nodes, few.evil_verifiers) == (1, 0)


def test_penalty_that_differs__is_set_in_the_registry() -> None:
    row = replace(DEFAULTS[Violation.INVALID], bps=1_234)
    strict = Market(Numbers(nodes=3, table={**DEFAULTS, Violation.INVALID: row}))
    kept = strict.chain.read("NodeRegistry", "penalty", int(Violation.INVALID))
    assert astuple(row) == (
        kept.bps,
        kept.escalation_bps,
        kept.suspension,
        kept.strike,
        kept.ban,
        kept.reporter_bps,
    )


@pytest.mark.parametrize("retain", [0, 2])
def test_wealth__counts_pay_that_a_job_retains(retain: int) -> None:
    small = Market(Numbers(nodes=3, terms=Terms(retain_rounds=retain)))
    player = small.trainers[0]
    with small.attack():
        before = small.wealth([player])
        small.ordinary_round()
        kept = int(small.chain.read("RewardPool", "retained", small.job, player.node))
        assert (kept > 0) == (retain > 0)
        assert small.wealth([player]) - before == pytest.approx(850 * ZOO // 3, abs=2)


def test_round_with_fewer_seats_than_trainers__seats_as_many(market: Market) -> None:
    with hired(market, "sponsor of four seats", 1, max_nodes=4):
        number = market.open()
        asked = ((market.job, number, p.node) for p in market.trainers)
        seated = [market.chain.read("TrainingRounds", "is_expected", *at) for at in asked]
        assert sum(seated) == int(market.state(number).n_eligible) == 4
