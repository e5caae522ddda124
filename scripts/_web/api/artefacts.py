# SPDX-License-Identifier: Apache-2.0
"""Small reads of the store for the pages: reports, reasons, specs, and how large a file is.

Rule: a file is content-addressed, so what was read once is kept. Nobody's file is trusted: each is
read up to a bound, and one that is malformed counts as missing.
"""

from __future__ import annotations

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

T = TypeVar("T")
_MOST = 4_096  # files that are kept
_EVIDENCE_BYTES, _REASON = 1 << 16, 600
_SPEC_BYTES = 1 << 16


class Artefacts:
    """Files of a store, by the digest that the chain has of them."""

    def __init__(self, store: ContentStore | None) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], object] = OrderedDict()
        self._lock = Lock()

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
        if self._store is None:
            return False
        try:
            return self._store.has(cid)
        except StoreError:
            return False

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
        if self._store is None or not raw_digest.strip(b"\0"):
            return None
        key = kind, digest
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]  # type: ignore[return-value]
        try:
            found = read(self._store.get_digest(raw_digest, most))
        except StoreError:
            return None  # another store, or a later time, may have it
        with self._lock:
            self._known[key] = found
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found
