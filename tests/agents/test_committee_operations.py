# SPDX-License-Identifier: Apache-2.0
"""An operation that the chain leaves standing is moved on by the committee's agents."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.coordinator import Coordinator
from agents.protocol.by_hand import salt_by_hand
from agents.protocol.numbers import OperationState
from agents.verify.renewal import MOST, command, salt_after, standing
from agents.verify.rulings import Ruling, role_rulings
from scripts._committee.acting import literal
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.committee import deeds, seated
from tests.stage.chain.people import STAKES, VERIFIER, Call, People, found


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


def decided(people: People, call: Call, number: int = 0, governance: bool = False) -> None:
    """Three members carry a call out by hand. `number`: how often they proposed it before."""
    people.chain._nonces.clear()
    people.decide(call, salt=salt_by_hand(number), governance=governance)


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


def expire(people: People, committee: Sequence[Coordinator], ruling: Ruling) -> bytes:
    """Members propose and approve a ruling, and nobody executes it in time; its operation."""
    now = standing(committee[0].network, ruling)
    assert sent(committee, ruling) == ["propose"]
    assert set(sent(committee[:4], ruling)) == {"approve"}
    assert committee[0]._state(now.op_id) == OperationState.QUEUED
    pass_time(people, people.settings.routine_delay + people.settings.grace_period)
    assert committee[0]._state(now.op_id) == OperationState.EXPIRED
    return now.op_id


def told(committee: Sequence[Coordinator], event: str) -> list[str]:
    """Why, in each line of that event in the first member's log."""
    lines = committee[0].context.settings.log_file.read_text().splitlines()
    return [line["why"] for line in map(json.loads, lines) if line["event"] == event]


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
    decided(people, (people.coordinator, "set_members", (remain, 2)), governance=True)
    assert committee[0]._state(op_id) == OperationState.PROPOSED

    assert sent(committee[:2], ruling) == ["approve_by_sig"], "one of the two has it queued"
    assert committee[0]._state(op_id) == OperationState.QUEUED
    assert sent(committee[:2], ruling) == [], "it waits its delay"
    pass_time(people, people.settings.routine_delay)
    assert sent(committee[:2], ruling) == ["execute"]
    grace = people.nodes["grace"].node_id
    assert committee[0].network.node(grace).approved_roles == VERIFIER


def test_what_expired_is_proposed_again_and_carried_out_once(
    people: People, committee: list[Coordinator]
) -> None:
    ruling = ruling_of(people, committee[0])
    first = expire(people, committee, ruling)
    ruling = ruling_of(people, committee[0])
    (proposal,) = deeds(committee, ruling)
    assert proposal[1].why == f"proposed again, since 0x{first.hex()} expired: {ruling.why}"
    assert proposal[1].order.args == (ruling.target, ruling.data, salt_after(first))

    assert sent(committee, ruling) == ["propose"]
    assert set(sent(committee, ruling)) == {"approve"}
    pass_time(people, people.settings.routine_delay)
    assert sent(committee, ruling) == ["execute"]
    network, grace = committee[0].network, people.nodes["grace"].node_id
    assert network.node(grace).approved_roles == VERIFIER
    assert standing(network, ruling).state == OperationState.EXECUTED
    decided(people, (people.registry, "approve_role", (grace, int(VERIFIER), False)))
    assert ruling_of(people, committee[0]) == ruling
    assert sent(committee, ruling) == [], "what the committee withdraws stays withdrawn"


def test_what_was_cancelled_is_not_proposed_again(
    people: People, committee: list[Coordinator]
) -> None:
    ruling = ruling_of(people, committee[0])
    expire(people, committee, ruling)
    assert sent(committee, ruling) == ["propose"]
    second = standing(committee[0].network, ruling).op_id
    for member in (0, 1, 2):
        by_hand(people, member, "cancel", second)
    assert committee[0]._state(second) == OperationState.CANCELLED
    pass_time(people, people.settings.routine_delay + people.settings.grace_period)
    assert sent(committee, ruling) == []


def test_a_role_that_members_gave_and_withdrew_by_hand_is_not_given_again(
    people: People, committee: list[Coordinator]
) -> None:
    """That is how they helped themselves where agents did not propose again. The first proposal by
    hand expired, too."""
    ruling = ruling_of(people, committee[0])
    expire(people, committee, ruling)
    people.chain._nonces.clear()
    node = people.nodes["grace"].node_id
    call = people.registry, "approve_role", (node, int(VERIFIER), True)
    left = people.propose(call, salt_by_hand(0))
    assert len(deeds(committee, ruling)) == 1, "one member's proposal holds up nothing"
    for member in (1, 2):
        by_hand(people, member, "approve", left)
    pass_time(people, people.settings.routine_delay + people.settings.grace_period)
    assert len(deeds(committee, ruling)) == 1
    decided(people, call, number=1)
    decided(people, (people.registry, "approve_role", (node, int(VERIFIER), False)))
    assert ruling_of(people, committee[0]) == ruling
    for _ in range(2):
        assert deeds(committee, ruling) == []
    (why,) = told(committee, "not_proposed_again")
    assert "members executed or cancelled the same by hand" in why
    assert why.endswith(
        f"a member types `ape run committee propose call NodeRegistry approve_role {node} 2 true`"
    )


def test_a_ruling_has_four_operations_at_most(people: People, committee: list[Coordinator]) -> None:
    ruling = ruling_of(people, committee[0])
    ids = {expire(people, committee, ruling) for _ in range(MOST)}
    assert len(ids) == MOST == 4
    for _ in range(2):
        assert deeds(committee, ruling) == []
    (why,) = told(committee, "not_proposed_again")
    assert "it was proposed 4 times and expired each time" in why


def test_a_member_is_told_what_to_type(committee: list[Coordinator]) -> None:
    """As `ape run committee propose call` reads it, it gives the ruling's own bytes."""
    network = committee[0].network
    calls = {
        "approve_role": (network.registry, (3, 2, True)),
        "resolve_challenge": (network.results, (1, 2, b"\5" * 32, False)),
        "resolve_appeal": (network.reports, (b"\6" * 32, True)),
        "overrule": (network.benchmarks, (7, 2, False, [4, 5])),
        "attest_model": (network.ledger, (1, b"\1" * 32, b"\2" * 32, bytes(32))),
    }
    for name, (contract, args) in calls.items():
        data = contract.function(name, len(args)).encode(args)
        words = shlex.split(command(network.deployment, Ruling(contract.address, data, b"", "")))
        assert words[:5] == ["ape", "run", "committee", "propose", "call"]
        read = [literal(text) for text in words[7:]]
        called = network.deployment[words[5]].function(words[6], len(read))
        assert called.encode(read) == data
