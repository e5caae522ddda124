# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a page, a wallet and a chain: nothing is lost, nothing signed twice."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eth_account import Account
from playwright.sync_api import Route, expect

from scripts._net.anvil import CHAIN_ID
from scripts._net.deployment import ZOO
from tests.stage.chain.people import Node, share
from tests.stage.journeys import Stage, Visit
from tests.stage.wallet import Wallet

Begin = Callable[..., Visit]
OTHER_CHAIN = 5_151


@pytest.fixture
def waiting(stage: Stage) -> Iterator[Callable[[], None]]:
    """The chain makes a block only when it is told to."""
    stage.anvil.rpc("evm_setAutomine", False)
    yield lambda: stage.anvil.next_block()
    stage.anvil.rpc("evm_setAutomine", True)
    stage.anvil.next_block()


def _planned(stage: Stage, visit: Begin, *accounts: Any) -> tuple[Visit, Wallet]:
    """A reader who owns node ann and is about to change where it is paid."""
    node = stage.people.nodes["ann"]
    wallet = stage.wallet(node.owner, *accounts)
    reader = visit(wallet)
    reader.connect(wallet, f"/nodes/{node.node_id}")
    return reader, wallet


def _numbered(reader: Visit) -> None:
    """Wait until the page knows the number of the transaction that it follows."""
    reader.page.wait_for_function(
        "JSON.parse(localStorage['menagerie:journal']).at(-1).sent.change.nonce !== null"
    )


def _payout(stage: Stage) -> str:
    """Where node ann is paid, on chain."""
    ann = stage.people.nodes["ann"].node_id
    return str(stage.people.chain.call(stage.people.registry, "node", ann).payout)


def test_rejected__nothing_is_sent_and_it_can_be_tried_again(stage: Stage, visit: Begin) -> None:
    reader, wallet = _planned(stage, visit)
    before, wanted = _payout(stage), Account.create().address
    wallet.accept = lambda method, _: method != "eth_sendTransaction"
    reader.submit("set-payout", payout=wanted)
    reader.sign()
    assert "You rejected it" in reader.step("change", "rejected")
    assert not wallet.sent and _payout(stage) == before
    wallet.accept = lambda method, _: True
    reader.sign()
    assert wanted in reader.result()
    assert _payout(stage) == wanted


def test_locked_in_the_middle__the_list_goes_on_where_it_was(stage: Stage, visit: Begin) -> None:
    owner, operator = stage.person(200), stage.person()
    wallet = stage.wallet(owner, operator)
    reader = visit(wallet)
    reader.connect(wallet)
    nodes = stage.people.chain.call(stage.people.registry, "node_count")

    def lock_after_the_first(method: str, _: Any) -> bool:
        wallet.locked = method == "eth_sendTransaction"  # once this one is signed
        return True

    wallet.accept = lock_after_the_first
    reader.submit("register", operator=operator.address)
    reader.sign()
    reader.step("allow", "done")
    assert "locked" in reader.refusal()
    wallet.lock()
    expect(reader.page.locator("#wallet")).to_contain_text("locked")
    assert stage.people.chain.call(stage.people.registry, "node_count") == nodes
    wallet.accept = lambda method, _: True
    wallet.unlock()
    reader.sign()
    assert f"Node {nodes + 1} is registered" in reader.result()
    assert len(wallet.sent) == 2, "the allowance was not signed twice"


def test_reload_in_the_middle__the_list_resumes(
    stage: Stage, visit: Begin, waiting: Callable[[], None]
) -> None:
    stage.anvil.rpc("evm_setAutomine", True)
    wallet = stage.wallet(stage.person(200))
    stage.anvil.rpc("evm_setAutomine", False)
    reader = visit(wallet)
    reader.connect(wallet)
    reader.submit("register", stake="120")
    reader.sign()
    reader.step("allow", "sent")
    reader.page.reload()
    reader.step("allow", "sent")
    waiting()
    reader.step("allow", "done")
    reader.step("register", "sent")
    reader.page.reload()
    reader.step("allow", "done")
    reader.step("register", "sent")
    waiting()
    assert "is registered with 120 ZOO" in reader.result()
    assert len(wallet.sent) == 2
    reader.page.reload()
    expect(reader.page.locator(".wallet-name")).to_be_visible()
    expect(reader.page.locator(".action-plan")).to_have_count(0)


