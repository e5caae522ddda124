# SPDX-License-Identifier: Apache-2.0
"""What attacks are made of: no refusal is claimed, and another job is gone afterwards."""

from __future__ import annotations

import pytest

from agents.protocol.numbers import ZOO
from scripts._attacks.market import Market
from scripts._attacks.plays import all_refused, hired, refused


def claim(market: Market) -> None:
    market.chain.send(market.stranger, "RewardPool", "claim")


def pass_by(market: Market) -> None:
    market.chain.wait()


def test_refused__says_why_and_counts_the_capital(market: Market) -> None:
    found = refused(market, claim, "pool: nothing to claim", 7)
    assert (found.profit, found.loss, found.capital) == (0, 0, 7)
    assert found.note == "refused: pool: nothing to claim"


def test_refused__fails_when_the_contract_lets_it_pass(market: Market) -> None:
    with pytest.raises(AssertionError, match="not refused: pool: nothing to claim"):
        refused(market, pass_by, "pool: nothing to claim", 0)


def test_refused__fails_when_there_was_another_reason(market: Market) -> None:
    with pytest.raises(AssertionError, match="'pool: nothing to claim', not with 'pool: closed'"):
        refused(market, claim, "pool: closed", 0)


def test_all_refused__fails_when_one_passes(market: Market) -> None:
    reason = "pool: nothing to claim"
    assert all_refused(market, [(reason, claim)] * 2, 0).note == f"refused: {reason}, and 1 more"
    with pytest.raises(AssertionError):
        all_refused(market, [(reason, claim), (reason, pass_by)], 0)


def test_hired__job_and_sponsor_are_back_afterwards(market: Market) -> None:
    kept = market.job, market.sponsor
    with hired(market, "another", 2, challenge_bond=20 * ZOO):
        assert market.job != kept[0] and market.sponsor != kept[1]
        asked = ("TrainingJobs", "challenge_bond", market.job)
        assert market.chain.read(*asked) == 20 * ZOO
        market.ordinary_round()
    assert (market.job, market.sponsor) == kept
    assert market.chain.read("TrainingJobs", "job_count") == kept[0]
