# SPDX-License-Identifier: Apache-2.0
"""Small reads of the store for the pages: reports, reasons, specs, and how large a file is.

Rule: a file is content-addressed, so what was read once is kept. Nobody's file is trusted: each is
read up to a bound, and one that is malformed counts as missing.

A daemon may search for seconds for what nobody serves. So what it did not find is not looked for
again for a minute, then for two, for an hour at last; a page spends `PAGE_S` on it, and few threads
at once ask it. What a page leaves out counts as missing, and the page is not `whole`. A folder
answers at once: none of this holds for it.
"""

from __future__ import annotations

import copy
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import yaml

from agents.rounds.report import MAX_REPORT_BYTES, ReportError, RoundReport
from agents.storage.canonical import loads
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreError
from scripts._web.api.at_once import AtOnce, TooMany

T = TypeVar("T")
SEARCH_S = 2.0  # that a daemon searches for one file
PAGE_S = 4.0  # that one page waits for a daemon, beside the last file
MISS_S, LONGEST_MISS_S = 60.0, 3_600.0
_MOST = 4_096  # files that are kept
_EVIDENCE_BYTES, _REASON = 1 << 16, 600
_SPEC_BYTES = 1 << 16


_Key = tuple[str, str]  # kind of file, and its digest or CID


class Artefacts:
    """Files of a store, by the digest that the chain has of them.

    `whole`: False once something was left out that the store may have.
    """

    def __init__(
        self, store: ContentStore | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._clock = store, clock
        self._known: OrderedDict[_Key, object] = OrderedDict()
        self._missed: OrderedDict[_Key, tuple[float, float]] = OrderedDict()  # until, how long
        self._lock = Lock()
        self._turns = AtOnce(4, waiting=4, patience_s=1.0)
        self._left = math.inf
        self.whole = True

    def for_a_page(self) -> Artefacts:
        """The same files, for one page: with `PAGE_S` for all that it waits for."""
        mine = copy.copy(self)
        mine._left, mine.whole = PAGE_S, True
        return mine

    def report(self, digest: str) -> RoundReport | None:
        """A round's report."""

        def read(raw: bytes) -> RoundReport | None:
            try:
                return RoundReport.from_bytes(raw)
            except ReportError:
                return None

        return self._read("report", digest, MAX_REPORT_BYTES, read)

    def reason(self, cid: str) -> str:
        """What a verifier's evidence says, shortened; empty if it says nothing readable."""

        def read(raw: bytes) -> str:
            try:
                fields = loads(raw)
            except (ValueError, RecursionError):
                return ""
            said = fields.get("reason") if isinstance(fields, dict) else None
            return said[:_REASON] if isinstance(said, str) else ""

        return self._read("reason", digest_of(cid).hex(), _EVIDENCE_BYTES, read) or ""

    def spec(self, digest: str) -> str:
        """A job's spec as YAML, as a sponsor writes it; empty if the store has none."""

        def read(raw: bytes) -> str:
            try:
                fields = loads(raw)
                return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)[:_SPEC_BYTES]
            except (ValueError, RecursionError, yaml.YAMLError):
                return ""

        return self._read("spec", digest, _SPEC_BYTES, read) or ""

    def has(self, cid: str) -> bool:
        """Whether the store keeps a copy."""
        key = "copy", cid

        def ask(store: ContentStore) -> bool:
            kept = store.has(cid)
            if not kept:
                self._miss(key)
            return kept

        return self._ask(key, ask) or False

    def size(self, cid: str) -> int | None:
        """How many bytes a file of the embedded store has, None where it can't be told cheaply."""
        if not isinstance(self._store, EmbeddedStore):
            return None
        try:
            return self._store.size(cid)
        except StoreError:
            return None

    def _read(
        self, kind: str, digest: str, most: int, read: Callable[[bytes], T | None]
    ) -> T | None:
        raw_digest = bytes.fromhex(digest.removeprefix("0x"))
        if not raw_digest.strip(b"\0"):
            return None
        key = kind, digest
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]  # type: ignore[return-value]

        def ask(store: ContentStore) -> T | None:
            found = read(store.get_digest(raw_digest, most))
            with self._lock:
                self._missed.pop(key, None)
                self._known[key] = found
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
            return found

        return self._ask(key, ask)

    def _ask(self, key: _Key, ask: Callable[[ContentStore], T]) -> T | None:
        """What the store says, None where it has nothing or is not asked."""
        store = self._store
        if store is None:
            return None
        try:
            if isinstance(store, EmbeddedStore):
                return ask(store)
            with self._lock:
                until, _ = self._missed.get(key, (-math.inf, 0.0))
            if self._clock() < until:
                return None
            if self._left <= 0:
                self.whole = False
                return None
            with self._turns.taken():
                began = self._clock()
                try:
                    return ask(store)
                finally:
                    self._left -= self._clock() - began
        except TooMany:
            self._left, self.whole = min(self._left, 0.0), False
            return None
        except StoreError:
            self._miss(key)
            return None  # another store, or a later time, may have it

    def _miss(self, key: _Key) -> None:
        """Do not look for it again for a while."""
        with self._lock:
            _, last = self._missed.pop(key, (0.0, 0.0))
            pause = min(max(MISS_S, 2 * last), LONGEST_MISS_S)
            self._missed[key] = self._clock() + pause, pause
            while len(self._missed) > _MOST:
                self._missed.popitem(last=False)