def test_sped_up__the_dearer_one_is_followed(
    stage: Stage, visit: Begin, waiting: Callable[[], None]
) -> None:
    reader, wallet = _planned(stage, visit)
    wanted = Account.create().address
    reader.submit("set-payout", payout=wanted)
    reader.sign()
    reader.step("change", "sent")
    _numbered(reader)
    again = wallet.speed_up(wallet.sent[-1])
    waiting()
    words = reader.step("change", "done")
    assert "another fee" in words and again in words
    assert _payout(stage) == wanted


@pytest.mark.parametrize("how", ["cancelled", "replaced"])
def test_another_transaction_takes_its_place__the_page_says_which(
    stage: Stage, visit: Begin, waiting: Callable[[], None], how: str
) -> None:
    reader, wallet = _planned(stage, visit)
    before = _payout(stage)
    reader.submit("set-payout", payout=Account.create().address)
    reader.sign()
    reader.step("change", "sent")
    _numbered(reader)
    if how == "cancelled":
        wallet.cancel(wallet.sent[-1])
    else:
        wallet.replace(wallet.sent[-1], Account.create().address, 1)
    waiting()
    reader.step("change", how)
    assert _payout(stage) == before
    expect(reader.page.get_by_role("button", name="Try again")).to_be_enabled()


def test_slow__the_page_says_so_and_goes_on(
    stage: Stage, visit: Begin, waiting: Callable[[], None]
) -> None:
    reader, _ = _planned(stage, visit)
    reader.page.evaluate("document.documentElement.dataset.slowMs = '1500'")
    reader.submit("set-payout", payout=Account.create().address)
    reader.sign()
    assert "speed it up" in reader.step("change", "slow")
    waiting()
    reader.step("change", "done")


def test_mined_and_failed__the_contract_s_own_reason_is_shown(
    stage: Stage, visit: Begin, waiting: Callable[[], None]
) -> None:
    """Between the rehearsal and the block, the owner ends the node from elsewhere."""
    people = stage.people
    stage.anvil.rpc("evm_setAutomine", True)
    node = people.enlist("leaver")
    stage.anvil.rpc("evm_setAutomine", False)
    wallet = stage.wallet(node.owner)
    reader = visit(wallet)
    reader.connect(wallet, f"/nodes/{node.node_id}")

    def somebody_is_faster(method: str, wanted: Any) -> bool:
        if method == "eth_sendTransaction":
            data = people.registry.function("begin_exit", 1).encode((node.node_id,))
            # Its nonce is the lower one, so it comes first in the block.
            people.chain.submit(node.owner, people.registry.address, data)
            wallet.skip_nonce()
        return True

    wallet.accept = somebody_is_faster
    reader.submit("begin-exit")
    reader.sign()
    reader.step("exit", "sent")
    waiting()
    words = reader.step("exit", "failed")
    assert "registry: exiting" in words and "leaving already" in words


def test_reorg_under_an_open_page__the_transaction_is_taken_out_and_comes_back(
    stage: Stage, visit: Begin
) -> None:
    reader, wallet = _planned(stage, visit)
    before, wanted = _payout(stage), Account.create().address
    reader.submit("set-payout", payout=wanted)
    reader.sign()
    assert wanted in reader.result()
    shown = reader.page.locator("#chainline").inner_text()
    raw = stage.anvil.rpc("eth_getRawTransactionByHash", wallet.sent[-1])
    stage.anvil.rpc("anvil_reorg", 1, [])
    assert "reorganisation" in reader.step("change", "reorged")
    assert _payout(stage) == before
    stage.anvil.rpc("eth_sendRawTransaction", raw)
    stage.anvil.next_block()
    reader.step("change", "done")
    assert _payout(stage) == wanted
    expect(reader.page.locator("#chainline")).not_to_have_text(shown)
    stage.people.chain._nonces.clear()


