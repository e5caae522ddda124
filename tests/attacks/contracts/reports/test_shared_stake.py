# SPDX-License-Identifier: Apache-2.0
"""All roles of a node share its stake: what is taken for one of them may take the voice of another.

A verifier below the minimum stake is no voter, and no part of the denominator either. The protocol
can't prevent it (docs/threat-model.md): a verifier that trains or runs tasks does so with a node of
its own, or bonds more than the minimum.
"""

from __future__ import annotations

import pytest

from tests.stage.contracts.rounds import RoundStage, make_people
from tests.stage.contracts.system import INVALID, REWARD, TRAINER, VERIFIER, ZOO, Player, System

LEAST = 100 * ZOO  # of a verifier here
OPEN, CONFIRMED = 1, 2


def lose_a_reveal(stage: RoundStage, player: Player) -> None:
    """A round in which a verifier that also trains is cut off after it has committed."""
    system = stage.system
    roles = VERIFIER | TRAINER
    system.registry.set_roles(player.node_id, roles, sender=player.owner)
    system.benchmark(player, stage.verifiers[1])
    round_id = stage.to_reveal([player])
    system.time_out(stage.job_id, round_id)
    system.rounds.slash_unrevealed(stage.job_id, round_id, player.node_id)


@pytest.mark.parametrize(("more", "status"), [(0, CONFIRMED), (6 * ZOO, OPEN)])
def test_verifier_that_trains_and_is_cut_off_once__has_no_voice_unless_it_has_more_than_the_minimum(
    system: System, more: int, status: int
) -> None:
    """Two of four verifiers are evil, which is half of the weight, and convict nobody. An honest
    one loses 5 of 100 ZOO for a reveal: the two are two thirds of what is left. With 6 ZOO more it
    has its voice."""
    names = ["aggregator 0", "aggregator 1"]
    stage = make_people(system, 3, [LEAST + more, *[LEAST] * 3], names, 100 * REWARD)
    stage.job_id = system.job(stage.sponsor)
    lose_a_reveal(stage, stage.verifiers[0])
    round_id = stage.to_challenge()
    report = stage.report(round_id, stage.trainers[1], INVALID, *stage.verifiers[2:])
    assert system.reports.report_of(report).status == status
