# SPDX-License-Identifier: Apache-2.0
"""What an RPC node writes into its errors: neither log, metrics nor agent is harmed by it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import requests

from agents.runtime.chain import ChainClient, Head
from agents.runtime.feed import HeadFeed
from agents.runtime.logs import open_log
from agents.runtime.loop import Loop
from agents.runtime.metrics import Metrics
from agents.runtime.printable import printable
from scripts._net.ports import free_port
from tests.agents.runtime.test_odd_answers import Node

FORGED = "12:00:00 info    claimed                  amount=100"
WORDS = f"no\n{FORGED}\x1b[2J\u202e\ud800\u0085{FORGED}"


class Asks:
    """An agent whose node refuses what it asks, then ends."""

    def __init__(self, client: ChainClient, stop: threading.Event) -> None:
        self._client, self._stop = client, stop

    def step(self, head: Head) -> str | None:
        self._stop.set()
        self._client.request("eth_chainId")
        return None


class Refusing(Node):
    """A node that refuses one method in its own words."""

    def one(self, request: dict[str, object]) -> dict[str, object]:
        if request["method"] != "eth_chainId":
            return super().one(request)
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": WORDS}}


@pytest.mark.parametrize("human", [True, False])
def test_an_agent_whose_node_says_anything__logs_it_and_can_still_be_watched(
    tmp_path: Path, human: bool
) -> None:
    node, stop, metrics = Refusing(), threading.Event(), Metrics("test")
    path = tmp_path / "agent.log"
    log = open_log("test", human=human, path=path)
    client = ChainClient(node.url, log, tries=2, pause_s=0.01)
    feed = HeadFeed(client, log, "", poll_s=0.02)
    port = free_port()
    metrics.serve(port)
    try:
        Loop(Asks(client, stop), client, feed, log, metrics, stop, timer_s=0.05).run()
        reply = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
    finally:
        node.close()
    assert reply.status_code == 200
    assert 'menagerie_errors_total{kind="RpcRefused"} 1.0' in reply.text
    written = path.read_text(encoding="utf-8")
    assert "RpcRefused" in written
    for text in (reply.text, written):
        assert not any(line.startswith(FORGED) for line in text.splitlines())
        assert not {"\x1b", "\u202e", "\x85"} & set(text)


def test_printable__what_is_printed_stays_and_the_rest_has_its_code() -> None:
    assert printable("é 好 ✓") == "é 好 ✓"
    assert printable("a\x1b\u202e\ud800\U000e0041") == r"a\x1b\u202e\ud800\U000e0041"
    assert printable("a\nb\t", keep="\n") == "a\nb\\x09"
