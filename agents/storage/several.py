# SPDX-License-Identifier: Apache-2.0
"""Several content stores as one: they are tried in the order in which the setting lists them.

A read goes on to the next store whatever the last one said, because another may have the content.
A write goes to the first store that takes it. A store that did not answer is tried last for a
while: finding that out takes seconds, and a round has many reads. What all of them said comes back
as one error: as too large if any of them has so many bytes, since a CID has one content; else as
unavailable if any of them was, because then nobody knows whether the content exists.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agents.storage.cid import Buffer
from agents.storage.content_store import ContentStore, open_store
from agents.storage.errors import (
    CorruptContent,
    InvalidCid,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)
from agents.storage.sink import Sink
from agents.storage.spans import Span, Spans

T = TypeVar("T")

_REST_S = 20.0  # that a store which did not answer is tried last

# Of several failures the caller hears of the one that settles it, or else leaves most open.
_GRAVITY = (TooLarge, StoreUnavailable, CorruptContent, NotFound)


def as_list(setting: str | Sequence[str]) -> list[str]:
    """Return the stores that a setting names, one or several."""
    return [setting] if isinstance(setting, str) else list(setting)


def open_stores(
    setting: str | Sequence[str], *, timeout_s: float = 60.0, until: float = math.inf
) -> ContentStore:
    """Open the store that a setting names, or the stores that it lists, tried in that order.

    `timeout_s`, `until` as of `open_store`. Raises StoreError when one of them is no store's name.
    """
    stores = [open_store(one, timeout_s=timeout_s, until=until) for one in as_list(setting)]
    if not stores:
        raise StoreError("the store setting lists none; name at least one")
    return stores[0] if len(stores) == 1 else SeveralStores(stores)


class SeveralStores:
    """A ContentStore that asks other ones in turn. `stores`: at least one."""

    def __init__(self, stores: Sequence[ContentStore]) -> None:
        self._stores = tuple(stores)
        self._resting: dict[int, float] = {}  # by place: until when
        self.location = ", then ".join(store.location for store in stores)

    def put_bytes(self, data: Buffer) -> str:
        """Keep the bytes in the first store that takes them."""
        return self._first(lambda store: store.put_bytes(data))

    def put_file(self, path: str | Path) -> str:
        """Keep a file's content in the first store that takes it."""
        return self._first(lambda store: store.put_file(path))

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content, from the first store that has it."""
        return self._first(lambda store: store.get(cid, max_bytes))

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`, from the first store that has it."""
        return self._first(lambda store: store.get_file(cid, dest, max_bytes))

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink`, from the first store that has all of it."""
        return self._first(lambda store: store.stream(cid, sink, max_bytes))

    def has(self, cid: str) -> bool:
        """Whether one of the stores keeps a complete copy. Raises only if none could say so."""
        failed: list[StoreError] = []
        for place in self._order():
            try:
                if self._stores[place].has(cid):
                    return True
            except InvalidCid:
                raise
            except StoreError as error:
                self._note(place, error)
                failed.append(error)
        if failed:
            raise self._gravest(failed)
        return False

    def pin(self, cid: str) -> None:
        """Keep the content in the first store that has it."""
        self._first(lambda store: store.pin(cid))

    def resolve(self, digest: bytes) -> str:
        """The CID that a digest names, from the first store that has its block."""
        return self._first(lambda store: store.resolve(digest))

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest names, from the first store that has it."""
        return self._first(lambda store: store.get_digest(digest, max_bytes))

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Parts of the content that a digest names, from the first store that has them."""
        return self._first(lambda store: store.get_spans(digest, spans, max_bytes))

    def leave(self, box: bytes, cid: str) -> None:
        """In each store that has the content: a reader may list other ones of them first."""
        self._each(lambda store: store.leave(box, cid))

    def left(self, box: bytes, most: int) -> list[str]:
        """What lies in any of them, `most` at most."""
        found = self._each(lambda store: store.left(box, most))
        return list(dict.fromkeys(cid for cids in found for cid in cids))[:most]

    def take_away(self, box: bytes, cid: str) -> None:
        """Out of each store."""
        self._each(lambda store: store.take_away(box, cid))

    def close(self) -> None:
        """Release all connections."""
        for store in self._stores:
            store.close()

    def _first(self, ask: Callable[[ContentStore], T]) -> T:
        failed: list[StoreError] = []
        for place in self._order():
            try:
                return ask(self._stores[place])
            except InvalidCid:
                raise  # the caller's own mistake, in every store the same
            except StoreError as error:
                self._note(place, error)
                failed.append(error)
        raise self._gravest(failed)

    def _each(self, ask: Callable[[ContentStore], T]) -> list[T]:
        """What the stores say that can; raises only if none can. One that rests is not asked."""
        found: list[T] = []
        failed: list[StoreError] = []
        now = time.monotonic()
        for place in self._order():
            if found and self._resting.get(place, now) > now:
                continue
            try:
                found.append(ask(self._stores[place]))
            except InvalidCid:
                raise
            except StoreError as error:
                self._note(place, error)
                failed.append(error)
        if not found:
            raise self._gravest(failed)
        return found

    def _order(self) -> list[int]:
        now = time.monotonic()
        return sorted(range(len(self._stores)), key=lambda p: self._resting.get(p, now) > now)

    def _note(self, place: int, error: StoreError) -> None:
        if isinstance(error, StoreUnavailable):
            self._resting[place] = time.monotonic() + _REST_S

    @staticmethod
    def _gravest(failed: Sequence[StoreError]) -> StoreError:
        def rank(error: StoreError) -> int:
            return next((i for i, kind in enumerate(_GRAVITY) if isinstance(error, kind)), 0)

        worst = min(failed, key=rank)
        return type(worst)("; ".join(str(error) for error in failed))
