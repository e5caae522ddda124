# SPDX-License-Identifier: Apache-2.0
"""`forfeit_carried` gives the treasury what the last rounds of an ended job did not pay."""

from __future__ import annotations

from typing import Any

import boa

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO, PoolStage


def test_forfeit_carried__ended_job__is_the_treasurys(
    stage: PoolStage, pool: Any, job: int, reserved: int, results: str, sponsor: str, stranger: str
) -> None:
    """Anyone may send it; the sponsor gets its escrow back and nothing of what was carried."""
    pool.close(job, reserved, True, sender=results)
    with boa.reverts("pool: job not ended"):
        pool.forfeit_carried(job, sender=stranger)
    stage.end_job(job, sponsor)
    treasury = stage.registry.parameters().treasury
    assert pool.forfeit_carried(job, sender=stranger) == 10 * ZOO
    assert logged(pool) == [
        event("CarriedForfeited", job_id=job, treasury=treasury, amount=10 * ZOO)
    ]
    assert pool.pending(treasury) == pool.total_pending() == 10 * ZOO
    assert pool.carried(job) == pool.total_reserved() == pool.carried_for_trainers(job) == 0
    with boa.reverts("pool: nothing carried"):
        pool.forfeit_carried(job, sender=stranger)
    assert pool.refund(job, sender=sponsor) == 90 * ZOO


def test_forfeit_carried__a_share_that_is_settled_later__can_be_forfeited_too(
    stage: PoolStage,
    pool: Any,
    job: int,
    reserved: int,
    results: str,
    sponsor: str,
    nodes: list[int],
) -> None:
    """A report on a node of the last round ends when the job has ended already."""
    pool.start_distribution(job, reserved, [], 2, [], [], sender=results)
    pool.distribute(job, reserved, nodes[:2], [1, 1], 1, sender=results)
    pool.close(job, reserved, True, sender=results)
    stage.end_job(job, sponsor)
    with boa.reverts("pool: nothing carried"):
        pool.forfeit_carried(job)
    pool.settle_share(job, reserved, nodes[0], True, sender=stage.reports)
    assert pool.carried(job) == pool.total_reserved() == 5 * ZOO
    assert pool.forfeit_carried(job) == 5 * ZOO
    assert pool.total_reserved() == pool.total_held() == 0
