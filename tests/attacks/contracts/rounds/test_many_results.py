# SPDX-License-Identifier: Apache-2.0
"""One aggregator proposes wrong results in many jobs at once: its stake is taken once, and each
challenge binds a bond until the committee has decided.

It loses money as long as somebody has a bond for each of them (docs/threat-model.md).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.stage.contracts.rounds import RoundStage, make_people
from tests.stage.contracts.system import ZOO, System
from tests.stage.contracts.wealth import of_player

JOBS, PAY, BOND = 8, 1_000 * ZOO, 100 * ZOO


@pytest.fixture
def jobs(system: System) -> list[RoundStage]:
    """Each job has a round in AGGREGATE, and the one aggregator is eve's. So is trainer 0."""
    people = make_people(system, 3, [1_000 * ZOO] * 3, ["eve"], JOBS * PAY)
    terms = {"reward_per_round": PAY, "challenge_bond": BOND}
    made = [replace(people, job_id=system.job(people.sponsor, PAY, **terms)) for _ in range(JOBS)]
    for stage in made:
        stage.to_aggregate()
    return made


@pytest.mark.parametrize(("bonds", "won"), [(JOBS, -1_000), (3, 5 * 1_000 - 1_000)])
def test_wrong_results_in_eight_jobs_at_once__cost_the_stake__and_pay_where_bonds_are_short(
    system: System, jobs: list[RoundStage], bonds: int, won: int
) -> None:
    """The first three that are challenged take all of the stake; the others take nothing more."""
    eve, friend = jobs[0].aggregators[0], jobs[0].trainers[0]
    before = of_player(system, eve, friend)
    for stage in jobs:
        stage.propose(1, nodes=[friend.node_id], contributions=[1])
    system.token.transfer(jobs[0].challenger, bonds * BOND, sender=system.holder)
    for stage in jobs[:bonds]:
        stage.challenge(1)
        result = system.rounds.round(stage.job_id, 1).result_hash
        resolve = (stage.job_id, 1, result, True)
        system.results.resolve_challenge(*resolve, sender=system.coordinator.address)
        # Nobody takes the bonds back before all results are out.
    for stage in jobs[bonds:]:
        system.wait_out(stage.job_id, 1)
        system.results.finalize(stage.job_id, 1, [friend.node_id], [1])
    assert of_player(system, eve, friend) - before == won * ZOO
