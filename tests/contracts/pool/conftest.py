# SPDX-License-Identifier: Apache-2.0
"""A funded job, three nodes with payout wallets of their own, and people of no role."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.pool import GAS_CAP, ZOO, Codes, World, compile_all, make_world

ESCROW = 100 * ZOO


@pytest.fixture(scope="session")
def codes() -> Codes:
    return compile_all()


@pytest.fixture(scope="module")
def world(codes: Codes) -> World:
    """Deployed once a module: boa's pytest plugin undoes what each test did to it."""
    return make_world(codes)


@pytest.fixture(autouse=True)
def gas_cap() -> None:
    boa.env.evm.patch.gas_limit = GAS_CAP


@pytest.fixture
def pool(world: World) -> Any:
    return world.pool


@pytest.fixture
def results(world: World) -> str:
    """The address of TrainingResults, as a sender."""
    return world.results


@pytest.fixture
def stranger(world: World) -> str:
    return world.rich("stranger")


@pytest.fixture
def sponsor(world: World) -> str:
    return world.rich("sponsor")


@pytest.fixture
def job(world: World, sponsor: str) -> int:
    """An active job with 100 ZOO in escrow."""
    job_id = world.add_job(sponsor)
    world.fund(job_id, ESCROW, sponsor)
    return job_id


@pytest.fixture
def payouts() -> list[str]:
    return [str(boa.env.generate_address(f"payout {i}")) for i in range(3)]


@pytest.fixture
def nodes(world: World, payouts: list[str]) -> list[int]:
    return [world.add_node(payout) for payout in payouts]


@pytest.fixture
def reserved(pool: Any, job: int, results: str) -> int:
    """Round 1 with 10 ZOO set aside."""
    pool.reserve(job, 1, 10 * ZOO, sender=results)
    return 1
