# SPDX-License-Identifier: Apache-2.0
"""Where content lies while it comes from a distant store, and who hashes it meanwhile.

A large file comes in pieces that end where its leaves do. The caller's thread receives a piece and
keeps it, another thread hashes it. A piece goes into room that is used again, and from there into a
file; or at once to where it stays in memory.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol

from agents.storage.cid import PROFILE

PIECE: Final = 4 * PROFILE.chunk_size
"""Bytes that are received, hashed and kept at a time."""
_SMALL: Final = 1 << 20  # bytes that are hashed as they come; it takes less than a millisecond
_AHEAD: Final = 4  # pieces that lie somewhere and are not hashed, at most, with the one that comes


class Meanwhile:
    """Hashes the pieces of a large file, in order, in a thread; those of a small one at once.

    take: what hashes a piece. It keeps no part of it.
    """

    def __init__(self, take: Callable[[memoryview], object]) -> None:
        self._take = take
        self._seen = 0
        self._pool: ThreadPoolExecutor | None = None
        self._open: deque[Future[None]] = deque()

    def __enter__(self) -> Meanwhile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def take(self, piece: memoryview) -> None:
        """Hash a piece, which is released then. Raises what hashing an earlier one has raised."""
        self._seen += len(piece)
        if self._seen <= _SMALL:
            self._taken(piece)
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "ipfs-pieces")
        self._open.append(self._pool.submit(self._taken, piece))
        if len(self._open) == _AHEAD:
            self._open.popleft().result()

    def wait(self) -> None:
        """Until all are hashed."""
        while self._open:
            self._open.popleft().result()

    def _taken(self, piece: memoryview) -> None:
        with piece:
            self._take(piece)


class Arrival(Protocol):
    """Where content lies while it comes."""

    def expect(self, count: int) -> None:
        """Be told how much will come, before anything does. It may be a lie."""

    def room(self, at: int, hashed: Callable[[], None]) -> memoryview:
        """Room for what comes next, behind `at` bytes. It ends where a leaf does, or before.

        hashed: waits until all that came is hashed.
        """

    def keep(self, piece: memoryview) -> None:
        """Keep what came, which lies at the beginning of the room that was given last."""


class Writes(Protocol):
    """A file, or what takes bytes as one does."""

    def write(self, data: memoryview, /) -> object:
        """Take the next bytes, and keep no part of `data`."""


class InFile:
    """Content that goes into a file."""

    def __init__(self, file: Writes) -> None:
        self._file = file
        self._rooms: deque[bytearray] = deque()

    def expect(self, count: int) -> None:
        """Be told how much will come: a file grows by itself."""

    def room(self, at: int, hashed: Callable[[], None]) -> memoryview:
        """The room that was used longest ago: what lay in it is hashed."""
        if len(self._rooms) < _AHEAD:
            self._rooms.append(bytearray(PIECE))
        else:
            self._rooms.rotate(-1)
        return memoryview(self._rooms[-1])[: PIECE - at % PIECE]

    def keep(self, piece: memoryview) -> None:
        """Write it."""
        self._file.write(piece)


class InMemory:
    """Content that stays where it comes to lie."""

    def __init__(self) -> None:
        self._content = io.BytesIO()
        self._size = 0

    def expect(self, count: int) -> None:
        """Reserve addresses for so many bytes: memory is used where bytes come."""
        with suppress(MemoryError):
            self._content = io.BytesIO(bytes(count))

    def room(self, at: int, hashed: Callable[[], None]) -> memoryview:
        """The place of the next bytes. Where more came than was told, there is more room."""
        if at == len(self._content.getbuffer()):
            hashed()  # what is looked at can not be moved
            end = at + max(PIECE, at // 4)
            self._content.seek(end - end % PIECE - 1)
            self._content.write(b"\0")
        return self._content.getbuffer()[at : at + PIECE - at % PIECE]

    def keep(self, piece: memoryview) -> None:
        """It lies there."""
        self._size += len(piece)

    def content(self) -> bytes:
        """All that was kept, without a copy."""
        self._content.truncate(self._size)
        return self._content.getvalue()
