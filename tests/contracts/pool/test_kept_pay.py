# SPDX-License-Identifier: Apache-2.0
"""What is set aside or held comes out once, by who may ask, to the node's payout address: also when
the registry calls back."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import logged
from tests.stage.contracts.pool import Codes, World, make_world

# Where nodes are paid. When its call back succeeds, it names another address.
REGISTRY = """
# pragma version ~=0.4.3

payout: public(address)
breached: public(address)
locked: public(uint256)
target: address
data: Bytes[256]

@deploy
def __init__(payout: address, breached: address):
    self.payout = payout
    self.breached = breached

@external
def arm(locked: uint256, target: address, data: Bytes[256]):
    self.locked = locked
    self.target = target
    self.data = data

@view
@external
def payees(nodes: DynArray[uint256, 128]) -> (DynArray[address, 128], uint256):
    found: address = self.payout
    if self.target != empty(address) and raw_call(
        self.target, self.data, is_static_call=True, revert_on_failure=False
    ):
        found = self.breached
    payouts: DynArray[address, 128] = []
    for node: uint256 in nodes:
        payouts.append(found)
    return payouts, self.locked
"""
ZERO = "0x" + "00" * 20
HELD, ASIDE = 1, 2  # nodes


@pytest.fixture
def kept(codes: Codes) -> tuple[World, Any]:
    """60 units are held for node 1, and 40 set aside for node 2."""
    world = make_world(codes)
    payout, breached = (str(boa.env.generate_address(name)) for name in ("payout", "breached"))
    registry = boa.loads(REGISTRY, payout, breached)
    places = (world.jobs.address, world.results, world.scores.address, world.reports)
    world.pool = codes.pool.deploy(world.token.address, registry.address, *places)
    sponsor = world.rich("sponsor")
    job = world.add_job(sponsor)
    world.token.approve(world.pool.address, 100, sender=sponsor)
    world.fund(job, 100, sponsor)
    registry.arm(1, ZERO, b"")
    sender = {"sender": world.results}
    world.pool.reserve(job, 1, 100, **sender)
    world.pool.start_distribution(job, 1, [], 10, [], [], **sender)
    world.pool.distribute(job, 1, [HELD, ASIDE], [6, 4], 2, **sender)
    assert (world.pool.held(HELD), world.pool.set_aside(job, 1, ASIDE)) == (60, 40)
    return world, registry


def test_release__locked_or_nothing_held__reverts(kept: tuple[World, Any]) -> None:
    world, _ = kept
    with boa.reverts("pool: node locked"):
        world.pool.release(HELD)
    with boa.reverts("pool: nothing held"):
        world.pool.release(ASIDE)


@pytest.mark.parametrize("name", ["release", "settle_share"])
def test_release__reentered_by_the_registry__pays_once(kept: tuple[World, Any], name: str) -> None:
    world, registry = kept
    arguments = (HELD,) if name == "release" else (1, 1, ASIDE, False)
    registry.arm(0, world.pool.address, getattr(world.pool, name).prepare_calldata(*arguments))
    assert world.pool.release(HELD) == 60
    assert world.pool.pending(registry.payout()) == world.pool.total_pending() == 60
    with boa.reverts("pool: nothing held"):
        world.pool.release(HELD)


def test_settle_share__wrong_caller__reverts(kept: tuple[World, Any]) -> None:
    world, _ = kept
    for sender in (world.results, world.committee, world.jobs.sponsor_of(1)):
        with boa.reverts("pool: not reports"):
            world.pool.settle_share(1, 1, ASIDE, False, sender=sender)


@pytest.mark.parametrize("guilty", [False, True])
def test_settle_share__reentered_by_the_registry__pays_once(
    kept: tuple[World, Any], guilty: bool
) -> None:
    world, registry = kept
    again = world.pool.settle_share.prepare_calldata(1, 1, ASIDE, False)
    registry.arm(3, world.pool.address, again)
    for _ in range(2):  # the second time nothing is left
        world.pool.settle_share(1, 1, ASIDE, guilty, sender=world.reports)
    paid, back = (0, 40) if guilty else (40, 0)
    assert (world.pool.pending(registry.payout()), world.pool.escrow(1)) == (paid, back)
    assert world.pool.total_held() == world.pool.held(HELD) == 60


def test_settle_share__nothing_kept__does_nothing(kept: tuple[World, Any]) -> None:
    """Another round, another node, a round whose pay was never started."""
    world, _ = kept
    for place in ((1, 2, ASIDE), (1, 1, HELD), (2, 1, ASIDE)):
        world.pool.settle_share(*place, False, sender=world.reports)
        assert logged(world.pool) == []
