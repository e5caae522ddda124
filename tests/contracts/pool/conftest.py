# SPDX-License-Identifier: Apache-2.0
"""A funded job, three nodes with payout wallets of their own, and people of no role."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boa
import pytest

from tests.stage.contracts.pool import ZOO, PoolStage, make_pool
from tests.stage.contracts.system import Codes, System, deploy

ESCROW = 100 * ZOO


@pytest.fixture(scope="module")
def made(codes: Codes) -> PoolStage:
    return make_pool(deploy(codes))


@pytest.fixture
def stage(made: PoolStage, system: System) -> PoolStage:
    return replace(made, system=system)


@pytest.fixture
def pool(stage: PoolStage) -> Any:
    return stage.pool


@pytest.fixture
def results(stage: PoolStage) -> str:
    """The address of TrainingResults, as a sender."""
    return stage.results


@pytest.fixture
def stranger(stage: PoolStage) -> str:
    return stage.rich("stranger")


@pytest.fixture
def sponsor(stage: PoolStage) -> str:
    return stage.rich("sponsor")


@pytest.fixture
def job(stage: PoolStage, sponsor: str) -> int:
    """An active job with 100 ZOO in escrow."""
    job_id = stage.add_job(sponsor)
    stage.fund(job_id, ESCROW, sponsor)
    return job_id


@pytest.fixture
def payouts() -> list[str]:
    return [str(boa.env.generate_address(f"payout {i}")) for i in range(3)]


@pytest.fixture
def nodes(stage: PoolStage, payouts: list[str]) -> list[int]:
    return [stage.add_node(payout) for payout in payouts]


@pytest.fixture
def reserved(pool: Any, job: int, results: str) -> int:
    """Round 1 with 10 ZOO set aside."""
    pool.reserve(job, 1, 10 * ZOO, sender=results)
    return 1
