# SPDX-License-Identifier: Apache-2.0
"""Who takes content as it comes, piece by piece, so that nobody holds all of it.

Rule: what a sink was given counts once `ContentStore.stream` has returned. Only then are the bytes
those of the CID; before, they may be anybody's, and a sink says nothing about them.
"""

from __future__ import annotations

from typing import Protocol

from agents.storage.cid import Buffer, CidBuilder
from agents.storage.errors import TooLarge


class Sink(Protocol):
    """Takes one content. It keeps no piece, whose room is used again."""

    def begin(self) -> None:
        """What came so far is void, as where another store is asked; the first byte comes next."""

    def write(self, data: Buffer, /) -> object:
        """Take the next bytes."""


class Hashed:
    """A sink in front of another, which also computes the CID of what comes.

    max_bytes: more of them are TooLarge.
    """

    def __init__(self, sink: Sink, max_bytes: int) -> None:
        self._sink, self._max_bytes = sink, max_bytes
        self._builder = CidBuilder()

    @property
    def size(self) -> int:
        """Bytes that came since the last `begin`."""
        return self._builder.size

    def cid(self) -> str:
        """The CID of what came since the last `begin`."""
        return self._builder.cid()

    def begin(self) -> None:
        """Begin both anew."""
        self._builder = CidBuilder()
        self._sink.begin()

    def write(self, data: Buffer, /) -> None:
        """Hash the bytes and hand them on. Raises TooLarge."""
        self._builder.update(data)
        if self.size > self._max_bytes:
            raise TooLarge(f"{self.size} bytes came; at most {self._max_bytes} are allowed")
        self._sink.write(data)
