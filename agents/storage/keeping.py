# SPDX-License-Identifier: Apache-2.0
"""A store that keeps a copy of all that is read from another one.

What was read once is read from the copy afterwards, so a long download that was interrupted goes on
where it stopped. Every byte is checked against its CID, whatever the other store says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agents.storage.cid import Buffer
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, NotFound
from agents.storage.sink import Sink
from agents.storage.spans import Span, Spans

Fetched = Callable[[str, int], None]
"""Hears the CID and the bytes of what came from the other store."""


def _unheard(cid: str, size: int) -> None:
    pass


class KeepingStore:
    """A ContentStore in front of `source`. `copies`: what was read before. Writes go to it, too."""

    def __init__(
        self, copies: EmbeddedStore, source: ContentStore, fetched: Fetched = _unheard
    ) -> None:
        self._copies, self._source, self._fetched = copies, source, fetched
        self.location = source.location

    def put_bytes(self, data: Buffer) -> str:
        """Keep the bytes among the copies."""
        return self._copies.put_bytes(data)

    def put_file(self, path: str | Path) -> str:
        """Keep a file's content among the copies."""
        return self._copies.put_file(path)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content; a copy that is damaged is fetched again."""
        try:
            return self._copies.get(cid, max_bytes)
        except (NotFound, CorruptContent):
            return self._fetch(cid, max_bytes)

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`."""
        self.get(cid, max_bytes)
        return self._copies.get_file(cid, dest, max_bytes)

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink`. What is no copy yet is fetched whole."""
        try:
            return self._copies.stream(cid, sink, max_bytes)
        except (NotFound, CorruptContent):
            self._fetch(cid, max_bytes)
            return self._copies.stream(cid, sink, max_bytes)

    def has(self, cid: str) -> bool:
        """Whether there is a copy, or the other store has the content."""
        return self._copies.has(cid) or self._source.has(cid)

    def pin(self, cid: str) -> None:
        """A copy is kept as it is; anything else is pinned where it comes from."""
        if not self._copies.has(cid):
            self._source.pin(cid)

    def resolve(self, digest: bytes) -> str:
        """The CID that a digest names."""
        try:
            return self._copies.resolve(digest)
        except (NotFound, CorruptContent):
            return self._source.resolve(digest)

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names."""
        return self.get(self.resolve(digest), max_bytes)

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Parts of the content that a digest names. What is no copy becomes none by them."""
        try:
            return self._copies.get_spans(digest, spans, max_bytes)
        except (NotFound, CorruptContent):
            return self._source.get_spans(digest, spans, max_bytes)

    def leave(self, box: bytes, cid: str) -> None:
        """In a box of the other store."""
        self._source.leave(box, cid)

    def left(self, box: bytes, most: int) -> list[str]:
        """What lies in a box of the other store."""
        return self._source.left(box, most)

    def take_away(self, box: bytes, cid: str) -> None:
        """Out of a box of the other store."""
        self._source.take_away(box, cid)

    def close(self) -> None:
        """Release the other store's connections. The copies stay."""
        self._source.close()

    def _fetch(self, cid: str, max_bytes: int) -> bytes:
        data = self._source.get(cid, max_bytes)
        if self._copies.put_bytes(data) != cid:
            raise CorruptContent(f"{self.location} gave other bytes for {cid}")
        self._fetched(cid, len(data))
        return data
