# SPDX-License-Identifier: Apache-2.0
"""What is offered for a transaction when blocks become dear while it waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import requests
from eth_account.typed_transactions import TypedTransaction
from hexbytes import HexBytes

from agents.runtime.chain import ChainClient
from agents.runtime.errors import TxRefused
from agents.runtime.sender import Sender
from tests.agents.runtime.conftest import eventually
from tests.agents.runtime.test_sender import (
    Background,
    mine_at,
    mine_full,
    pooled,
    small_blocks,
    waiting,
)

GWEI = 10**9


@pytest.fixture
def careful(chain, wallet, lines) -> Sender:
    """It pays 100 gwei at most."""
    return Sender(chain, wallet, 31337, lines.log, poll_s=0.03, max_fee_wei=100 * GWEI)


def test_a_waiting_transaction_is_offered_as_much_as_the_limit_allows(careful, anvil, tiny, lines):
    """At a base fee of 60 gwei, twice that is above the limit, and the limit would do. The
    transaction kept its first fee, or was given up, and its window went by."""
    mine_at(anvil, 5 * GWEI)
    run = waiting(careful, anvil, tiny)
    mine_at(anvil, 60 * GWEI)
    eventually(lambda: lines.events("tx_replaced") or not run.thread.is_alive())
    eventually(lambda: pooled(anvil, careful.address) or not run.thread.is_alive())
    anvil.mine()
    assert run.join().status == 1
    assert [line["max_fee"] for line in lines.events("tx_replaced")] == [100 * GWEI]


def test_what_the_limit_can_pay_is_sent(careful, anvil, tiny):
    mine_at(anvil, 60 * GWEI)
    assert careful.send(tiny, "ping").status == 1


def test_what_the_limit_cannot_pay_is_not_sent(careful, anvil, tiny):
    mine_at(anvil, 130 * GWEI)  # and 113.75 in the next block
    with pytest.raises(TxRefused, match="above the limit of 100000000000"):
        careful.send(tiny, "ping")


class Picky:
    """A full pool in front of a real node: it takes nothing below `least` of tip, in geth's words.
    Everything else is the node's own answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.least, self.refused = 0, 0

    def answer(self, asked: Any) -> Any:
        if isinstance(asked, dict) and asked["method"] == "eth_sendRawTransaction":
            sent = TypedTransaction.from_bytes(HexBytes(asked["params"][0])).as_dict()
            if sent["maxPriorityFeePerGas"] < self.least:
                self.refused += 1
                error = {"code": -32000, "message": "transaction underpriced"}
                return {"jsonrpc": "2.0", "id": asked["id"], "error": error}
        return requests.post(self._url, json=asked, timeout=60).json()


def test_a_full_pool_is_offered_more_in_each_block(anvil, tiny, wallet, lines, front):
    """geth says `transaction underpriced` where its pool is full of dearer ones, whatever the
    nonce. It counted as a nonce that another process had taken: the same bytes went out again and
    again, without a pause and without a higher fee, and no other transaction of the key got out."""
    picky = Picky(anvil.url)
    stop = threading.Event()
    chain = ChainClient(front(picky.answer).url, lines.log, pause_s=0.05)
    sender = Sender(chain, wallet, 31337, lines.log, stop=stop, poll_s=0.03)
    try:
        tip = int(chain.request("eth_maxPriorityFeePerGas"), 16)
        picky.least = tip * 13 // 10
        run = Background(lambda: sender.send(tiny, "ping"))
        eventually(lambda: picky.refused)
        for _ in range(4):
            seen = picky.refused
            anvil.mine()
            eventually(lambda seen=seen: picky.refused > seen or not run.thread.is_alive())
        assert run.join(5).status == 1
        assert not lines.events("tx_nonce_taken")
        assert picky.refused == 3
    finally:
        stop.set()


def test_blocks_count_from_the_shorter_branch_that_a_transaction_waits_on(
    sender, chain, anvil, tiny, lines
):
    """It waits three blocks and is replaced. After a reorganisation to a branch ten blocks shorter
    it waited thirteen."""

    def looks():
        return chain.traffic.calls()["eth_getTransactionByHash"]

    def looked_at():
        """The block that was mined last is; of two looks the second began after it."""
        before = looks()
        eventually(lambda: looks() >= before + 2 or lines.events("tx_replaced"))

    small_blocks(anvil)
    anvil.mine(12)
    run = waiting(sender, anvil, tiny)
    looked_at()
    anvil.rpc("anvil_rollback", 10)
    anvil.rpc("evm_setBlockGasLimit", hex(600_000))
    assert len(pooled(anvil, sender.address)) == 1
    looked_at()
    for _ in range(3):
        mine_full(anvil, tiny, 1)
        looked_at()
    assert len(lines.events("tx_replaced")) == 1 and not lines.events("tx_resent")
    anvil.mine()
    assert run.join().status == 1
