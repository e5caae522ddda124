# SPDX-License-Identifier: Apache-2.0
"""A node of the chain that hangs takes some of the server's threads, and none while it is known."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import httpx
import pytest

from scripts._web.api.app import create_app
from scripts._web.api.at_once import AtOnce, TooMany
from scripts._web.api.site import Silent, Site
from scripts._web.serve import html
from tests.stage.memory.empty_page import empty_page

READERS = 60  # the server has 40 threads
PATIENCE_S = 120.0


@pytest.fixture
def node() -> Iterator[socket.socket]:
    """A node that takes requests, and answers none until it is closed."""
    with socket.create_server(("127.0.0.1", 0), backlog=READERS) as listener:
        yield listener


@pytest.fixture
def site(tmp_path: Path, node: socket.socket) -> Iterator[Site]:
    url = f"http://127.0.0.1:{node.getsockname()[1]}"
    with empty_page(tmp_path, url, timeout_s=PATIENCE_S) as site:
        yield site


def test_readers_of_what_a_hanging_node_must_say_leave_threads_for_others(
    site: Site, node: socket.socket
) -> None:
    """Attack: /committee?1, /committee?2, .. took all threads, and every other page waited."""

    async def attack() -> None:
        transport = httpx.ASGITransport(create_app(site, html()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = [
                asyncio.create_task(client.get(f"/committee?x={number}"))
                for number in range(READERS)
            ]
            answers = asyncio.as_completed(asked, timeout=PATIENCE_S / 4)
            for answer in islice(answers, READERS - site.at_the_chain.most):
                found = await answer
                assert found.status_code == 503 and "Too many ask" in found.text
            other = await asyncio.wait_for(client.get("/nodes?after=1"), PATIENCE_S / 4)
            assert other.status_code == 200 and sum(not one.done() for one in asked) == 16
            node.close()
            assert {(await one).status_code for one in asked} == {503}

    asyncio.run(attack())
    with ExitStack() as all_turns:
        for _ in range(site.at_the_chain.most):
            all_turns.enter_context(site.at_the_chain.taken())


@pytest.mark.parametrize("path", ["/committee", "/api/operations"])
def test_a_node_that_is_known_to_be_silent_is_not_asked(
    site: Site, node: socket.socket, path: str
) -> None:
    site.standing.rpc_down = True

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(site, html()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    found = asyncio.run(ask())
    assert found.status_code == 503 and str(Silent()) in found.text
    node.setblocking(False)
    with pytest.raises(BlockingIOError):
        node.accept()


def test_few_wait_for_a_turn_and_no_longer_than_they_may() -> None:
    turns = AtOnce(2, waiting=1, patience_s=0.01)
    with turns.taken(), turns.taken(), pytest.raises(TooMany), turns.taken():
        pass
    with turns.taken(), turns.taken():
        pass
