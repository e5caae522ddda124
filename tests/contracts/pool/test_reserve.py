# SPDX-License-Identifier: Apache-2.0
"""`reserve` sets a round's pool aside, once, from what the escrow holds."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import logged
from tests.stage.contracts.pool import ZOO, World


def test_reserve__escrow__becomes_the_pool(pool: Any, job: int, results: str) -> None:
    pool.reserve(job, 1, 30 * ZOO, sender=results)
    assert logged(pool) == [("PoolReserved", {"job_id": job, "round_id": 1, "amount": 30 * ZOO})]
    assert tuple(pool.pool(job, 1)) == (30 * ZOO, 0, 0, 0, 0, 0, 1, False)
    assert pool.escrow(job) == pool.total_escrow() == 70 * ZOO
    assert pool.total_reserved() == 30 * ZOO


def test_reserve__whole_escrow__is_allowed_and_then_no_more(
    pool: Any, job: int, results: str
) -> None:
    pool.reserve(job, 1, 100 * ZOO, sender=results)
    with boa.reverts("pool: escrow too low"):
        pool.reserve(job, 2, 1, sender=results)


def test_reserve__same_round_again__reverts(
    pool: Any, job: int, reserved: int, results: str
) -> None:
    with boa.reverts("pool: already reserved"):
        pool.reserve(job, reserved, 1, sender=results)
    pool.close(job, reserved, sender=results)
    with boa.reverts("pool: already reserved"):
        pool.reserve(job, reserved, 1, sender=results)


def test_reserve__another_jobs_escrow__is_out_of_reach(
    world: World, pool: Any, job: int, results: str, sponsor: str
) -> None:
    poor = world.add_job(sponsor)
    with boa.reverts("pool: escrow too low"):
        pool.reserve(poor, 1, 1, sender=results)


@pytest.mark.parametrize("role", ["deployer", "sponsor", "stranger", "committee", "payout"])
def test_settlement__anyone_but_results__reverts(
    world: World,
    pool: Any,
    job: int,
    reserved: int,
    nodes: list[int],
    payouts: list[str],
    deployer: str,
    sponsor: str,
    stranger: str,
    role: str,
) -> None:
    sender = {
        "deployer": deployer,
        "sponsor": sponsor,
        "stranger": stranger,
        "committee": world.committee,
        "payout": payouts[0],
    }[role]
    with boa.reverts("pool: not results"):
        pool.reserve(job, 2, 1, sender=sender)
    with boa.reverts("pool: not results"):
        pool.start_distribution(job, reserved, 1, nodes[:1], [1], sender=sender)
    with boa.reverts("pool: not results"):
        pool.distribute(job, reserved, nodes[:1], [1], 0, sender=sender)
    with boa.reverts("pool: not results"):
        pool.close(job, reserved, sender=sender)
