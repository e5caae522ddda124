# SPDX-License-Identifier: Apache-2.0
"""A plan asks the wallet while it is shown, for its own chain, in one tab, once for each step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields

import pytest
from eth_utils import keccak
from playwright.sync_api import Page, expect

from agents.storage.cid import cid_from_digest
from scripts._net.anvil import CHAIN_ID
from tests.stage.chain.people import TERMS
from tests.stage.journeys import Stage, Visit
from tests.stage.wallet import Wallet

Begin = Callable[..., Visit]
Blocks = Callable[[], None]
OTHER_CHAIN = 5_151
TWO_LOOKS_MS = 2_000
JOURNAL = "JSON.parse(localStorage['menagerie:journal'] ?? '[]')"


@pytest.fixture
def blocks(stage: Stage) -> Iterator[Blocks]:
    """Makes a block. Once it was used, no other is made before the test ends."""

    def make() -> None:
        stage.anvil.rpc("evm_setAutomine", False)
        stage.anvil.next_block()

    yield make
    stage.anvil.rpc("evm_setAutomine", True)
    stage.anvil.next_block()


def _transactions(wallet: Wallet) -> int:
    """How many transactions the wallet was asked for."""
    return [method for method, _ in wallet.asked].count("eth_sendTransaction")


def _nodes(stage: Stage) -> int:
    return int(stage.people.chain.call(stage.people.registry, "node_count"))


def _registering(stage: Stage, visit: Begin, blocks: Blocks) -> tuple[Visit, Wallet]:
    """A reader whose allowance is sent, and whose registration comes in the block after it."""
    wallet = stage.wallet(stage.person(300))
    blocks()
    reader = visit(wallet)
    reader.connect(wallet)
    reader.submit("register", stake="120")
    reader.sign()
    reader.step("allow", "sent")
    return reader, wallet


@pytest.mark.parametrize("how", ["closed", "another form", "the same form"])
def test_a_plan_that_is_not_shown_any_more__asks_nothing_more(
    stage: Stage, visit: Begin, blocks: Blocks, how: str
) -> None:
    reader, wallet = _registering(stage, visit, blocks)
    if how == "closed":
        reader.page.get_by_role("button", name="Close").click()
        expect(reader.page.locator(".action-plan")).to_have_count(0)
    elif how == "another form":
        reader.submit("claim")
        assert "Nothing is credited" in reader.refusal()
    else:
        reader.submit("register", stake="130")
        expect(reader.page.locator(".action-plan")).to_contain_text("130 ZOO")
    blocks()
    reader.page.wait_for_timeout(TWO_LOOKS_MS)
    assert _transactions(wallet) == 1
    assert reader.page.evaluate(JOURNAL) == []
    if how == "the same form":
        nodes = _nodes(stage)
        reader.sign()
        reader.step("allow", "sent")
        blocks()
        reader.step("register", "sent")
        blocks()
        assert "is registered with 130 ZOO" in reader.result()
        assert _nodes(stage) == nodes + 1 and _transactions(wallet) == 3


def _packed(rounds: int) -> str:
    """What `ape run job pack` prints, for artefacts that no store has."""
    names = ("spec", "genesis_model", "genesis_checkpoint")
    digests = {name: keccak(text=f"{name} of {rounds}") for name in names}
    figures = [f.name for f in fields(TERMS) if not f.name.startswith("score_")]
    terms = {name: "0x" + digest.hex() for name, digest in digests.items()}
    terms |= {"rounds": str(rounds)} | dict(zip(figures, map(str, TERMS.figures()), strict=True))
    spec = cid_from_digest(digests["spec"])
    packed = {"chain_id": CHAIN_ID, "spec_cid": spec, "terms": terms, "scores": None}
    return json.dumps({**packed, "key_id": None})


def _second_tab(reader: Visit, wallet: Wallet, path: str) -> Page:
    page = reader.context.new_page()
    wallet.install(page)
    page.goto(path)
    return page


def _state(page: Page, step: str, state: str) -> None:
    line = page.locator(f'.action-step[data-step="{step}"]')
    expect(line).to_have_attribute("data-state", state)


@pytest.mark.parametrize("closes", [False, True], ids=["both stay", "the first is closed"])
def test_two_tabs__one_of_them_signs(
    stage: Stage, visit: Begin, blocks: Blocks, closes: bool
) -> None:
    people, chain = stage.people, stage.people.chain
    wallet = stage.wallet(stage.person(1_000))
    jobs = int(chain.call(people.jobs, "job_count"))
    blocks()
    reader = visit(wallet)
    reader.connect(wallet, "/sponsor")
    reader.submit("create-job", packed=_packed(5), fund_rounds="1")
    reader.sign()
    reader.step("allow", "sent")
    second = _second_tab(reader, wallet, "/sponsor")
    _state(second, "allow", "sent")
    signs = second if closes else reader.page
    if closes:
        reader.page.close()
    blocks()
    _state(signs, "create", "sent")
    blocks()
    _state(signs, "fund", "sent")
    blocks()
    expect(signs.locator(".action-result")).to_contain_text("1,000 ZOO in escrow")
    if not closes:
        ended = second.locator(".action-plan .error")
        expect(ended).to_contain_text("in another tab")
        expect(second.locator(".action-plan button.primary")).to_be_hidden()
    assert _transactions(wallet) == 3
    assert chain.call(people.jobs, "job_count") == jobs + 1
    assert reader.context.pages[-1].evaluate(JOURNAL) == []


def test_closed_in_another_tab__this_one_asks_nothing_more(
    stage: Stage, visit: Begin, blocks: Blocks
) -> None:
    reader, wallet = _registering(stage, visit, blocks)
    second = _second_tab(reader, wallet, "/operator")
    _state(second, "allow", "sent")
    second.get_by_role("button", name="Close").click()
    expect(reader.page.locator(".action-plan .error")).to_contain_text("in another tab")
    blocks()
    reader.page.wait_for_timeout(TWO_LOOKS_MS)
    assert _transactions(wallet) == 1
    assert reader.page.evaluate(JOURNAL) == []


def test_while_nothing_changes__the_journal_is_not_written(
    stage: Stage, visit: Begin, blocks: Blocks
) -> None:
    """A tab hears of another one's closing a moment late: what it wrote by then would undo it."""
    reader, _ = _registering(stage, visit, blocks)
    reader.page.wait_for_timeout(TWO_LOOKS_MS)  # by then a node has told the transaction's number
    reader.page.evaluate(
        """() => {
          window.written = [];
          const set = Storage.prototype.setItem;
          Storage.prototype.setItem = function (name, value) {
            window.written.push(name);
            return set.call(this, name, value);
          };
        }"""
    )
    reader.page.wait_for_timeout(TWO_LOOKS_MS)
    assert "menagerie:journal" not in reader.page.evaluate("window.written")
    blocks()
    reader.step("register", "sent")
    assert "menagerie:journal" in reader.page.evaluate("window.written")
    blocks()
    assert "is registered with 120 ZOO" in reader.result()


