# SPDX-License-Identifier: Apache-2.0
"""An operator's whole life in the browser: register, stake, work, claim, exit, withdraw.

After each signature the chain is asked what has changed, and the page what it says.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from scripts._net.deployment import ZOO
from tests.stage.chain.people import TRAINER, Node, share
from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]


def _newest(stage: Stage) -> int:
    return int(stage.people.chain.call(stage.people.registry, "node_count"))


def _registered(stage: Stage, said: str) -> int:
    """The id of the node that the page says was registered, which must be the newest one."""
    node_id = _newest(stage)
    assert f"Node {node_id} is registered with 100 ZOO." in said
    return node_id


@pytest.mark.parametrize("eip1559", [True, False], ids=["eip1559", "legacy"])
def test_operator__register_stake_work_claim_exit_withdraw__each_unit_is_where_it_should_be(
    stage: Stage, visit: Begin, eip1559: bool
) -> None:
    people, chain = stage.people, stage.people.chain
    owner, operator = stage.person(400), stage.person()
    wallet = stage.wallet(owner, operator, eip1559=eip1559)
    reader = visit(wallet)
    reader.connect(wallet)

    said = reader.carry_out("register", operator=operator.address)
    node_id = _registered(stage, said)
    node = chain.call(people.registry, "node", node_id)
    assert (node.owner, node.operator, node.payout) == (
        owner.address,
        operator.address,
        owner.address,
    )
    assert (node.roles, node.stake) == (TRAINER, 100 * ZOO)
    assert stage.balance(owner) == 300 * ZOO
    signed = [method for method, _ in wallet.asked if method.startswith("eth_s")]
    assert signed == ["eth_signTypedData_v4", "eth_sendTransaction", "eth_sendTransaction"]
    types = {int(chain.rpc("eth_getTransactionByHash", tx)["type"], 16) for tx in wallet.sent}
    assert types == ({2} if eip1559 else {0})

    reader.page.goto(f"/nodes/{node_id}")
    said = reader.carry_out("add-stake", amount="50.5")
    assert f"Node {node_id} stakes 150.5 ZOO." in said
    assert stage.balance(owner) == 249_500_000_000_000_000_000
    spender = people.registry.address
    assert chain.call(people.token, "allowance", owner.address, spender) == 0, "not a unit more"

    mine = Node("mine", node_id, 150 * ZOO, owner, operator, owner)
    people.benchmark(mine)
    job = stage.job()
    stage.indexed()
    reader.page.goto(f"/jobs/{job}")
    before = reader.page.locator("#chainline").inner_text()
    reader.page.evaluate("window.kept = true")
    round_id = stage.play(mine, people.nodes["ann"])
    expect(reader.page.locator("#chainline")).not_to_have_text(before)
    assert reader.page.evaluate("window.kept"), "the page was not loaded again"
    earned = share(1, 2)
    assert chain.call(people.pool, "pending", owner.address) == earned
    balance = reader.page.locator(".wallet-balance")
    expect(balance).to_contain_text("249.5 ZOO, 425 ZOO to claim")

    reader.page.goto(f"/jobs/{job}/rounds/{round_id}/nodes/{node_id}")
    reader.page.locator("button[data-recompute]").click()
    verdict = reader.page.locator(".recomputed .verdict")
    expect(verdict).to_have_attribute("data-equal", "equal")
    expect(verdict).to_contain_text("your wallet's node")

    reader.page.goto("/operator")
    said = reader.carry_out("claim")
    assert stage.balance(owner) == 249_500_000_000_000_000_000 + earned
    assert "were taken out" in said
    assert chain.call(people.pool, "pending", owner.address) == 0
    reader.submit("claim")
    assert "Nothing is credited" in reader.refusal()

    reader.page.goto(f"/nodes/{node_id}")
    reader.carry_out("begin-exit")
    node = chain.call(people.registry, "node", node_id)
    assert (node.stake, node.unbonding) == (0, 150_500_000_000_000_000_000)
    reader.submit("withdraw")
    assert "unbonds until" in reader.refusal()
    chain.warp(int(node.unlock_at) - chain.now)
    reader.carry_out("withdraw")
    assert stage.balance(owner) == 400 * ZOO + earned


def test_operator__a_consent_from_another_machine_is_pasted(stage: Stage, visit: Begin) -> None:
    """The wallet does not hold the operator's key; the command has signed where it is."""
    people, chain = stage.people, stage.people.chain
    owner, operator, other = stage.person(300), stage.person(), stage.person()
    wallet = stage.wallet(owner)
    reader = visit(wallet)
    reader.connect(wallet)
    reader.submit("register", operator=operator.address)
    assert "ape run node consent" in reader.refusal()
    reader.submit("register", operator=operator.address, consent="0x12")
    assert "is no signature" in reader.refusal()
    wrong = "0x" + people.consent(other, owner).hex()
    reader.submit("register", operator=operator.address, consent=wrong)
    reader.page.locator(".action-plan .error").wait_for(state="attached")
    words = reader.refusal()
    assert "registry: no consent" in words and "each signature counts once" in words
    assert not wallet.sent
    right = "0x" + people.consent(operator, owner).hex()
    reader.carry_out("register", operator=operator.address, consent=right)
    node_id = _newest(stage)
    assert chain.call(people.registry, "node", node_id).operator == operator.address
    assert [method for method, _ in wallet.asked].count("eth_signTypedData_v4") == 0


def test_operator__settings__each_is_on_chain_afterwards(stage: Stage, visit: Begin) -> None:
    people, chain = stage.people, stage.people.chain
    owner, operator = stage.person(200), stage.person()
    wallet = stage.wallet(owner, operator)
    reader = visit(wallet)
    reader.connect(wallet)
    reader.carry_out("register")
    node_id = _newest(stage)
    assert chain.call(people.registry, "node", node_id).operator == owner.address
    reader.page.goto(f"/nodes/{node_id}")
    reader.carry_out("set-operator", operator=operator.address)
    payout = stage.person()
    reader.carry_out("set-payout", payout=payout.address)
    reader.carry_out("set-active")
    node = chain.call(people.registry, "node", node_id)
    assert (node.operator, node.payout) == (operator.address, payout.address)
    assert node.active is False
