# SPDX-License-Identifier: Apache-2.0
"""A node that is banned in the middle of a round, and would propose the round's result."""

from __future__ import annotations

import pytest
from eth_utils import keccak

from tests.stage.contracts.clock import now
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import INVALID, REPEATED, ZERO, refuses
from tests.stage.contracts.wealth import of_player

WRONG = keccak(text="a model that nobody trained")


@pytest.mark.parametrize("violation", [REPEATED, INVALID])
def test_convicted_aggregator__on_duty__proposes_no_result(
    stage: RoundStage, violation: int
) -> None:
    """It is convicted in another job, of which it may have lost its whole stake. A wrong result
    then cost it nothing (200 of 1,000 ZOO before the ban), whoever found it got nothing (100), and
    the round stood for a dispute, in each job in which it was on duty. Others propose instead, in
    the fallback window, and are paid."""
    system, round_id = stage.system, stage.to_aggregate()
    liar = system.on_duty(stage.job_id, round_id)
    other = next(player for player in stage.aggregators if player != liar)
    slasher = system.reports.address
    system.registry.slash(liar.node_id, violation, now(), ZERO, sender=slasher)
    with refuses("results: not operator"):
        stage.propose(round_id, liar, model=WRONG)
    system.time_out(stage.job_id, round_id)
    with refuses("results: not operator"):
        stage.propose(round_id, liar, model=WRONG)
    before = of_player(system, other)
    stage.propose(round_id, other)
    stage.attest(round_id)
    stage.finalize()
    assert of_player(system, other) > before
