# SPDX-License-Identifier: Apache-2.0
"""Reading and sending through a provider that is far away and fails now and then."""

from __future__ import annotations

import pytest

from agents.runtime.chain import ChainClient
from agents.runtime.errors import RpcDown
from agents.runtime.feed import HeadFeed
from agents.runtime.sender import Sender
from tests.agents.runtime.conftest import eventually
from tests.stage.chain.proxy import FAULTS, Proxy


@pytest.fixture
def proxy(anvil):
    found = Proxy(anvil.url)
    yield found
    found.close()


@pytest.fixture
def remote(proxy, lines):
    return ChainClient(proxy.url_of("test"), lines.log, tries=8, pause_s=0.01)


def test_the_proxy_counts_each_client_alone(proxy, remote, tiny, lines):
    remote.call_many([(tiny, "n", []), (tiny, "n", [])])
    ChainClient(proxy.url_of("other"), lines.log).head()
    count = proxy.count("test")
    assert (count.requests, count.calls) == (1, {"eth_call": 2})
    assert proxy.count("other").requests == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_counts_as_a_node_that_is_down(proxy, lines, fault):
    proxy.fault_rate, proxy.faults = 1.0, (fault,)
    with pytest.raises(RpcDown):
        ChainClient(proxy.url_of("test"), lines.log, tries=1).head()
    assert proxy.count("test").faults == {fault: 1}


def test_faults_change_nothing_that_is_read_or_sent(proxy, remote, tiny, wallet, lines):
    proxy.fault_rate = 0.3
    sender = Sender(remote, wallet, 31337, lines.log, poll_s=0.01)
    for number in range(1, 6):
        sender.send(tiny, "ping")
        assert remote.call(tiny, "n") == number
    proxy.fault_rate = 0.0
    found = remote.events(tiny, "Pinged", 0, remote.head().number)
    assert [event.args["n"] for event in found] == [1, 2, 3, 4, 5]
    assert proxy.count("test").faults.total() > 0


def test_heads_come_by_the_proxys_socket_and_without_it_by_polling(proxy, remote, anvil, lines):
    feed = HeadFeed(remote, lines.log, poll_s=0.05).start()
    try:
        eventually(lambda: feed.connected)
        anvil.mine()
        eventually(lambda: feed.latest is not None and feed.latest.number == 1)
    finally:
        feed.stop()
    proxy.websocket = False
    feed = HeadFeed(remote, lines.log, poll_s=0.05).start()
    try:
        anvil.mine()
        eventually(lambda: feed.latest is not None and feed.latest.number == 2)
        assert not feed.connected
    finally:
        feed.stop()
