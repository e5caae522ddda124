# SPDX-License-Identifier: Apache-2.0
"""An operation that the chain leaves standing is moved on by the committee's agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.coordinator import Coordinator
from agents.protocol.numbers import OperationState
from agents.verify.rulings import Ruling, role_rulings
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.committee import deeds, seated
from tests.stage.chain.people import STAKES, VERIFIER, Call, People, found

BY_MEMBERS = b"\1".rjust(32, b"\0")
"""The salt of what members change by hand."""


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        people = found(anvil.url, ())
        people.enlist("grace", VERIFIER, owner=people.person("owner", STAKES[VERIFIER]))
        people.chain.warp(people.settings.routine_delay)
        people.chain.mine()
        yield people


@pytest.fixture
def people(base: People) -> Iterator[People]:
    snapshot = base.chain.snapshot()
    yield replace(base, nodes=dict(base.nodes), start=dict(base.start))
    base.chain.revert(snapshot)


@pytest.fixture
def committee(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Coordinator]]:
    """All five members, at one moment: whose turn is not the first one waits."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr("agents.runtime.one_by_one.time.monotonic", lambda: 1_000.0)
    with ExitStack() as stack:
        yield seated(people, tmp_path, stack, 1.0)


def ruling_of(people: People, member: Coordinator) -> Ruling:
    """That grace, whose owner members trust, is a verifier."""
    owner = people.nodes["grace"].owner.address
    (ruling,) = role_rulings(member.network, [owner], member.context.chain.head())
    return ruling


def by_hand(people: People, member: int, function: str, *args: Any) -> None:
    people.chain._nonces.clear()  # the member's agent sends with the same key
    people.chain.send(people.members[member], people.coordinator, function, *args)


def decided(people: People, call: Call) -> None:
    """Three members carry a call out by hand, in the governance delay."""
    people.chain._nonces.clear()
    people.decide(call, salt=BY_MEMBERS, governance=True)


def sent(committee: Sequence[Coordinator], ruling: Ruling) -> list[str]:
    """What members send for a ruling now, one after the other."""
    done = []
    for member, deed in deeds(committee, ruling):
        member.context.sender.send_all([deed.order])
        done.append(deed.order.function)
    return done


def pass_time(people: People, seconds: int) -> None:
    people.chain.warp(seconds + 1)
    people.chain.mine()


def test_a_quorum_that_a_change_of_members_made_is_queued(
    people: People, committee: list[Coordinator]
) -> None:
    """Two of three approvals were there, and two are enough for the two members that remain: both
    have approved, so no approval is left that would queue it."""
    ruling = ruling_of(people, committee[0])
    by_hand(people, 0, "propose", ruling.target, ruling.data, ruling.salt)
    args = ruling.target, ruling.data, ruling.salt
    op_id = people.chain.call(people.coordinator, "operation_id", *args)
    by_hand(people, 1, "approve", op_id)
    remain = [one.address for one in people.members[:2]]
    decided(people, (people.coordinator, "set_members", (remain, 2)))
    assert committee[0]._state(op_id) == OperationState.PROPOSED

    assert sent(committee[:2], ruling) == ["approve_by_sig"], "one of the two has it queued"
    assert committee[0]._state(op_id) == OperationState.QUEUED
    assert sent(committee[:2], ruling) == [], "it waits its delay"
    pass_time(people, people.settings.routine_delay)
    assert sent(committee[:2], ruling) == ["execute"]
    grace = people.nodes["grace"].node_id
    assert committee[0].network.node(grace).approved_roles == VERIFIER
