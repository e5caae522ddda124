# SPDX-License-Identifier: Apache-2.0
"""Tells open pages of each step of the index: from the indexer's thread to the server's loop.

Rule: a reader that is slow loses nothing it needs. Steps that it has not taken are joined into one,
which names everything they changed. Readers are bounded, and closing ends them all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace

from scripts._web.follow.indexer import Change

MOST_READERS = 500
HEARTBEAT_S = 15.0
_MOST_IDS = 200  # in one message; a page that hears of more than that asks for everything


class TooManyReaders(Exception):
    """No more pages are told of changes."""


@dataclass(eq=False)
class _Reader:
    woken: asyncio.Event
    waiting: Change | None = None


class Live:
    """The newest step, and the readers that are told of each. `told` may come from any thread."""

    def __init__(self, most: int = MOST_READERS, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._most = most
        self._heartbeat_s = heartbeat_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readers: set[_Reader] = set()
        self._closed = False
        self.newest: Change | None = None

    @property
    def readers(self) -> int:
        """How many are listening."""
        return len(self._readers)

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve readers on this loop from now on."""
        self._loop = loop
        self._closed = False

    def told(self, change: Change) -> None:
        """The index has taken a step."""
        self.newest = change
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._pass_on, change)

    def close(self) -> None:
        """End every reader."""
        self._closed = True
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.woken.set()

    def _pass_on(self, change: Change) -> None:
        for reader in self._readers:
            reader.waiting = _joined(reader.waiting, change)
            reader.woken.set()

    def listen(self) -> AsyncIterator[bytes]:
        """Server-sent events, beginning with the newest step. Raises TooManyReaders at once."""
        if len(self._readers) >= self._most:
            raise TooManyReaders
        return self._messages()

    async def _messages(self) -> AsyncIterator[bytes]:
        reader = _Reader(asyncio.Event(), self.newest)
        if reader.waiting is not None:
            reader.woken.set()
        self._readers.add(reader)
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                try:
                    async with asyncio.timeout(self._heartbeat_s):
                        await reader.woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                reader.woken.clear()
                change, reader.waiting = reader.waiting, None
                if change is not None:
                    yield b"data: " + json.dumps(message(change)).encode() + b"\n\n"
        finally:
            self._readers.discard(reader)


def _joined(before: Change | None, change: Change) -> Change:
    if before is None:
        return change
    return replace(
        change,
        jobs=tuple(sorted({*before.jobs, *change.jobs})),
        nodes=tuple(sorted({*before.nodes, *change.nodes})),
        events=before.events + change.events,
        reorg=before.reorg or change.reorg,
    )


def message(change: Change) -> dict[str, object]:
    """What readers are told of a step. `reorg`: anything may have changed."""
    many = len(change.jobs) + len(change.nodes) > _MOST_IDS
    return {
        "block": change.block,
        "hash": change.hash,
        "time": change.time,
        "jobs": [] if many else list(change.jobs),
        "nodes": [] if many else list(change.nodes),
        "reorg": change.reorg or many,
    }
