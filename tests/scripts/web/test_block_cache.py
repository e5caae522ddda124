# SPDX-License-Identifier: Apache-2.0
"""What the cache of answers keeps, and for how long."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI, Response

from scripts._web.api.cache import BlockCache, _size

MOST = 100_000


class Page:
    """An application of one address, which counts how often it had to answer."""

    def __init__(self) -> None:
        self.block, self.made, self.policy = 1, 0, ""
        app = FastAPI()

        @app.get("/page")
        def page(response: Response) -> int:
            self.made += 1
            if self.policy:
                response.headers["cache-control"] = self.policy
            return self.made

        self.cache = BlockCache(app, lambda: self.block, most_bytes=MOST)

    def ask(self, query: str = "", **headers: str) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.cache)
            async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
                return await client.get(f"/page{query}", headers=headers)

        return asyncio.run(asked())


def test_an_answer_is_kept_for_one_block() -> None:
    page = Page()
    assert [page.ask().text for _ in range(3)] == ["1", "1", "1"]
    page.block = 2
    assert page.ask().text == "2" and page.made == 2


def test_what_says_no_store_is_kept_by_nobody() -> None:
    """Such as a page that had to say that too many asked: the next reader has its own."""
    page = Page()
    page.policy = "no-store"
    first = page.ask()
    assert first.text == "1" and first.headers["cache-control"] == "no-store"
    page.policy = ""
    assert page.ask().text == "2" and page.ask().text == "2"


def test_the_host_that_a_reader_names_changes_nothing() -> None:
    page = Page()
    page.ask(host="evil.example", **{"x-forwarded-host": "evil.example"})
    assert "evil" not in page.ask().text and page.made == 1


def test_endless_questions_take_bounded_memory() -> None:
    """Also long ones whose answers are short: what they take is counted with what holds them."""
    page = Page()
    for number in range(500):
        page.ask(f"?x={number}{'y' * 2_000}")
    assert page.cache._held <= MOST and 1 <= len(page.cache._answers) <= MOST // 4_000
    assert sum(_size(*kept) for kept in page.cache._answers.items()) == page.cache._held
    assert page.cache._making == {}
    page.block = 2
    for _ in range(100):
        page.ask("?x=the same")
        page.block += 1
    assert sum(_size(*kept) for kept in page.cache._answers.items()) == page.cache._held
