# SPDX-License-Identifier: Apache-2.0
"""What is set aside or held comes out once, by who may ask, to the node's payout address: also when
the registry calls back."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import logged
from tests.stage.contracts.pool import PoolStage
from tests.stage.contracts.system import Codes

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
def kept(codes: Codes, stage: PoolStage) -> tuple[PoolStage, Any]:
    """60 units are held for node 1, and 40 set aside for node 2."""
    payout, breached = (str(boa.env.generate_address(name)) for name in ("payout", "breached"))
    registry = boa.loads(REGISTRY, payout, breached)
    system = stage.system
    neighbours = (system.jobs, system.results, system.scores, system.reports)
    addresses = (c.address for c in (system.token, registry, *neighbours))
    stage.pool = codes.pool.deploy(*addresses)
    sponsor = stage.rich("sponsor")
    job = stage.add_job(sponsor)
    stage.fund(job, 100, sponsor)
    registry.arm(1, ZERO, b"")
    sender = {"sender": stage.results}
    stage.pool.reserve(job, 1, 100, **sender)
    stage.pool.start_distribution(job, 1, [], 10, [], [], **sender)
    stage.pool.distribute(job, 1, [HELD, ASIDE], [6, 4], 2, **sender)
    assert (stage.pool.held(HELD), stage.pool.set_aside(job, 1, ASIDE)) == (60, 40)
    return stage, registry


def test_release__locked_or_nothing_held__reverts(kept: tuple[PoolStage, Any]) -> None:
    stage, _ = kept
    with boa.reverts("pool: node locked"):
        stage.pool.release(HELD)
    with boa.reverts("pool: nothing held"):
        stage.pool.release(ASIDE)


@pytest.mark.parametrize("name", ["release", "settle_share"])
def test_release__reentered_by_the_registry__pays_once(
    kept: tuple[PoolStage, Any], name: str
) -> None:
    stage, registry = kept
    arguments = (HELD,) if name == "release" else (1, 1, ASIDE, False)
    registry.arm(0, stage.pool.address, getattr(stage.pool, name).prepare_calldata(*arguments))
    assert stage.pool.release(HELD) == 60
    assert stage.pool.pending(registry.payout()) == stage.pool.total_pending() == 60
    with boa.reverts("pool: nothing held"):
        stage.pool.release(HELD)


def test_settle_share__wrong_caller__reverts(kept: tuple[PoolStage, Any]) -> None:
    stage, _ = kept
    for sender in (stage.results, stage.committee, stage.jobs.sponsor_of(1)):
        with boa.reverts("pool: not reports"):
            stage.pool.settle_share(1, 1, ASIDE, False, sender=sender)


@pytest.mark.parametrize("guilty", [False, True])
def test_settle_share__reentered_by_the_registry__pays_once(
    kept: tuple[PoolStage, Any], guilty: bool
) -> None:
    stage, registry = kept
    again = stage.pool.settle_share.prepare_calldata(1, 1, ASIDE, False)
    registry.arm(3, stage.pool.address, again)
    for _ in range(2):  # the second time nothing is left
        stage.pool.settle_share(1, 1, ASIDE, guilty, sender=stage.reports)
    paid, back = (0, 40) if guilty else (40, 0)
    assert (stage.pool.pending(registry.payout()), stage.pool.carried(1)) == (paid, back)
    assert stage.pool.total_held() == stage.pool.held(HELD) == 60


def test_settle_share__nothing_kept__does_nothing(kept: tuple[PoolStage, Any]) -> None:
    """Another round, another node, a round whose pay was never started."""
    stage, _ = kept
    for place in ((1, 2, ASIDE), (1, 1, HELD), (2, 1, ASIDE)):
        stage.pool.settle_share(*place, False, sender=stage.reports)
        assert logged(stage.pool) == []
