# SPDX-License-Identifier: Apache-2.0
"""`close` returns what a pool didn't pay, once."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO


def test_close__void_round__returns_all(pool: Any, job: int, reserved: int, results: str) -> None:
    assert pool.close(job, reserved, sender=results) == (0, 10 * ZOO)
    assert logged(pool) == [
        event("PoolClosed", job_id=job, round_id=reserved, paid=0, returned=10 * ZOO)
    ]
    assert pool.pool(job, reserved).status == 3
    assert pool.escrow(job) == pool.total_escrow() == 100 * ZOO
    assert pool.total_reserved() == 0


def test_close__after_distribution__returns_the_dust(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int]
) -> None:
    pool.start_distribution(job, reserved, [], 7, [], [], sender=results)
    pool.distribute(job, reserved, nodes, [1, 1, 5], 0, sender=results)
    paid = 2 * (10 * ZOO // 7) + 50 * ZOO // 7
    assert pool.close(job, reserved, sender=results) == (paid, 10 * ZOO - paid)
    assert pool.escrow(job) == 100 * ZOO - paid
    assert pool.total_reserved() == 0
    assert pool.total_pending() == paid
