# SPDX-License-Identifier: Apache-2.0
"""Attacks on a sponsor's money between creating a job and funding it, and jobs that are traps."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.events import logged
from tests.stage.contracts.pool import PoolStage
from tests.stage.contracts.system import BOND, BOUNDS, TERMS, ZOO, terms_tuple


def test_thief_creates_a_job_first__the_victims_money__stays_its_own(
    stage: PoolStage, stranger: str
) -> None:
    """The victim takes the id of its job from the count of jobs. A thief has created a job right
    after, is funded with 5,000 ZOO, cancels and is refunded."""
    victim = stage.rich("victim", 5_000 * ZOO)
    mine = stage.add_job(victim)
    stage.add_job(stranger)
    taken = stage.jobs.job_count()
    thief = stage.token.balanceOf(stranger)
    with boa.reverts("pool: another job"):
        stage.pool.fund(taken, victim, TERMS["spec"], 5_000 * ZOO, sender=victim)
    stage.pool.fund(mine, victim, TERMS["spec"], 5_000 * ZOO, sender=victim)
    stage.jobs.cancel_job(taken, sender=stranger)
    with boa.reverts("pool: nothing to refund"):
        stage.pool.refund(taken, sender=stranger)
    assert stage.token.balanceOf(stranger) == thief
    stage.jobs.cancel_job(mine, sender=victim)
    stage.pool.refund(mine, sender=victim)
    assert stage.token.balanceOf(victim) == 5_000 * ZOO


def test_own_job_for_another_spec__is_not_funded(stage: PoolStage, sponsor: str) -> None:
    """After a reorganisation two jobs of one sponsor have changed their ids."""
    job = stage.add_job(sponsor)
    with boa.reverts("pool: another job"):
        stage.pool.fund(job, sponsor, b"\x09" * 32, ZOO, sender=sponsor)


@pytest.mark.parametrize("bond", [0, 1, BOUNDS[0] - 1, BOUNDS[1] + 1, 2**128 - 1, 2**256 - 1])
def test_bond_as_a_wall__or_as_nothing__is_refused(
    stage: PoolStage, sponsor: str, bond: int
) -> None:
    """No honest challenger has a bond above the supply, so the aggregator on duty pays itself
    everything; for a bond of one unit a round is stopped for nothing."""
    with boa.reverts("jobs: bad bond"):
        stage.jobs.create_job(terms_tuple(challenge_bond=bond), sender=sponsor)


@pytest.mark.parametrize("reward", [0, 1, BOUNDS[2] - 1])
def test_free_job__is_refused(stage: PoolStage, sponsor: str, reward: int) -> None:
    """A job with reward 0 and many rounds keeps agents busy for ever, and anyone opens its rounds
    before its sponsor has adopted the consensus."""
    with boa.reverts("jobs: reward too low"):
        stage.jobs.create_job(terms_tuple(reward_per_round=reward), sender=sponsor)


def test_round_of_an_unfunded_job__cannot_be_reserved(
    stage: PoolStage, sponsor: str, results: str
) -> None:
    """So nobody opens a round before the sponsor has adopted and funded."""
    job = stage.add_job(sponsor)
    with boa.reverts("pool: escrow too low"):
        stage.pool.reserve(job, 1, BOUNDS[2], sender=results)


def test_bounds__changed_by_the_owner__hold_for_new_jobs(stage: PoolStage, sponsor: str) -> None:
    old = stage.add_job(sponsor)
    bounds = (5 * ZOO, 6 * ZOO, 7 * ZOO, 8)
    stage.jobs.set_bounds(bounds, sender=stage.committee)
    assert logged(stage.jobs) == [
        ("BoundsChanged", {"old_bounds": BOUNDS, "new_bounds": bounds}),
    ]
    assert tuple(stage.jobs.bounds()) == bounds
    with boa.reverts("jobs: reward too low"):
        stage.add_job(sponsor)
    rich = {"challenge_bond": 5 * ZOO, "reward_per_round": 7 * ZOO}
    with boa.reverts("jobs: bad retention"):
        stage.jobs.create_job(terms_tuple(**rich, retain_rounds=7), sender=sponsor)
    new = stage.jobs.create_job(terms_tuple(**rich, retain_rounds=8), sender=sponsor)
    assert (old, new) == (1, 2)
    assert stage.jobs.job(old).terms.challenge_bond == BOND


@pytest.mark.parametrize(
    "bounds",
    [(0, 1, 1, 0), (2, 1, 1, 0), (1, 2**128, 1, 0), (1, 1, 0, 0), (1, 1, 2**128, 0), (1, 1, 1, 33)],
)
def test_set_bounds__bad__reverts(stage: PoolStage, bounds: tuple[int, ...]) -> None:
    with boa.reverts("jobs: bad bounds"):
        stage.jobs.set_bounds(bounds, sender=stage.committee)


def test_set_bounds__by_a_sponsor__reverts(stage: PoolStage, sponsor: str) -> None:
    with boa.reverts("ownable: caller is not the owner"):
        stage.jobs.set_bounds((1, 2, 3, 4), sender=sponsor)