def test_another_chain_in_the_middle__the_list_waits_for_its_own(
    stage: Stage, visit: Begin, blocks: Blocks
) -> None:
    """The other chain's node is this one's, so that all but the number looks right."""
    reader, wallet = _registering(stage, visit, blocks)
    wallet.chains[OTHER_CHAIN] = stage.rpc_url
    wallet.chain_id = OTHER_CHAIN  # without the event that tells the page
    blocks()
    assert f"chain {CHAIN_ID}" in reader.step("allow", "elsewhere")
    assert _transactions(wallet) == 1
    wallet.chain_id = CHAIN_ID
    reader.step("register", "sent")
    blocks()
    assert "is registered with 120 ZOO" in reader.result()
    assert _transactions(wallet) == 2


def test_another_chain_while_the_wallet_asks__the_transaction_names_its_own(
    stage: Stage, visit: Begin
) -> None:
    wallet = stage.wallet(stage.person(300))
    wallet.chains[OTHER_CHAIN] = stage.rpc_url
    reader = visit(wallet)
    reader.connect(wallet)

    def switch(method: str, _: object) -> bool:
        if method == "eth_sendTransaction":
            wallet.chain_id = OTHER_CHAIN
        return True

    wallet.accept = switch
    reader.submit("register", stake="120")
    reader.sign()
    assert "for another chain" in reader.refusal()
    assert wallet.asked[-1][1]["chainId"] == hex(CHAIN_ID)
    reader.sign()
    assert f"this network is on chain {CHAIN_ID}" in reader.refusal()
    assert _transactions(wallet) == 1 and not wallet.sent


@pytest.mark.parametrize("confirmed", ["waiting", "mined", "no"])
def test_reload_while_the_wallet_asks__it_is_looked_for_before_it_is_asked_again(
    stage: Stage, visit: Begin, blocks: Blocks, confirmed: str
) -> None:
    wallet = stage.wallet(stage.person(300))
    blocks()
    reader = visit(wallet)
    reader.connect(wallet)
    wallet.leaves_open = True
    reader.submit("register", stake="120")
    reader.sign()
    reader.step("allow", "signing")
    while not wallet.open:
        reader.page.wait_for_timeout(50)
    reader.page.reload()
    assert "If it still asks" in reader.step("allow", "unknown")
    assert _transactions(wallet) == 1, "nothing is asked for again by itself"
    wallet.leaves_open = False
    if confirmed != "no":
        wallet.confirm()
    if confirmed == "mined":
        blocks()
    reader.sign()
    if confirmed != "mined":
        reader.step("allow", "sent")
        blocks()
    reader.step("register", "sent")
    blocks()
    assert "is registered with 120 ZOO" in reader.result()
    assert _transactions(wallet) == (3 if confirmed == "no" else 2)
    assert len(wallet.sent) == 2
