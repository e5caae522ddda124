# SPDX-License-Identifier: Apache-2.0
"""The committee at work: five members, three needed, and what happens when they are not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENTS
from tests.stage.network import World

SETTINGS = LocalnetSettings(
    trainers=0, verifiers=1, aggregators=0, approve_roles=False, agent=AGENTS
)
POINTS = ("coordinator-before-propose", "coordinator-after-sign", "coordinator-before-execute")
PROPOSED, QUEUED = 1, 2


def _operation(world: World) -> bytes | None:
    """The only operation that was proposed, None if there is none yet."""
    head = world.network.chain.head().number
    first = world.network.deployment.block
    coordinator = world.network.coordinator
    events = world.network.chain.events(coordinator, "OperationProposed", first, head)
    assert len({event.args["op_id"] for event in events}) <= 1
    return bytes(events[0].args["op_id"]) if events else None


def _ask(world: World, question: str) -> int:
    """A figure of the operation, 0 while there is none."""
    op_id = _operation(world)
    if op_id is None:
        return 0
    return int(world.network.chain.call(world.network.coordinator, question, op_id))


def _approved(world: World) -> bool:
    node = world.network.node(world.node_id("verifier-1"))
    return bool(node.approved_roles)


def test_two_members_move_nothing_three_do(build: Callable[[LocalnetSettings], World]) -> None:
    """With three offline an approval waits, however long; with two offline it goes through. The
    third dies right after its first signature, and comes back."""
    world = build(SETTINGS)
    world.start("coordinator-1", "coordinator-2")
    world.until(lambda: _ask(world, "approvals") == 2, "two members approved")
    world.skip(3 * SETTINGS.governance_delay)
    assert _ask(world, "state") == PROPOSED
    assert not _approved(world)

    world.start("coordinator-3", crash_at="coordinator-after-sign")
    world.until(lambda: _approved(world), "the role is approved")
    assert world.crashed == ["coordinator-3"]


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_members_die_at(build: Callable[[LocalnetSettings], World], point: str) -> None:
    """All three that are there die at the point, when they come to it."""
    world = build(SETTINGS)
    world.start("coordinator-1", "coordinator-2", "coordinator-3", crash_at=point)
    world.until(lambda: _approved(world), "the role is approved")
    assert world.crashed


@pytest.mark.chaos
@pytest.mark.parametrize("state", [PROPOSED, QUEUED])
def test_all_members_are_killed_in(build: Callable[[LocalnetSettings], World], state: int) -> None:
    """Killed from outside when the operation is proposed, or approved and waiting."""
    world = build(SETTINGS)
    names = ("coordinator-1", "coordinator-2", "coordinator-3")
    world.start(*names)
    world.until(lambda: _ask(world, "state") >= state, "the operation is there")
    world.stop(*names)
    world.start(*names)
    world.until(lambda: _approved(world), "the role is approved")
