# SPDX-License-Identifier: Apache-2.0
"""Three members of the committee decide from three wallets, and an accused node appeals."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from agents.protocol.numbers import OperationState
from scripts._net.deployment import ZOO
from scripts._shared.operations import OPEN
from tests.stage.chain.people import AGGREGATOR, VERIFIER
from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]
APPEALED = 3


def test_appeal__the_owner_of_a_convicted_node_puts_up_the_bond(stage: Stage, visit: Begin) -> None:
    people, chain = stage.people, stage.people.chain
    accused = people.enlist("accused", spare=200 * ZOO)
    people.benchmark(accused)
    stage.job()
    report = people.convict(accused, people.nodes["ann"])
    bond = chain.call(people.reports, "appeal_bond")
    before = stage.balance(accused.owner)
    wallet = stage.wallet(accused.owner)
    reader = visit(wallet)
    reader.connect(wallet, f"/nodes/{accused.node_id}")
    said = reader.carry_out("appeal")
    assert "The committee decides until" in said
    found = chain.call(people.reports, "report_of", report)
    assert (found.status, found.appellant) == (APPEALED, accused.owner.address)
    assert stage.balance(accused.owner) == before - bond


def test_committee__three_wallets_approve_and_one_executes(stage: Stage, visit: Begin) -> None:
    people, chain = stage.people, stage.people.chain
    node = people.enlist("merger", AGGREGATOR)  # a verifier would change every quorum
    op_id = people.propose((people.registry, "approve_role", (node.node_id, AGGREGATOR, True)))
    for number in (1, 2):
        wallet = stage.wallet(people.members[number])
        reader = visit(wallet)
        reader.connect(wallet, "/committee")
        reader.submit("approve-operation")
        plan = reader.page.locator(".action-plan")
        words = f"approve_role of NodeRegistry with node_id = {node.node_id}; role = {AGGREGATOR}"
        plan.get_by_text(words).wait_for()
        reader.sign()
        assert f"It has {number + 1} of 3 approvals." in reader.result()
        assert chain.call(people.coordinator, "approvals", op_id) == number + 1

    wallet = stage.wallet(people.members[3])
    reader = visit(wallet)
    reader.connect(wallet, "/committee")
    reader.submit("execute-operation")
    assert "delay is over at" in reader.refusal()
    chain.warp(people.settings.routine_delay)
    reader.carry_out("execute-operation")
    assert chain.call(people.registry, "node", node.node_id).approved_roles == AGGREGATOR


def test_committee__a_stranger_s_approval_is_refused_before_it_is_signed(
    stage: Stage, visit: Begin
) -> None:
    people = stage.people
    people.propose((people.registry, "approve_role", (1, VERIFIER, False)))
    wallet = stage.wallet(stage.person())
    reader = visit(wallet)
    reader.connect(wallet, "/committee")
    reader.submit("approve-operation")
    assert "coordinator: not a member" in reader.refusal()
    assert not wallet.sent


def test_committee__three_wallets_vote_an_operation_down(stage: Stage, visit: Begin) -> None:
    people, chain = stage.people, stage.people.chain
    node = people.enlist("doubtful", VERIFIER)
    op_id = people.propose((people.registry, "approve_role", (node.node_id, VERIFIER, True)))
    quorum = len(people.members) - int(chain.call(people.coordinator, "threshold")) + 1
    for number in range(quorum):
        assert OperationState(chain.call(people.coordinator, "state", op_id)) in OPEN
        wallet = stage.wallet(people.members[number + 1])  # the first one proposes, elsewhere
        reader = visit(wallet)
        reader.connect(wallet, "/committee")
        reader.submit("cancel-operation")
        plan = reader.page.locator(".action-plan")
        plan.get_by_text(f"approve_role of NodeRegistry with node_id = {node.node_id}").wait_for()
        reader.sign()
        assert "Your vote counts." in reader.result()
        assert chain.call(people.coordinator, "cancel_votes", op_id) == number + 1
    state = OperationState(chain.call(people.coordinator, "state", op_id))
    assert state == OperationState.CANCELLED
    reader.page.goto("/committee")
    expect(reader.page.get_by_role("row").filter(has_text=f"0x{op_id.hex()}"[:6])).to_contain_text(
        "cancelled"
    )


def test_committee__a_second_vote_of_a_member_is_refused(stage: Stage, visit: Begin) -> None:
    people = stage.people
    people.propose((people.registry, "approve_role", (2, VERIFIER, False)))
    wallet = stage.wallet(people.members[4])
    reader = visit(wallet)
    reader.connect(wallet, "/committee")
    reader.carry_out("cancel-operation")
    sent = len(wallet.sent)
    reader.page.goto("/committee")
    reader.submit("cancel-operation")
    assert "coordinator: already voted" in reader.refusal()
    assert len(wallet.sent) == sent


def test_committee__whoever_has_approved_starts_the_delay_that_a_change_of_members_left(
    stage: Stage, visit: Begin
) -> None:
    """Both members that remain have approved it, and can't a second time. The last test here: three
    members have left."""
    people, chain = stage.people, stage.people.chain
    chain._nonces.clear()  # wallets have sent by themselves: the test's client must look again
    node = people.enlist("left over", AGGREGATOR)
    op_id = people.propose((people.registry, "approve_role", (node.node_id, AGGREGATOR, True)))
    chain.send(people.members[1], people.coordinator, "approve", op_id)
    remaining = [member.address for member in people.members[:2]]
    people.decide((people.coordinator, "set_members", (remaining, 2)), governance=True)
    assert OperationState(chain.call(people.coordinator, "state", op_id)) == OperationState.PROPOSED
    wallet = stage.wallet(people.members[1])
    reader = visit(wallet)
    reader.connect(wallet, "/committee")
    reader.submit("approve-operation")
    reader.page.locator(".action-plan").get_by_text("this begins its delay").wait_for()
    reader.sign()
    assert "It has 2 of 2 approvals." in reader.result()
    assert OperationState(chain.call(people.coordinator, "state", op_id)) == OperationState.QUEUED
    chain.warp(people.settings.routine_delay)
    chain.send(people.faucet, people.coordinator, "execute", op_id)
