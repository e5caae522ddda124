# SPDX-License-Identifier: Apache-2.0
"""`reserve` sets a round's pool aside, once, from what the escrow holds."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO, PoolStage


def test_reserve__escrow__becomes_the_pool(pool: Any, job: int, results: str) -> None:
    pool.reserve(job, 1, 30 * ZOO, sender=results)
    assert logged(pool) == [event("PoolReserved", job_id=job, round_id=1, amount=30 * ZOO)]
    assert tuple(pool.pool(job, 1)) == (30 * ZOO, 0, 0, 0, 0, 0, 0, 1, False)
    assert pool.escrow(job) == pool.total_escrow() == 70 * ZOO
    assert pool.total_reserved() == 30 * ZOO


def test_reserve__whole_escrow__is_allowed_and_then_no_more(
    pool: Any, job: int, results: str
) -> None:
    pool.reserve(job, 1, 100 * ZOO, sender=results)
    with boa.reverts("pool: escrow too low"):
        pool.reserve(job, 2, 1, sender=results)


@pytest.fixture
def others(
    stage: PoolStage, job: int, deployer: str, stranger: str, payouts: list[str]
) -> dict[str, str]:
    """Who is not TrainingResults."""
    people = {"deployer": deployer, "stranger": stranger, "committee": stage.committee}
    return people | {"sponsor": stage.jobs.sponsor_of(job), "payout": payouts[0]}


@pytest.mark.parametrize("role", ["deployer", "sponsor", "stranger", "committee", "payout"])
def test_settlement__anyone_but_results__reverts(
    pool: Any, job: int, reserved: int, nodes: list[int], others: dict[str, str], role: str
) -> None:
    for function, arguments in (
        (pool.reserve, (2, 1)),
        (pool.start_distribution, (reserved, [], 1, nodes[:1], [1])),
        (pool.distribute, (reserved, nodes[:1], [1], 0)),
        (pool.close, (reserved, True)),
    ):
        with boa.reverts("pool: not results"):
            function(job, *arguments, sender=others[role])
