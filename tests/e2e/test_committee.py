# SPDX-License-Identifier: Apache-2.0
"""The committee at work: five members, three needed, and what happens when they are not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agents.runtime.logs import open_log
from agents.runtime.sender import Sender
from agents.runtime.wallet import Wallet
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENTS
from tests.stage.network import LocalNetwork

SETTINGS = LocalnetSettings(
    trainers=0, verifiers=1, aggregators=0, approve_roles=False, agent=AGENTS
)
POINTS = ("coordinator-before-propose", "coordinator-after-sign", "coordinator-before-execute")
PROPOSED, QUEUED = 1, 2


def _operation(local: LocalNetwork) -> bytes | None:
    """The only operation that agents proposed, None if there is none yet."""
    head = local.network.chain.head().number
    first = local.network.deployment.block
    coordinator = local.network.coordinator
    events = local.network.chain.events(coordinator, "OperationProposed", first, head)
    events = [event for event in events if event.args["target"] != coordinator.address]
    assert len({event.args["op_id"] for event in events}) <= 1
    return bytes(events[0].args["op_id"]) if events else None


def _ask(local: LocalNetwork, question: str) -> int:
    """A figure of the operation, 0 while there is none."""
    op_id = _operation(local)
    if op_id is None:
        return 0
    return int(local.network.chain.call(local.network.coordinator, question, op_id))


def _approved(local: LocalNetwork) -> bool:
    node = local.network.node(local.node_id("verifier-1"))
    return bool(node.approved_roles)


def _sender(local: LocalNetwork, name: str) -> Sender:
    """What a person sends with a member's key."""
    wallet = Wallet(local.net.seats[name].operator)
    chain = local.network.chain
    return Sender(chain, wallet, local.network.deployment.chain_id, open_log(name))


def test_two_members_move_nothing_three_do(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    """With three offline an approval waits, however long; with two offline it goes through. The
    third dies right after its first signature, and comes back."""
    local = build(SETTINGS)
    local.start("coordinator-1", "coordinator-2")
    local.until(lambda: _ask(local, "approvals") == 2, "two members approved")
    local.skip(3 * SETTINGS.governance_delay)
    assert _ask(local, "state") == PROPOSED
    assert not _approved(local)

    local.start("coordinator-3", crash_at="coordinator-after-sign")
    local.until(lambda: _approved(local), "the role is approved")
    assert local.crashed == ["coordinator-3"]


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_members_die_at(build: Callable[[LocalnetSettings], LocalNetwork], point: str) -> None:
    """All three that are there die at the point, when they come to it."""
    local = build(SETTINGS)
    local.start("coordinator-1", "coordinator-2", "coordinator-3", crash_at=point)
    local.until(lambda: _approved(local), "the role is approved")
    assert local.crashed


@pytest.mark.chaos
@pytest.mark.parametrize("state", [PROPOSED, QUEUED])
def test_all_members_are_killed_in(
    build: Callable[[LocalnetSettings], LocalNetwork], state: int
) -> None:
    """Killed from outside when the operation is proposed, or approved and waiting."""
    local = build(SETTINGS)
    names = ("coordinator-1", "coordinator-2", "coordinator-3")
    local.start(*names)
    local.until(lambda: _ask(local, "state") >= state, "the operation is there")
    local.stop(*names)
    local.start(*names)
    local.until(lambda: _approved(local), "the role is approved")


def test_a_queued_operation_that_lost_its_quorum_is_approved_anew(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    """Three of five have approved; before it is carried out four are needed. Until 2026-11-30
    members tried to execute it in each of their steps, and did nothing else."""
    delay = 600
    local = build(replace(SETTINGS, governance_delay=delay))
    names = [f"coordinator-{number}" for number in range(1, 5)]
    local.start(*names[:3])
    local.until(lambda: _ask(local, "state") == QUEUED, "three members approved")
    local.stop(*names[:3])
    by_hand = [_sender(local, name) for name in names[:3]]
    contract, chain = local.network.coordinator, local.network.chain
    everybody = chain.call(contract, "members")
    data = contract.function("set_members", 2).encode((everybody, 4))
    call = contract.address, data, bytes(32)
    by_hand[0].send(contract, "propose", *call)
    more = chain.call(contract, "operation_id", *call)
    for one in by_hand[1:]:
        one.send(contract, "approve", more)
    local.skip(delay)
    by_hand[0].send(contract, "execute", more)
    assert (_ask(local, "approvals"), chain.call(contract, "threshold")) == (3, 4)
    assert _ask(local, "state") == QUEUED and not _approved(local)

    local.start(*names)
    local.until(lambda: _ask(local, "approvals") == 4, "the fourth approved as well")
    assert not _approved(local), "it waits its delay anew"
    local.skip(delay)
    local.until(lambda: _approved(local), "the role is approved")
