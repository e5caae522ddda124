# SPDX-License-Identifier: Apache-2.0
"""What moves an operation of the committee on is sent by one of its members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.coordinator import Coordinator
from agents.verify.rulings import role_rulings
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.committee import deeds, seated
from tests.stage.chain.people import STAKES, VERIFIER, People

Committee = list[Coordinator]


@pytest.fixture(params=[1.0, 0.0], ids=["in turns", "at once"])
def committee(
    people: People,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[tuple[Committee, int]]:
    """All five members, each approving on chain, at one moment; how many of them send the same."""
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr("agents.runtime.one_by_one.time.monotonic", lambda: 1_000.0)
    with ExitStack() as stack:
        made = seated(people, tmp_path, stack, request.param)
        yield made, 1 if request.param else len(made)


def test_one_member_proposes_and_one_executes(
    people: People, committee: tuple[Committee, int]
) -> None:
    """Control: members that spread nothing all send both. Approvals are each member's own."""
    members, senders = committee
    owner = people.person("owner", STAKES[VERIFIER])
    node = people.enlist("grace", VERIFIER, owner=owner)
    chain = people.chain
    chain.warp(people.settings.routine_delay)
    chain.mine()
    network, head = members[0].network, members[0].context.chain.head()
    (ruling,) = role_rulings(network, [owner.address], head)
    proposing = deeds(members, ruling)
    assert len(proposing) == senders
    assert {deed.order.function for _, deed in proposing} == {"propose"}
    first, _ = proposing[0]
    assert first._carry_out([ruling], head)

    approving = deeds(members, ruling)
    assert {deed.order.function for _, deed in approving} == {"approve"}
    assert [member for member, _ in approving] == [m for m in members if m is not first]
    for member, _ in approving[:2]:
        member._carry_out([ruling], member.context.chain.head())
    assert deeds(members, ruling) == [], "it waits its delay"

    chain.warp(people.settings.routine_delay + 1)
    chain.mine()
    executing = deeds(members, ruling)
    assert len(executing) == senders
    assert {deed.order.function for _, deed in executing} == {"execute"}
    last, _ = executing[0]
    assert last._carry_out([ruling], last.context.chain.head())
    assert network.node(node.node_id).approved_roles == VERIFIER
