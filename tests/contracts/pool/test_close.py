# SPDX-License-Identifier: Apache-2.0
"""`close` gives what a pool didn't pay to the escrow or to the job's next round, once."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO


def test_close__round_without_a_result__returns_all(
    pool: Any, job: int, reserved: int, results: str
) -> None:
    assert pool.close(job, reserved, False, sender=results) == (0, 10 * ZOO)
    assert logged(pool) == [
        event("PoolClosed", job_id=job, round_id=reserved, paid=0, returned=10 * ZOO)
    ]
    assert pool.pool(job, reserved).status == 3
    assert pool.escrow(job) == pool.total_escrow() == 100 * ZOO
    assert pool.total_reserved() == 0


def test_close__void_round_with_a_result__carries_all(
    pool: Any, job: int, reserved: int, results: str
) -> None:
    assert pool.close(job, reserved, True, sender=results) == (0, 10 * ZOO)
    assert logged(pool) == [
        event("PoolClosed", job_id=job, round_id=reserved, paid=0, returned=0),
        event("PayCarried", job_id=job, round_id=reserved, amount=10 * ZOO, for_trainers=0),
    ]
    assert pool.pool(job, reserved).status == 3
    assert pool.carried(job) == pool.total_reserved() == 10 * ZOO
    assert pool.escrow(job) == pool.total_escrow() == 90 * ZOO
    pool.reserve(job, 2, 30 * ZOO, sender=results)
    assert logged(pool) == [event("PoolReserved", job_id=job, round_id=2, amount=40 * ZOO)]
    assert pool.pool(job, 2).amount == pool.total_reserved() == 40 * ZOO
    assert (pool.carried(job), pool.escrow(job)) == (0, 60 * ZOO)


def test_close__second_round_without_a_result__keeps_the_carry(
    pool: Any, job: int, reserved: int, results: str
) -> None:
    """Attack: spoil a round, then open one that nobody works in, and take all of it back."""
    pool.close(job, reserved, True, sender=results)
    pool.reserve(job, 2, 30 * ZOO, sender=results)
    assert pool.close(job, 2, False, sender=results) == (0, 40 * ZOO)
    assert logged(pool) == [
        event("PoolClosed", job_id=job, round_id=2, paid=0, returned=30 * ZOO),
        event("PayCarried", job_id=job, round_id=2, amount=10 * ZOO, for_trainers=0),
    ]
    assert pool.carried(job) == pool.total_reserved() == 10 * ZOO
    assert pool.escrow(job) == pool.total_escrow() == 90 * ZOO


def test_reserve__carry_but_no_escrow__reverts(pool: Any, job: int, results: str) -> None:
    """What is carried comes on top of a round's reward, never in its place."""
    pool.reserve(job, 1, 100 * ZOO, sender=results)
    pool.close(job, 1, True, sender=results)
    with boa.reverts("pool: escrow too low"):
        pool.reserve(job, 2, 1, sender=results)


def test_close__after_distribution__carries_the_dust(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int]
) -> None:
    pool.start_distribution(job, reserved, [], 7, [], [], sender=results)
    pool.distribute(job, reserved, nodes, [1, 1, 5], 0, sender=results)
    paid = 2 * (10 * ZOO // 7) + 50 * ZOO // 7
    assert pool.close(job, reserved, True, sender=results) == (paid, 10 * ZOO - paid)
    assert pool.escrow(job) == 90 * ZOO
    assert pool.carried(job) == pool.total_reserved() == 10 * ZOO - paid
    assert pool.total_pending() == paid
    # It stays the trainers' through a void round, whose own pool is cut as ever.
    pool.reserve(job, 2, 30 * ZOO, sender=results)
    assert pool.pool(job, 2).for_trainers == 10 * ZOO - paid
    pool.close(job, 2, True, sender=results)
    assert pool.carried(job) == 40 * ZOO - paid
    pool.reserve(job, 3, 30 * ZOO, sender=results)
    assert pool.pool(job, 3).amount == 70 * ZOO - paid
    assert pool.pool(job, 3).for_trainers == 10 * ZOO - paid
    assert pool.carried_for_trainers(job) == 0
