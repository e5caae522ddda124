# SPDX-License-Identifier: Apache-2.0
"""Readers who take nothing of their answers cost the server open sockets, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy.pool import QueuePool
from starlette.types import Message

from scripts._web.api.app import create_app
from scripts._web.serve import html
from tests.stage.memory.empty_page import empty_page

PATIENCE_S = 120.0


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    with empty_page(tmp_path) as site:
        yield create_app(site, html())


def held_while_sent(app: FastAPI, path: str) -> list[int]:
    """How many connections to the index are in use as each part of an answer is sent."""
    pool = app.state.site.engine.pool
    assert isinstance(pool, QueuePool)
    held: list[int] = []

    async def receive() -> Message:
        await asyncio.sleep(PATIENCE_S)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        held.append(pool.checkedout())

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asyncio.run(app(scope, receive, send))
    return held


@pytest.mark.parametrize("path", ["/api/nodes", "/api/home", "/", "/nodes", "/about"])
def test_an_answer_holds_no_connection_to_the_index_while_it_is_sent(
    app: FastAPI, path: str
) -> None:
    """Attack: fifty readers ask, and take nothing for as long as one may. There are as many
    connections to the index, and every other page waited for one."""
    held = held_while_sent(app, path)
    assert held and set(held) == {0}
