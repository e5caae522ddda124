# SPDX-License-Identifier: Apache-2.0
"""Copies of the store's files, verified and on this machine's disk while they are sent.

Rule: all readers of a file are sent the same copy, and all copies together have a bound. One that
is being sent stays; of the others the one that was asked for longest ago goes first. So readers
that take their time cost open connections, and no disk.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound

MOST_BYTES = 4 << 30  # of one file
MOST_HELD = 2 * MOST_BYTES  # of all copies
_AT_ONCE = 4  # that are being made
_PATIENCE_S = 5.0


class Busy(Exception):
    """There is no room for another copy, or too many are being made."""


@dataclass
class _Copy:
    """`size`: its bytes, or those that are kept free for it while it is made. `users`: requests
    that it is lent to."""

    path: Path
    size: int = 0
    users: int = 0
    ready: bool = False
    making: threading.Lock = field(default_factory=threading.Lock)


class Copies:
    """Copies of one store's files. `most`: bytes of all together."""

    def __init__(self, store: ContentStore, most: int = MOST_HELD) -> None:
        self._store, self._most = store, most
        self._folder = tempfile.TemporaryDirectory(prefix="menagerie-web-")
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._guard = threading.Lock()
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    @property
    def held(self) -> int:
        """Bytes that the copies take."""
        return sum(copy.size for copy in self._copies.values())

    def lend(self, cid: str) -> Path:
        """A file's copy, which stays until it is given back. Raises Busy, StoreError."""
        with self._guard:
            copy = self._copies.setdefault(cid, _Copy(Path(self._folder.name) / cid))
            self._copies.move_to_end(cid)
            copy.users += 1
        try:
            with _taken(copy.making):
                if not copy.ready:
                    with _taken(self._turns):
                        self._make(cid, copy)
        except BaseException:
            self.give_back(cid)
            raise
        return copy.path

    def give_back(self, cid: str) -> None:
        """The copy is not needed any more."""
        with self._guard:
            copy = self._copies[cid]
            copy.users -= 1
            if not copy.users and not copy.ready:
                del self._copies[cid]

    def close(self) -> None:
        """Delete all copies."""
        self._folder.cleanup()

    def _make(self, cid: str, copy: _Copy) -> None:
        if not self._store.has(cid):
            raise NotFound
        known = self._store.size(cid) if isinstance(self._store, EmbeddedStore) else MOST_BYTES
        with self._guard:
            copy.size = self._room(min(known, MOST_BYTES))
        try:
            copy.size = self._store.get_file(cid, copy.path, copy.size)
            copy.ready = True
        finally:
            if not copy.ready:
                copy.size = 0

    def _room(self, wanted: int) -> int:
        """Delete copies that nobody is sent until there is room; so many bytes."""
        idle = [cid for cid, copy in self._copies.items() if not copy.users]
        for cid in idle:
            if self.held + wanted <= self._most:
                break
            self._copies.pop(cid).path.unlink(missing_ok=True)
        if self.held + wanted > self._most:
            raise Busy
        return wanted


@contextmanager
def _taken(lock: threading.Lock | threading.Semaphore) -> Iterator[None]:
    if not lock.acquire(timeout=_PATIENCE_S):
        raise Busy
    try:
        yield
    finally:
        lock.release()
