# SPDX-License-Identifier: Apache-2.0
"""What a wallet adds to a page can be reached by keyboard and read aloud: axe, on what is open."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eth_account import Account
from playwright.sync_api import expect

from tests.stage.axe import violations
from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe__choice_plan_result_and_refusal__no_violation(
    stage: Stage, visit: Begin, scheme: str
) -> None:
    node = stage.people.nodes["ann"]
    wallet, other = stage.wallet(node.owner), stage.wallet(name="Moss")
    reader = visit(wallet, other)
    page = reader.page
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(f"/nodes/{node.node_id}")
    page.get_by_role("button", name="Connect wallet").click()
    choice = page.locator("dialog.wallets")
    expect(choice.get_by_role("button", name="Moss")).to_be_visible()
    assert violations(page) == []
    choice.get_by_role("button", name="Fern").click()
    expect(page.locator("#wallet[data-deployment]")).to_be_attached()
    reader.submit("set-payout", payout="0x12")
    assert "is no address" in reader.refusal()
    expect(page.locator('[name="payout"][aria-invalid="true"]')).to_be_focused()
    assert violations(page) == []
    reader.submit("set-payout", payout=Account.create().address)
    expect(page.locator(".action-plan")).to_be_visible()
    assert violations(page) == []
    reader.sign()
    reader.result()
    assert violations(page) == []


def test_keyboard__connect_fill_and_sign_without_a_mouse(stage: Stage, visit: Begin) -> None:
    node = stage.people.nodes["bob"]
    wallet = stage.wallet(node.owner)
    reader = visit(wallet)
    page = reader.page
    page.goto(f"/nodes/{node.node_id}")
    page.get_by_role("button", name="Connect wallet").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#wallet[data-deployment]")).to_be_attached()
    page.locator(f"#node-actions-{node.node_id} summary").focus()
    page.keyboard.press("Enter")
    wanted = Account.create().address
    page.locator(f"#payout-{node.node_id}").focus()
    page.keyboard.type(wanted)
    page.keyboard.press("Enter")
    expect(page.locator(".action-plan button.primary")).to_be_focused()
    page.keyboard.press("Enter")
    assert wanted in reader.result()
    paid = stage.people.chain.call(stage.people.registry, "node", node.node_id).payout
    assert paid == wanted


def test_escape__closes_the_choice_of_a_wallet(stage: Stage, visit: Begin) -> None:
    reader = visit(stage.wallet(), stage.wallet(name="Moss"))
    reader.page.goto("/operator")
    reader.page.get_by_role("button", name="Connect wallet").click()
    expect(reader.page.locator("dialog.wallets")).to_be_visible()
    reader.page.keyboard.press("Escape")
    expect(reader.page.locator("dialog.wallets")).to_have_count(0)
    expect(reader.page.get_by_role("button", name="Connect wallet")).to_be_visible()


def test_no_wallet__the_page_says_how_to_get_one(stage: Stage, visit: Begin) -> None:
    reader = visit()
    reader.page.goto("/operator")
    reader.page.get_by_role("button", name="Connect wallet").click()
    expect(reader.page.locator("dialog.wallets")).to_contain_text("No wallet was found")
    expect(reader.page.locator("dialog.wallets")).to_contain_text("EIP-6963")
