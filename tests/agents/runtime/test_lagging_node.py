# SPDX-License-Identifier: Apache-2.0
"""Two real nodes behind one address, of which one is a block behind the other."""

from __future__ import annotations

import pytest
import requests

from agents.runtime.chain import ChainClient
from agents.runtime.errors import RpcRefused
from agents.runtime.event_cursor import EventCursor, EventLog
from tests.agents.runtime.test_feed import ping


class Balancer:
    """The next `late` requests for logs go to the node that is behind, all others to the other."""

    def __init__(self, url: str, behind: str) -> None:
        self._url, self._behind = url, behind
        self.late = 0

    def answer(self, asked):
        methods = [one["method"] for one in (asked if isinstance(asked, list) else [asked])]
        url = self._url
        if self.late and "eth_getLogs" in methods:
            self.late -= 1
            url = self._behind
        return requests.post(url, json=asked, timeout=60).json()


@pytest.fixture
def balancer(anvil, tiny, start_anvil):
    ping(anvil, tiny)
    number = int(anvil.rpc("eth_blockNumber"), 16)
    behind = start_anvil("--fork-url", anvil.url, "--fork-block-number", str(number))
    ping(anvil, tiny)
    assert int(behind.rpc("eth_blockNumber"), 16) == number
    return Balancer(anvil.url, behind.url)


@pytest.mark.parametrize("looking", [True, False])
def test_events_of_a_block_that_a_node_has_not_yet_are_not_taken_as_none(
    balancer, tiny, deployment, lines, front, looking
):
    """It gives the logs that it has, without a word. They counted as all of them, and the events of
    the newest block were missing for as long as the process lived."""
    chain = ChainClient(front(balancer.answer).url, lines.log, pause_s=0.05)
    chain.watch(deployment, frozenset())
    events = EventLog(EventCursor(chain, tiny, ["Pinged"], 0))

    def read():
        if not looking:
            return [event.args["n"] for event in events.read()]
        with chain.look(chain.newest_head()):
            return [event.args["n"] for event in events.read()]

    balancer.late = 1
    with pytest.raises(RpcRefused, match="the node has no block"):
        read()
    assert read() == [1, 2]
