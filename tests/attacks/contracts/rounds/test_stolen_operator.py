# SPDX-License-Identifier: Apache-2.0
"""Who steals an operator key can't take the stake, and can have nearly all of it slashed: one stake
answers for what is committed in all jobs (docs/threat-model.md)."""

from __future__ import annotations

from dataclasses import replace

from tests.stage.contracts.rounds import make_people
from tests.stage.contracts.system import ZOO, System

JOBS = 10
LEFT = 3_273_645_375_000_000_000  # of 100 ZOO, after 5, 10, ... and 50 % of what was left


def test_stolen_operator_key__commits_in_ten_jobs__and_takes_nearly_all_of_the_stake(
    system: System,
) -> None:
    """The thief opens none of its commitments and tells on each, for a tenth of the slashes."""
    people = make_people(system, 1, [1_000 * ZOO] * 3, ["merger"], JOBS * 100 * ZOO)
    victim = people.trainers[0]
    stake = int(system.registry.bonded(victim.node_id))
    stages = [replace(people, job_id=system.job(people.sponsor, 100 * ZOO)) for _ in range(JOBS)]
    thief = system.person("thief")
    for stage in stages:
        stage.to_reveal()
    for stage in stages:
        system.time_out(stage.job_id, 1)
        system.rounds.slash_unrevealed(stage.job_id, 1, victim.node_id, sender=thief)
    left = int(system.registry.bonded(victim.node_id))
    assert abs(left * 100 * ZOO // stake - LEFT) < 100
    assert abs(int(system.registry.bounty(thief)) - (stake - left) // 10) < JOBS
    system.registry.begin_exit(victim.node_id, sender=victim.owner)
