# SPDX-License-Identifier: Apache-2.0
"""Earlier records of validators, a few of which are looked for in one step of a member.

Rule: a distant store searches long for what nobody has, and whether a record follows those before
it may take one search for each of 64 (`agents.gauntlet.record_chain`). So a step makes few searches
that fail, and what was missing is not looked for again for a while. What a member has judged by
then it need not ask twice, so the same vector is done some steps later.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.gauntlet.record import OlderRecord, RecordError, ScoreRecord
from agents.storage.errors import StoreError, StoreUnavailable

SEARCHES = 4  # in one step, that fail
MISSING_S = 20 * 60  # for which one that was missing is not looked for again


class SearchesSpent(StoreError):
    """No more searches in this step."""


class EarlierRecords:
    """`read`: a record by its digest. Raises StoreError, RecordError."""

    def __init__(self, read: Callable[[bytes], ScoreRecord]) -> None:
        self._read = read
        self._now = 0
        self._failed = 0
        self._missing: dict[bytes, int] = {}  # until when, in seconds of the chain

    def begin(self, now: int) -> None:
        """A step begins. `now`: seconds of the chain."""
        self._now, self._failed = now, 0
        self._missing = {d: until for d, until in self._missing.items() if until > now}

    def of(self, digest: bytes) -> ScoreRecord | None:
        """A record; None if it can't be had or read, which proves nothing.

        Raises OlderRecord, SearchesSpent, StoreUnavailable.
        """
        if digest in self._missing:
            return None
        if self._failed >= SEARCHES:
            raise SearchesSpent("enough records were missing in this step")
        try:
            return self._read(digest)
        except (StoreUnavailable, OlderRecord):
            raise
        except (StoreError, RecordError):
            self._failed += 1
            self._missing[digest] = self._now + MISSING_S
            return None
