# SPDX-License-Identifier: Apache-2.0
"""`claim` pays the caller what is pending for it, and `refund` the sponsor what is left."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.intruder import Intruder
from tests.stage.contracts.pool import ZOO, PoolStage


@pytest.fixture
def credited(pool: Any, job: int, reserved: int, results: str, nodes: list[int]) -> int:
    """Node 1 is owed 4 ZOO, node 2 is owed 6."""
    pool.start_distribution(job, reserved, [], 10, [], [], sender=results)
    pool.distribute(job, reserved, nodes[:2], [4, 6], 0, sender=results)
    pool.close(job, reserved, True, sender=results)
    return reserved


def test_claim__payout__gets_its_own_and_no_more(
    stage: PoolStage, pool: Any, credited: int, payouts: list[str]
) -> None:
    assert pool.claim(sender=payouts[0]) == 4 * ZOO
    assert logged(pool) == [
        event("RewardClaimed", account=payouts[0], amount=4 * ZOO),
        event("Transfer", sender=pool.address, receiver=payouts[0], value=4 * ZOO),
    ]
    assert stage.token.balanceOf(payouts[0]) == 4 * ZOO
    assert [pool.pending(payout) for payout in payouts] == [0, 6 * ZOO, 0]
    assert pool.total_pending() == 6 * ZOO


def test_claim__twice_or_nothing__reverts(
    pool: Any, credited: int, payouts: list[str], stranger: str
) -> None:
    pool.claim(sender=payouts[0])
    for sender in (payouts[0], payouts[2], stranger):
        with boa.reverts("pool: nothing to claim"):
            pool.claim(sender=sender)


def test_claim__after_the_job_ended_and_was_refunded__still_works(
    stage: PoolStage, pool: Any, job: int, credited: int, payouts: list[str], sponsor: str
) -> None:
    stage.end_job(job, sponsor)
    pool.refund(job, sender=sponsor)
    assert pool.claim(sender=payouts[1]) == 6 * ZOO


def test_claim__pending_survives_a_change_of_payout(
    stage: PoolStage, pool: Any, credited: int, nodes: list[int], payouts: list[str], stranger: str
) -> None:
    """What was credited belongs to the old wallet: a node's owner can't redirect it."""
    stage.registry.set_payout(nodes[0], stranger, sender=stage.holder)
    with boa.reverts("pool: nothing to claim"):
        pool.claim(sender=stranger)
    assert pool.claim(sender=payouts[0]) == 4 * ZOO


def test_claim__reentered_by_the_token__pays_once(
    stage: PoolStage, pool: Any, job: int, reserved: int, results: str
) -> None:
    """Attack: the payee is told of its payment, and claims again."""
    intruder = Intruder(pool, "claim", (), (stage.token, ("transfer",)))
    payee = str(intruder.striker.address)
    pool.start_distribution(job, reserved, [], 0, [stage.add_node(payee)], [100], sender=results)
    assert intruder.locked_out(lambda: pool.claim(sender=payee), 1) == 100
    assert (stage.token.balanceOf(payee), pool.pending(payee)) == (100, 0)


def test_refund__ended_job__pays_the_sponsor(
    stage: PoolStage, pool: Any, job: int, sponsor: str
) -> None:
    before = stage.token.balanceOf(sponsor)
    stage.end_job(job, sponsor)
    assert pool.refund(job, sender=sponsor) == 100 * ZOO
    assert logged(pool) == [
        event("EscrowRefunded", job_id=job, sponsor=sponsor, amount=100 * ZOO),
        event("Transfer", sender=pool.address, receiver=sponsor, value=100 * ZOO),
    ]
    assert stage.token.balanceOf(sponsor) == before + 100 * ZOO
    assert pool.escrow(job) == pool.total_escrow() == 0


def test_refund__leaves_an_open_pool_alone_and_comes_again(
    stage: PoolStage, pool: Any, job: int, reserved: int, results: str, sponsor: str
) -> None:
    stage.end_job(job, sponsor)
    assert pool.refund(job, sender=sponsor) == 90 * ZOO
    with boa.reverts("pool: nothing to refund"):
        pool.refund(job, sender=sponsor)
    pool.close(job, reserved, False, sender=results)
    assert pool.refund(job, sender=sponsor) == 10 * ZOO


def test_refund__others_escrow__stays(stage: PoolStage, pool: Any, job: int, sponsor: str) -> None:
    other_sponsor = stage.rich("other sponsor")
    other = stage.add_job(other_sponsor)
    stage.fund(other, 5, other_sponsor)
    stage.end_job(job, sponsor)
    pool.refund(job, sender=sponsor)
    assert pool.escrow(other) == pool.total_escrow() == 5


@pytest.mark.parametrize("role", ["stranger", "deployer", "committee", "results"])
def test_refund__anyone_but_the_sponsor__reverts(
    stage: PoolStage, pool: Any, job: int, sponsor: str, stranger: str, role: str
) -> None:
    """Whoever funded the job too: only its sponsor gets the escrow."""
    stage.fund(job, 1, stranger)
    stage.end_job(job, sponsor)
    sender = {
        "stranger": stranger,
        "deployer": str(boa.env.eoa),
        "committee": stage.committee,
        "results": stage.results,
    }[role]
    with boa.reverts("pool: not sponsor"):
        pool.refund(job, sender=sender)