def test_two_wallets__each_signs_for_itself(stage: Stage, visit: Begin) -> None:
    one, two = stage.person(300), stage.person(300)
    fern, moss = stage.wallet(one, name="Fern"), stage.wallet(two, name="Moss")
    reader = visit(fern, moss)
    reader.connect(moss)
    reader.carry_out("register")
    count = int(stage.people.chain.call(stage.people.registry, "node_count"))
    assert stage.node(count).owner == two.address  # type: ignore[attr-defined]
    assert not fern.asked, "the other wallet was asked nothing"
    reader.page.get_by_role("button", name="Disconnect").click()
    reader.connect(fern)
    reader.carry_out("register")
    assert stage.node(count + 1).owner == one.address  # type: ignore[attr-defined]
    assert stage.balance(one) == stage.balance(two) == 200 * ZOO


def test_another_account__the_begun_list_waits_for_the_first(stage: Stage, visit: Begin) -> None:
    reader, wallet = _planned(stage, visit, stage.person())
    owner, other = wallet.accounts
    wanted = Account.create().address
    reader.submit("set-payout", payout=wanted)
    expect(reader.page.locator(".action-plan")).to_be_visible()
    wallet.choose(other)
    reader.sign()
    assert other.address in reader.refusal()
    assert not wallet.sent
    wallet.choose(owner)
    reader.sign()
    assert wanted in reader.result()


@pytest.mark.parametrize("known", [True, False], ids=["known", "to add"])
def test_wrong_chain__the_page_offers_to_switch(stage: Stage, visit: Begin, known: bool) -> None:
    node = stage.people.nodes["ann"]
    wallet = Wallet({OTHER_CHAIN: stage.anvil.url}, [node.owner])
    if known:
        wallet.chains[CHAIN_ID] = stage.anvil.url
    reader = visit(wallet)
    reader.page.goto(f"/nodes/{node.node_id}")
    reader.page.get_by_role("button", name="Connect wallet").click()
    note = reader.page.locator(".wallet-note")
    # The wallet says it is elsewhere, whatever its node is.
    expect(note).to_contain_text(f"chain {OTHER_CHAIN}")
    reader.submit("set-payout", payout=Account.create().address)
    assert f"chain {OTHER_CHAIN}" in reader.refusal()
    assert not wallet.sent
    reader.page.get_by_role("button", name=f"Switch to chain {CHAIN_ID}").first.click()
    expect(reader.page.locator("#wallet[data-deployment]")).to_be_attached()
    added = [method for method, _ in wallet.asked if method == "wallet_addEthereumChain"]
    assert len(added) == (0 if known else 1)
    wanted = Account.create().address
    reader.carry_out("set-payout", payout=wanted)
    assert _payout(stage) == wanted


def _lie(contracts: dict[str, Any], how: str) -> None:
    if how == "address":
        contracts["NodeRegistry"]["address"] = Account.create().address
    else:
        abi = contracts["NodeRegistry"]["abi"]
        payout = next(item for item in abi if item.get("name") == "set_payout")
        payout["name"] = "set_operator"


@pytest.mark.parametrize(
    ("how", "where"),
    [("address", "api"), ("address", "file"), ("address", "both"), ("abi", "api"), ("", "page")],
)
def test_a_server_that_lies__is_found_out_before_anything_is_signed(
    stage: Stage, visit: Begin, how: str, where: str
) -> None:
    reader, wallet = _planned(stage, visit)
    truth = json.loads(stage.deployment.read_bytes())

    def api(route: Route) -> None:
        answer = route.fetch()
        said = answer.json()
        _lie(said["contracts"], how)
        route.fulfill(response=answer, json=said)

    def file(route: Route) -> None:
        said = json.loads(json.dumps(truth))
        _lie(said["contracts"], how)
        route.fulfill(body=json.dumps(said, indent=1), content_type="application/json")

    if where in ("api", "both"):
        reader.page.route("**/api/deployment", api)
    if where in ("file", "both"):
        reader.page.route("**/api/deployment/file", file)
    if where == "page":
        script = "document.documentElement.dataset.deployment = 'ab'.repeat(32)"
        reader.page.add_init_script(f"addEventListener('DOMContentLoaded', () => {{ {script} }})")
    reader.page.reload()
    expect(reader.page.locator(".wallet-note")).to_contain_text("lies")
    reader.submit("set-payout", payout=Account.create().address)
    assert "lies" in reader.refusal()
    assert not wallet.sent


