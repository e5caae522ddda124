# SPDX-License-Identifier: Apache-2.0
"""A node that answers HTTP 200 with something that is no JSON-RPC answer, and then well again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.runtime.chain import ChainClient, Head
from agents.runtime.errors import RpcDown, RpcRefused
from agents.runtime.feed import HeadFeed
from agents.runtime.loop import Loop
from agents.runtime.metrics import Metrics
from tests.agents.runtime.conftest import Front, Lines, eventually

ODD = [
    {"error": "Too many requests"},
    {"error": {"code": "RATE_LIMIT", "message": "slow down"}},
    {"error": {"code": None, "message": "slow down"}},
    {"error": ""},
    {"message": "rate limit exceeded"},
    {"result": {"number": None, "hash": None}},
    {"result": "busy"},
    [],
    None,
    "busy",
]


class Node(Front):
    """A chain of `newest` blocks behind a real HTTP server. `odd`: its next answers, once each."""

    def __init__(self) -> None:
        self.newest = 100
        self.odd: list[Any] = []
        self.always: Any = ...  # what it answers to each request
        super().__init__(self.answer)

    def answer(self, asked: Any) -> Any:
        if self.always is not ...:
            return self.always
        if self.odd:
            return self.odd.pop(0)
        if isinstance(asked, list):
            return [self.one(request) for request in asked]
        return self.one(asked)

    def one(self, request: dict[str, Any]) -> dict[str, Any]:
        result: Any = "0x1"
        if request["method"] == "eth_getBlockByNumber":
            block = request["params"][0]
            number = self.newest if block == "latest" else int(block, 16)
            result = {
                "number": hex(number),
                "hash": f"0x{number + 1:064x}",
                "parentHash": f"0x{number:064x}",
                "timestamp": hex(1000 + number),
            }
        elif request["method"] == "eth_getLogs":
            result = []
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}


@pytest.fixture
def node() -> Iterator[Node]:
    found = Node()
    yield found
    found.close()


@pytest.fixture
def client(node: Node, lines: Lines) -> ChainClient:
    return ChainClient(node.url, lines.log, tries=2, pause_s=0.01)


@pytest.fixture
def feed(client: ChainClient, lines: Lines) -> Iterator[HeadFeed]:
    found = HeadFeed(client, lines.log, "", poll_s=0.02).start()
    yield found
    found.stop()


def sees(feed: HeadFeed, number: int) -> Callable[[], bool]:
    return lambda: feed.latest is not None and feed.latest.number == number


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_answer_is_asked_again_and_many_are_a_node_that_is_down(
    node: Node, client: ChainClient, lines: Lines, odd: Any
) -> None:
    node.odd = [odd]
    assert client.head().number == 100
    node.odd = [odd]
    assert client.newest_hash(7) == (8).to_bytes(32, "big")
    node.always = odd
    for _ in range(2):
        with pytest.raises(RpcDown):
            client.head()
    assert len(lines.events("rpc_down")) == 1, "one outage is said once"
    node.always = ...
    assert client.head().number == 100


@pytest.mark.parametrize("odd", [["busy", "busy"], [None, 1], [{"id": 1}, {"id": "2"}]])
def test_odd_parts_of_a_batch_are_asked_again(node: Node, client: ChainClient, odd: Any) -> None:
    node.odd = [odd]
    asked: list[tuple[str, list[Any]]] = [("eth_chainId", []), ("eth_blockNumber", [])]
    assert [answer["result"] for answer in client.ask_many(asked)] == ["0x1", "0x1"]


def test_a_batch_that_is_refused_in_a_sentence_is_halved(node: Node, client: ChainClient) -> None:
    node.odd = [{"error": "batch too large"}]
    asked: list[tuple[str, list[Any]]] = [("eth_chainId", []), ("eth_blockNumber", [])]
    assert [answer["result"] for answer in client.ask_many(asked)] == ["0x1", "0x1"]


def test_a_refusal_by_the_book_stays_a_refusal(node: Node, client: ChainClient) -> None:
    node.odd = [{"error": {"code": "-32601", "message": "no such method"}}]
    with pytest.raises(RpcRefused) as refused:
        client.request("eth_chainId")
    assert refused.value.code == -32601


@pytest.mark.parametrize("odd", ODD)
def test_heads_are_followed_after_odd_answers(node: Node, feed: HeadFeed, odd: Any) -> None:
    eventually(sees(feed, 100))
    node.odd = [odd] * 5
    eventually(lambda: not node.odd)
    node.newest = 105
    eventually(sees(feed, 105), timeout=10)
    assert feed.running


@pytest.mark.parametrize("where", ["poll", "socket"])
def test_no_error_ends_the_feed_and_each_kind_is_said_once(
    node: Node, client: ChainClient, lines: Lines, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    feed = HeadFeed(client, lines.log, "" if where == "poll" else None, poll_s=0.02)
    troubles: list[Exception] = [AttributeError("a"), TypeError("b"), AttributeError("c")]

    def broken() -> Any:
        if troubles:
            raise troubles.pop(0)
        return ChainClient.head(client)

    if where == "poll":
        monkeypatch.setattr(client, "head", broken)
    else:
        monkeypatch.setattr(feed, "_follow", broken)
        monkeypatch.setattr("agents.runtime.feed._RETRY_MAX_S", 0.02)
    feed.start()
    try:
        eventually(lambda: not troubles)
        eventually(sees(feed, 100), timeout=10)
        node.newest = 101
        eventually(sees(feed, 101), timeout=10)
    finally:
        feed.stop()
    said = [line["why"] for line in lines.events("feed_failed")]
    assert said == ["AttributeError: a", "TypeError: b"]


def test_the_loop_asks_for_heads_itself_when_its_feed_has_ended(
    node: Node, client: ChainClient, feed: HeadFeed, lines: Lines
) -> None:
    eventually(sees(feed, 100))
    feed.stop()
    node.newest = 107
    stop, seen = threading.Event(), []

    class Agent:
        def step(self, head: Head) -> str | None:
            seen.append(head.number)
            stop.set()
            return None

    Loop(Agent(), client, feed, lines.log, Metrics("test"), stop, timer_s=0.05).run()
    assert seen == [107]
