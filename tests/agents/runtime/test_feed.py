# SPDX-License-Identifier: Apache-2.0
"""Following a real node: sockets that drop, nodes that restart, branches that vanish."""

from __future__ import annotations

import time

import pytest

from agents.runtime.chain import ChainClient, Head
from agents.runtime.errors import RpcDown
from agents.runtime.event_cursor import EventCursor
from agents.runtime.feed import HeadFeed, websocket_url
from tests.agents.runtime.conftest import deploy, eventually


@pytest.fixture
def follow(chain, lines):
    feeds = []

    def begin(client=chain, **options):
        feeds.append(HeadFeed(client, lines.log, poll_s=0.05, **options).start())
        return feeds[-1]

    yield begin
    for feed in feeds:
        feed.stop()
        assert not feed._thread.is_alive()


def until(feed, number, timeout=60):
    """Wait for the head `number`; return all heads taken on the way."""
    deadline, heads = time.monotonic() + timeout, []
    while time.monotonic() < deadline:
        head = feed.wait(0.2)
        if head is not None:
            heads.append(head)
            if head.number >= number:
                return heads
    raise AssertionError(f"block {number} did not arrive; saw {heads}")


def test_the_socket_url_is_derived():
    assert websocket_url("http://127.0.0.1:8545") == "ws://127.0.0.1:8545"
    assert websocket_url("https://node.example/key") == "wss://node.example/key"


@pytest.mark.parametrize("url", [None, ""])
def test_heads_arrive_by_socket_and_by_polling(follow, anvil, url):
    feed = follow(ws_url=url, silence_s=600)  # no poll helps the socket
    until(feed, 0)
    if url is None:
        eventually(lambda: feed.connected)
    anvil.mine()
    (head,) = until(feed, 1)
    assert head.hash.hex() == anvil.rpc("eth_getBlockByNumber", "0x1", False)["hash"][2:]
    assert feed.wait(0.1) is None and feed.latest == head
    assert feed.connected == (url is None)


def test_only_the_newest_head_waits(follow, anvil):
    feed = follow()
    eventually(lambda: feed.connected)
    until(feed, 0)
    for _ in range(10):
        anvil.mine()
    eventually(lambda: feed.latest.number == 10)
    assert feed.wait(60).number == 10
    assert feed.wait(0.1) is None


@pytest.mark.parametrize("url", [None, ""])
def test_a_reorg_is_seen_although_nothing_announces_it(follow, anvil, lines, url):
    feed = follow(ws_url=url)
    if url is None:
        eventually(lambda: feed.connected)
    anvil.mine(6)
    assert not any(head.reorged for head in until(feed, 6))
    anvil.rpc("anvil_reorg", 3, [])
    deadline, seen = time.monotonic() + 60, []
    while not any(head.reorged for head in seen):
        assert time.monotonic() < deadline, f"no reorg among {seen}"
        head = feed.wait(0.2)
        seen += [head] if head else []
    anvil.mine()
    assert not until(feed, 7)[-1].reorged
    assert lines.events("reorg")


def test_a_head_with_another_parent_is_a_reorg(chain, lines):
    feed = HeadFeed(chain, lines.log, "")
    blocks = [bytes([i]) * 32 for i in range(6)]
    feed._accept(Head(1, blocks[1], blocks[0], 10))
    feed._accept(Head(2, blocks[2], blocks[1], 11))
    assert not feed.wait(0).reorged
    feed._accept(Head(3, blocks[3], blocks[5], 12))
    feed._accept(Head(4, blocks[4], blocks[3], 13))
    head = feed.wait(0)
    assert (head.number, head.reorged) == (4, True), "the flag survives merging"


def test_skipped_blocks_are_no_reorg(follow, anvil):
    feed = follow(ws_url="")
    until(feed, 0)
    anvil.mine(50)
    assert not any(head.reorged for head in until(feed, 50))


def test_a_node_that_restarts_is_found_again(start_anvil, follow, lines, tmp_path):
    anvil = start_anvil("--state", str(tmp_path / "state.json"))
    feed = follow(ChainClient(anvil.url, lines.log, pause_s=0.02))
    eventually(lambda: feed.connected)
    anvil.mine()
    until(feed, 1)
    anvil.stop()
    eventually(lambda: not feed.connected)
    time.sleep(0.5)
    anvil.start()
    eventually(lambda: feed.connected)
    anvil.mine()
    until(feed, 2)
    assert len(lines.events("rpc_down")) == 1


def test_a_node_without_sockets_is_polled(follow, anvil, lines):
    feed = follow(ws_url="ws://127.0.0.1:9")
    until(feed, 0)
    anvil.mine()
    until(feed, 1)
    assert not feed.connected
    assert lines.events("feed_polling")


def ping(anvil, tiny, times=1):
    caller = anvil.rpc("eth_accounts")[0]
    for _ in range(times):
        data = "0x" + tiny.function("ping", 0).encode([]).hex()
        tx = anvil.rpc("eth_sendTransaction", {"from": caller, "to": tiny.address, "data": data})
        anvil.receipt(tx)


def numbers(batch):
    return [event.args["n"] for event in batch.events]


def test_backfill_misses_and_doubles_nothing(chain, anvil, tiny):
    ping(anvil, tiny, 2)
    cursor = EventCursor(chain, tiny, ["Pinged"], 0)
    first = cursor.poll()
    assert numbers(first) == [1, 2] and first.rewound_to is None
    assert numbers(cursor.poll()) == []
    ping(anvil, tiny, 3)
    assert numbers(cursor.poll()) == [3, 4, 5]


def test_backfill_rewinds_over_a_reorg(chain, anvil, tiny):
    cursor = EventCursor(chain, tiny, ["Pinged"], 0)
    ping(anvil, tiny, 2)
    cursor.poll()
    kept = chain.head().number
    ping(anvil, tiny, 2)
    assert numbers(cursor.poll()) == [3, 4]
    anvil.rpc("anvil_reorg", 2, [])
    ping(anvil, tiny)
    batch = cursor.poll()
    assert batch.rewound_to == kept + 1
    assert numbers(batch) == [3]
    assert numbers(cursor.poll()) == []


def test_backfill_stays_put_while_the_node_is_down(start_anvil, compiled, lines, tmp_path):
    anvil = start_anvil("--state", str(tmp_path / "state.json"))
    tiny = deploy(anvil, compiled)
    cursor = EventCursor(ChainClient(anvil.url, lines.log, pause_s=0.02), tiny, ["Pinged"], 0)
    ping(anvil, tiny)
    assert numbers(cursor.poll()) == [1]
    ping(anvil, tiny)
    anvil.stop()
    with pytest.raises(RpcDown):
        cursor.poll()
    anvil.start()
    assert numbers(cursor.poll()) == [2]