def test_a_server_that_lies_in_one_voice__is_not_who_this_browser_knows(
    stage: Stage, visit: Begin
) -> None:
    """Page, API and file agree with one another, on another deployment than before."""
    reader, wallet = _planned(stage, visit)
    said = json.loads(stage.deployment.read_bytes())
    _lie(said["contracts"], "address")
    body = json.dumps(said, indent=1)
    digest = hashlib.sha256(body.encode()).hexdigest()
    reader.page.route(
        "**/api/deployment/file",
        lambda route: route.fulfill(body=body, content_type="application/json"),
    )
    reader.page.route(
        "**/api/deployment", lambda route: route.fulfill(json={**said, "sha256": digest})
    )
    script = f"document.documentElement.dataset.deployment = '{digest}'"
    reader.page.add_init_script(f"addEventListener('DOMContentLoaded', () => {{ {script} }})")
    reader.page.reload()
    note = reader.page.locator(".wallet-note")
    expect(note).to_contain_text("other contracts")
    reader.submit("set-payout", payout=Account.create().address)
    assert "other contracts" in reader.refusal()
    note.get_by_role("button", name="I have compared it").click()
    expect(note).to_contain_text("There is no contract NodeRegistry")
    assert not wallet.sent


def test_claim__of_several_jobs_in_one_go(stage: Stage, visit: Begin) -> None:
    people = stage.people
    payout = stage.person()
    node: Node = people.enlist("many", payout=payout)
    people.benchmark(node)
    for rounds in (2, 3):
        stage.job(rounds, rounds)
        stage.play(node, people.nodes["bob"])
    assert stage.balance(payout) == 0
    wallet = stage.wallet(payout)
    reader = visit(wallet)
    reader.connect(wallet)
    said = reader.carry_out("claim")
    assert stage.balance(payout) == 2 * share(1, 2)
    assert len(wallet.sent) == 1 and "were taken out" in said


@pytest.mark.parametrize("times", [1, 2], ids=["told once", "told twice"])
def test_claim__pay_that_a_job_retained_is_released_first(
    stage: Stage, visit: Begin, times: int
) -> None:
    """It is one release, too, where the server names the node and the job twice."""
    people, chain = stage.people, stage.people.chain
    payout = stage.person()
    node: Node = people.enlist(f"retained {times}", payout=payout)
    for each in (node, people.nodes["bob"]):
        people.benchmark(each)
    job = stage.job(1, 1, retain_rounds=1)
    stage.play(node, people.nodes["bob"])
    kept = chain.call(people.pool, "retained", job, node.node_id)
    assert kept == share(1, 2) and chain.call(people.pool, "pending", payout.address) == 0
    wallet = stage.wallet(payout)
    reader = visit(wallet)

    def told(route: Route) -> None:
        answer = route.fetch()
        said = answer.json()
        for name in said.keys() & {"paid_by", "deeds"}:
            said[name] *= times
        route.fulfill(response=answer, json=said)

    reader.page.route(re.compile(r"/api/(accounts|nodes)/"), told)
    stage.indexed()
    reader.connect(wallet)
    reader.submit("claim")
    plan = reader.page.locator(".action-plan")
    expect(plan).to_contain_text(f"that job {job} retained of node {node.node_id}")
    expect(plan.locator("h3")).to_have_text("Claim 425 ZOO")
    expect(plan.locator(".action-step")).to_have_count(2)
    reader.sign()
    assert "425 ZOO were taken out" in reader.result()
    assert stage.balance(payout) == kept
    assert len(wallet.sent) == 2


def test_refused_by_the_contract__its_reason_and_what_to_do(stage: Stage, visit: Begin) -> None:
    """A stranger presses an owner's button."""
    wallet = stage.wallet(stage.person(10))
    reader = visit(wallet)
    reader.connect(wallet, f"/nodes/{stage.people.nodes['ann'].node_id}")
    reader.submit("begin-exit")
    words = reader.refusal()
    assert "registry: not the owner" in words and "Connect the wallet that owns the node" in words
    reader.sign()
    assert "registry: not the owner" in reader.refusal()
    assert not wallet.sent
