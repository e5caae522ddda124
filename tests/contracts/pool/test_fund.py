# SPDX-License-Identifier: Apache-2.0
"""`fund` adds to the escrow of an active job, from anyone."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO, PoolStage


def test_fund__sponsor_and_stranger__add_up(
    stage: PoolStage, pool: Any, sponsor: str, stranger: str
) -> None:
    job = stage.add_job(sponsor)
    stage.fund(job, 5, sponsor)
    stage.fund(job, 7, stranger)
    assert logged(pool) == [
        event("JobFunded", job_id=job, funder=stranger, amount=7, escrow=12),
        event("Transfer", sender=stranger, receiver=pool.address, value=7),
    ]
    assert pool.escrow(job) == pool.total_escrow() == 12
    assert stage.token.balanceOf(pool.address) == 12


def test_fund__jobs__keep_apart(stage: PoolStage, pool: Any, job: int, sponsor: str) -> None:
    other = stage.add_job(sponsor)
    stage.fund(other, 3, sponsor)
    assert (pool.escrow(job), pool.escrow(other)) == (100 * ZOO, 3)
    assert pool.total_escrow() == 100 * ZOO + 3


def test_fund__without_allowance__reverts(
    stage: PoolStage, pool: Any, job: int, sponsor: str
) -> None:
    stage.token.approve(pool.address, 4, sender=sponsor)
    with boa.reverts("erc20: insufficient allowance"):
        stage.fund(job, 5, sponsor)
    assert pool.escrow(job) == 100 * ZOO
