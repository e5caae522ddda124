# SPDX-License-Identifier: Apache-2.0
"""`claim` pays the caller what is pending for it, and `refund` the sponsor what is left."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.contracts.pool.test_fund import FALSE_TOKEN
from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO, Codes, PoolStage, make_pool

# A "token" that pays nothing and asks the pool again, as its own payee.
GREEDY_TOKEN = """
# pragma version ~=0.4.3
calls: public(uint256)

interface Pool:
    def claim() -> uint256: nonpayable
    def refund(job_id: uint256) -> uint256: nonpayable

@external
def claim(pool: address):
    extcall Pool(pool).claim()

@external
def transfer(to: address, amount: uint256) -> bool:
    self.calls += 1
    extcall Pool(msg.sender).claim()
    return True

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return True
"""


@pytest.fixture
def credited(pool: Any, job: int, reserved: int, results: str, nodes: list[int]) -> int:
    """Node 1 is owed 4 ZOO, node 2 is owed 6."""
    pool.start_distribution(job, reserved, [], 10, [], [], sender=results)
    pool.distribute(job, reserved, nodes[:2], [4, 6], 0, sender=results)
    pool.close(job, reserved, sender=results)
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


def test_claim__reentered_by_the_token__reverts(codes: Codes) -> None:
    greedy = boa.loads(GREEDY_TOKEN)
    stage = make_pool(codes, pool_token=greedy)
    sponsor = stage.rich("sponsor")
    job = stage.add_job(sponsor)
    node = stage.add_node(str(greedy.address))
    results = stage.results
    stage.fund(job, 100, sponsor)
    stage.pool.reserve(job, 1, 100, sender=results)
    stage.pool.start_distribution(job, 1, [], 0, [node], [100], sender=results)
    with boa.reverts():
        greedy.claim(stage.pool.address)
    assert greedy.calls() == 0
    assert stage.pool.pending(greedy.address) == 100


def test_claim_and_refund__token_says_no__revert_and_keep_the_debt(codes: Codes) -> None:
    source = FALSE_TOKEN.replace("return False", "return True", 2).replace(
        "return True", "return False", 1
    )
    stage = make_pool(codes, pool_token=boa.loads(source))
    sponsor = stage.rich("sponsor")
    job = stage.add_job(sponsor)
    payout = str(boa.env.generate_address())
    node = stage.add_node(payout)
    results = stage.results
    stage.fund(job, 100, sponsor)
    stage.pool.reserve(job, 1, 60, sender=results)
    stage.pool.start_distribution(job, 1, [], 0, [node], [60], sender=results)
    with boa.reverts("pool: transfer failed"):
        stage.pool.claim(sender=payout)
    stage.end_job(job, sponsor)
    with boa.reverts("pool: transfer failed"):
        stage.pool.refund(job, sender=sponsor)
    assert (stage.pool.pending(payout), stage.pool.escrow(job)) == (60, 40)


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
    pool.close(job, reserved, sender=results)
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


def test_books__donation__belongs_to_nobody(
    stage: PoolStage, pool: Any, job: int, sponsor: str, stranger: str
) -> None:
    stage.token.transfer(pool.address, 77, sender=stranger)
    owed = pool.total_escrow() + pool.total_reserved() + pool.total_pending()
    assert stage.token.balanceOf(pool.address) == owed + 77
    stage.end_job(job, sponsor)
    assert pool.refund(job, sender=sponsor) == 100 * ZOO
