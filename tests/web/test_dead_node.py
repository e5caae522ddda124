# SPDX-License-Identifier: Apache-2.0
"""The chain's node dies under an open page and returns: both are said, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eth_account import Account
from playwright.sync_api import Browser, expect

from tests.stage.chain.proxy import Proxy
from tests.stage.journeys import Stage, Visit
from tests.stage.journeys import stage as make_stage


@pytest.fixture(scope="module")
def proxies() -> Iterator[list[Proxy]]:
    """What stands between the chain's node and everybody who asks it."""
    made: list[Proxy] = []
    yield made
    for proxy in made:
        proxy.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, proxies: list[Proxy]) -> Iterator[Stage]:
    def reached(url: str) -> str:
        proxies.append(Proxy(url, faults=["dropped"]))
        return proxies[0].url_of("readers")

    with make_stage(tmp_path_factory.mktemp("stage"), reached) as stage:
        yield stage


def test_rpc_dies_and_returns__the_page_says_both_and_loses_nothing(
    stage: Stage, proxies: list[Proxy], browser: Browser
) -> None:
    node = stage.people.nodes["ann"]
    wallet = stage.wallet(node.owner)
    reader = Visit(browser, stage.page.url, wallet)
    reader.connect(wallet, f"/nodes/{node.node_id}")
    wanted = Account.create().address
    stage.anvil.rpc("evm_setAutomine", False)
    reader.submit("set-payout", payout=wanted)
    reader.sign()
    reader.step("change", "sent")

    proxies[0].fault_rate = 1.0
    reader.step("change", "offline")
    banner = reader.page.locator("#connection")
    expect(banner).to_contain_text("node does not answer")
    reader.page.reload()  # the page and what was begun are there without a node
    expect(reader.page.locator("h1")).to_be_visible()
    expect(banner).to_contain_text("node does not answer")

    proxies[0].fault_rate = 0.0
    expect(banner).to_contain_text("answers again")
    stage.anvil.next_block()
    stage.anvil.rpc("evm_setAutomine", True)
    assert wanted in reader.result()  # the page has gone on with what was begun, by itself
    chain = stage.people.chain
    assert chain.call(stage.people.registry, "node", node.node_id).payout == wanted
    assert len(wallet.sent) == 1
    reader.close()
