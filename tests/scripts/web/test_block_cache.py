# SPDX-License-Identifier: Apache-2.0
"""What the cache of answers keeps, and for how long."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.types import Message

from scripts._web.api.cache import _MOST_ANSWER, MOST_BEHIND, BlockCache, Version, _size

MOST = 100_000


class Page:
    """An application of one address, which counts how often it had to answer."""

    def __init__(self) -> None:
        self.block, self.branch, self.made, self.policy = 1, 0, 0, ""
        self.slow: asyncio.Event | None = None
        app = FastAPI()

        @app.get("/page")
        async def page(response: Response) -> int:
            self.made += 1
            made = self.made
            if self.policy:
                response.headers["cache-control"] = self.policy
            if self.slow is not None:
                await self.slow.wait()
            return made

        @app.get("/long")
        def long() -> str:
            return "the same words " * 1_000

        @app.get("/endless")
        def endless() -> StreamingResponse:
            self.made += 1
            return StreamingResponse(iter([b"x" * _MOST_ANSWER, b"y", b"z"]))

        @app.get("/broken")
        def broken(response: Response) -> int:
            self.made += 1
            response.status_code = 503
            return self.made

        self.cache = BlockCache(app, self.version, most_bytes=MOST)

    def version(self) -> Version:
        return Version(self.block, f"hash {self.block}", self.branch)

    def ask(self, query: str = "", **headers: str) -> httpx.Response:
        return asyncio.run(self.asked(f"/page{query}", **headers))

    async def asked(self, path: str = "/page", **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.cache)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return await client.get(path, headers=headers)

    async def asked_while_made(self, headers: dict[str, str]) -> tuple[str, str]:
        """What the first reader after a block gets, and one who asks before the first is served."""
        self.slow = asyncio.Event()
        first = asyncio.create_task(self.asked())
        while not self.cache._making:
            await asyncio.sleep(0)
        second = asyncio.create_task(self.asked(**headers))
        for _ in range(200):
            await asyncio.sleep(0)
        waits = not second.done()
        self.slow.set()
        answers = (await first).text, (await second).text
        self.slow = None
        assert waits == (answers[1] == answers[0])
        return answers


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


@pytest.mark.parametrize(
    ("blocks", "branches", "headers", "old"),
    [
        (1, 0, {}, True),
        (MOST_BEHIND, 0, {}, True),
        (MOST_BEHIND + 1, 0, {}, False),
        (1, 1, {}, False),
        (-1, 1, {}, False),
        (1, 0, {"cache-control": "no-cache"}, False),
        (1, 0, {"cache-control": "max-age=0"}, False),
    ],
)
def test_while_an_answer_is_made_others_get_the_one_before(
    blocks: int, branches: int, headers: dict[str, str], old: bool
) -> None:
    """If it is of the same branch, not too old, and they have not asked for the newest."""
    page = Page()
    page.ask()
    page.block += blocks
    page.branch += branches
    assert asyncio.run(page.asked_while_made(headers)) == ("2", "1" if old else "2")
    assert page.ask().text == "2" and page.made == 2
    page.block += 1
    assert page.ask().text == "3", "who asks alone gets no old answer"


def test_a_slow_answer_does_not_replace_a_newer_one() -> None:
    page = Page()

    async def both() -> None:
        page.slow = slow = asyncio.Event()
        first = asyncio.create_task(page.asked())
        while not page.made:
            await asyncio.sleep(0)
        page.slow, page.block = None, 2
        assert (await page.asked()).text == "2"
        slow.set()
        assert (await first).text == "1"
        assert (await page.asked()).text == "2" and page.made == 2

    asyncio.run(both())


@pytest.mark.parametrize(
    ("path", "policy", "made"),
    [("/page", "", 1), ("/page", "no-store", 2), ("/broken", "", 2), ("/endless", "", 2)],
)
def test_who_takes_nothing_of_an_answer_holds_up_nobody(path: str, policy: str, made: int) -> None:
    """Attack: the first reader after a block, who takes nothing for a minute. Reloads waited."""
    page = Page()
    page.policy = policy
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"page")],
    }

    async def both() -> None:
        asked, taken = asyncio.Event(), asyncio.Event()

        async def send(message: Message) -> None:
            asked.set()
            await taken.wait()

        async def receive() -> Message:
            await taken.wait()
            return {"type": "http.disconnect"}

        slow = asyncio.create_task(page.cache(scope, receive, send))
        await asked.wait()
        second = page.asked(path, **{"cache-control": "max-age=0"})
        found = await asyncio.wait_for(second, 60)
        assert not slow.done() and found.content and page.made == made
        taken.set()
        await slow
        assert page.cache._making == {}

    asyncio.run(both())


def test_who_waits_makes_the_answer_itself_once_the_first_has_failed() -> None:
    page = Page()

    async def both() -> None:
        page.slow = slow = asyncio.Event()
        first = asyncio.create_task(page.asked())
        while not page.made:
            await asyncio.sleep(0)
        second = asyncio.create_task(page.asked())
        for _ in range(50):
            await asyncio.sleep(0)
        assert page.made == 1
        first.cancel()
        page.slow = None
        slow.set()
        assert (await second).text == "2" and page.cache._making == {}

    asyncio.run(both())


def test_text_is_compressed_for_whoever_takes_it() -> None:
    page = Page()

    def get(accepted: str, **headers: str) -> httpx.Response:
        return asyncio.run(page.asked("/long", **{"accept-encoding": accepted, **headers}))

    packed, plain = get("br, gzip;q=0.5"), get("identity")
    assert packed.headers["content-encoding"] == "gzip" and packed.text == plain.text
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 10
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
    for refused in ("gzip;q=0", "", "br"):
        assert "content-encoding" not in get(refused).headers
    for tag in (packed.headers["etag"], plain.headers["etag"]):
        assert get("gzip", **{"if-none-match": tag}).status_code == 304
    assert "content-encoding" not in page.ask(**{"accept-encoding": "gzip"}).headers  # too short
