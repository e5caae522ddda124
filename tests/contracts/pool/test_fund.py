# SPDX-License-Identifier: Apache-2.0
"""`fund` adds to the escrow of an active job, from anyone."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZERO, ZOO, Codes, World, make_world

FALSE_TOKEN = """
# pragma version ~=0.4.3
@external
def transfer(to: address, amount: uint256) -> bool:
    return False

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return False
"""


@pytest.mark.parametrize("zero", range(6))
def test_constructor__zero_address__reverts(codes: Codes, stranger: str, zero: int) -> None:
    addresses = [stranger] * 6
    addresses[zero] = ZERO
    with boa.reverts("pool: zero address"):
        codes.pool.deploy(*addresses)


def test_constructor__parts__are_public(world: World) -> None:
    assert world.pool.token() == world.token.address
    assert world.pool.registry() == world.registry.address
    assert world.pool.jobs() == world.jobs.address
    assert world.pool.results() == world.results
    assert world.pool.scores() == world.scores.address
    assert world.pool.reports() == world.reports


def test_fund__sponsor_and_stranger__add_up(
    world: World, pool: Any, sponsor: str, stranger: str
) -> None:
    job = world.add_job(sponsor)
    world.fund(job, 5, sponsor)
    world.fund(job, 7, stranger)
    assert logged(pool) == [
        event("JobFunded", job_id=job, funder=stranger, amount=7, escrow=12),
        event("Transfer", sender=stranger, receiver=pool.address, value=7),
    ]
    assert pool.escrow(job) == pool.total_escrow() == 12
    assert world.token.balanceOf(pool.address) == 12


def test_fund__jobs__keep_apart(world: World, pool: Any, job: int, sponsor: str) -> None:
    other = world.add_job(sponsor)
    world.fund(other, 3, sponsor)
    assert (pool.escrow(job), pool.escrow(other)) == (100 * ZOO, 3)
    assert pool.total_escrow() == 100 * ZOO + 3


def test_fund__without_allowance__reverts(world: World, pool: Any, job: int, sponsor: str) -> None:
    world.token.approve(pool.address, 4, sender=sponsor)
    with boa.reverts("erc20: insufficient allowance"):
        world.fund(job, 5, sponsor)
    assert pool.escrow(job) == 100 * ZOO


def test_fund__token_says_no__reverts(codes: Codes) -> None:
    world = make_world(codes, pool_token=boa.loads(FALSE_TOKEN))
    sponsor = world.rich("sponsor")
    job = world.add_job(sponsor)
    with boa.reverts("pool: transfer failed"):
        world.fund(job, 5, sponsor)
