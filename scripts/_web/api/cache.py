# SPDX-License-Identifier: Apache-2.0
"""Answers the same question once for each block, and with 304 whoever has the answer already.

Rule: an answer to GET is kept under the block after which it was read. The first reader who asks
after a further block has it made anew. Whoever asks while it is being made gets the one before, if
that is of the same branch and at most `MOST_BEHIND` blocks old; a reader who says `no-cache` or
`max-age=0`, as the page's own script does, waits for the new one. So a reader who asks alone never
gets an old answer, and many readers never wait for one another. An answer is made once its bytes
are known: how slowly somebody takes them holds up nobody else.

What is kept is bounded in bytes, and compressed once. What says `no-store` is kept by nobody, such
as a page that lacks what the chain could not be asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scripts._web.api.packing import accepts_packed, may_pack, pack

MOST_BEHIND = 2  # blocks
_MOST_BYTES = 64 << 20
_MOST_ANSWER = 4 << 20
_BESIDES = 2_048  # bytes of an answer's headers, and of what holds it
# What is streamed, or says more than the block does.
_NEVER = ("/api/live", "/api/store/", "/api/status", "/health", "/metrics", "/static/")
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Version:
    """What answers depend on beside the question. `branch`: counts reorganisations. `also`: what
    else a page says of the index."""

    block: int
    hash: str
    branch: int = 0
    also: str = ""

    def stands_in(self, newer: Version) -> bool:
        """Whether an answer of this version does while the newer one's is made."""
        return self.branch == newer.branch and 0 <= newer.block - self.block <= MOST_BEHIND

    def is_after(self, other: Version) -> bool:
        """Whether the index had this version later."""
        return (self.branch, self.block) > (other.branch, other.block)


@dataclass(frozen=True)
class _Answer:
    """`packed`: the body compressed, empty where that gains nothing."""

    version: Version
    etag: bytes
    headers: Headers
    body: bytes
    packed: bytes


class BlockCache:
    """ASGI middleware. `version`: the one that the index has now."""

    def __init__(
        self, app: ASGIApp, version: Callable[[], Version], most_bytes: int = _MOST_BYTES
    ) -> None:
        self._app = app
        self._version = version
        self._most = most_bytes
        self._held = 0
        self._answers: OrderedDict[tuple[str, bytes], _Answer] = OrderedDict()
        self._making: dict[tuple[str, bytes, Version], asyncio.Event] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(_NEVER):
            await self._app(scope, receive, send)
            return
        question = scope["path"], scope["query_string"]
        version = self._version()
        making = (*question, version)
        event = self._making.get(making)
        found = self._answers.get(question)
        if event is not None:
            if found is not None and found.version.stands_in(version) and not _insists(scope):
                await _give(found, scope, send)
                return
            await event.wait()
            found = self._answers.get(question)
        if found is not None and found.version == version:
            self._answers.move_to_end(question)
            await _give(found, scope, send)
            return
        mine = self._making.setdefault(making, asyncio.Event())

        def made() -> None:
            """Let those go on who wait: the answer is kept, or nobody keeps it."""
            mine.set()
            if self._making.get(making) is mine:
                del self._making[making]

        try:
            await self._make(question, version, scope, receive, send, made)
        finally:
            made()

    async def _make(
        self,
        question: tuple[str, bytes],
        version: Version,
        scope: Scope,
        receive: Receive,
        send: Send,
        made: Callable[[], None],
    ) -> None:
        """Make an answer and send it. `made`: called before the first byte is sent."""
        start: Message | None = None
        parts: list[bytes] = []
        passing = False

        async def keep(message: Message) -> None:
            nonlocal start, passing
            if passing:
                await send(message)
                return
            if message["type"] == "http.response.start":
                start = message
                if message["status"] != 200 or not _may_keep(message):
                    passing = True
                    made()
                    await send(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body") and sum(map(len, parts)) <= _MOST_ANSWER:
                return
            assert start is not None
            if message.get("more_body"):
                passing = True
                made()
                await send(start)
                await send({**message, "body": b"".join(parts)})
                return
            answer = await _answer(version, start, b"".join(parts))
            self._keep(question, answer)
            made()
            await _give(answer, scope, send)

        await self._app(scope, receive, keep)

    def _keep(self, question: tuple[str, bytes], answer: _Answer) -> None:
        old = self._answers.get(question)
        if old is not None and old.version.is_after(answer.version):
            return  # it was made while this one was
        self._answers.pop(question, None)
        self._held += _size(question, answer) - (0 if old is None else _size(question, old))
        self._answers[question] = answer
        while self._held > self._most and self._answers:
            self._held -= _size(*self._answers.popitem(last=False))


def _size(question: tuple[str, bytes], answer: _Answer) -> int:
    """What an answer takes in memory. Short answers to long questions are many, and not free."""
    path, query = question
    return len(answer.body) + len(answer.packed) + 4 * len(path) + len(query) + _BESIDES


def _may_keep(message: Message) -> bool:
    never = any(k == b"cache-control" and b"no-store" in v for k, v in message["headers"])
    return not never and not _has(message, b"content-encoding")


def _has(message: Message, name: bytes) -> bool:
    return any(key == name for key, _ in message["headers"])


def _insists(scope: Scope) -> bool:
    """Whether a reader wants no answer but the newest."""
    said = next((v for k, v in scope["headers"] if k == b"cache-control"), b"")
    return b"no-cache" in said or b"max-age=0" in said


async def _answer(version: Version, start: Message, body: bytes) -> _Answer:
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    headers = start["headers"]
    kept = [(k, v) for k, v in headers if k not in (b"etag", b"content-length")]
    if not _has(start, b"cache-control"):
        kept.append((b"cache-control", b"no-cache"))
    kept.append((b"vary", b"accept-encoding"))
    packed = await asyncio.to_thread(pack, body) if may_pack(headers, body) else b""
    return _Answer(version, etag, kept, body, packed)


async def _give(answer: _Answer, scope: Scope, send: Send) -> None:
    packed = bool(answer.packed) and accepts_packed(scope["headers"])
    # The same text in other bytes: its tag is a weak one.
    headers = [*answer.headers, (b"etag", b"W/" + answer.etag if packed else answer.etag)]
    asked = next((v for k, v in scope["headers"] if k == b"if-none-match"), b"")
    known = {tag.strip().removeprefix(b"W/") for tag in asked.split(b",")}
    if answer.etag in known or b"*" in known:
        headers = [(k, v) for k, v in headers if k != b"content-type"]
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    body = answer.packed if packed else answer.body
    headers.append((b"content-length", b"%d" % len(body)))
    if packed:
        headers.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
