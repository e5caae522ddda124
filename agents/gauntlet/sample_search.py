# SPDX-License-Identifier: Apache-2.0
"""How the sync samples of a round are looked for, some of which nobody serves.

Rule: they are looked for side by side, in threads of their own, since a distant store searches a
minute for each that is missing. Who waits for them waits a bounded time. What was not there is
looked for again after a pause as long as its search took, until the search is ended: what is not
here by then is missing in this round, and costs nobody a second search. Else a few nodes that post
digests of samples that nobody serves would keep every validator from committing in time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from agents.storage.errors import NotFound, StoreError, StoreUnavailable

_WIDTH = 32  # samples that are looked for at once
_NOT_HERE = "not in the store in time"


class Source(Protocol):
    """What gives content by a digest, such as a store."""

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """Verified content. Raises StoreError."""


class SampleSearch:
    """The samples of one round, which answers as a store does and never searches for it.

    `limit`: bytes of a sample. `clock`: seconds.
    """

    def __init__(
        self, source: Source, limit: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._limit = limit
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._pending: set[bytes] = set()  # in the queue or in hand
        self._threads = 0
        self._found: dict[bytes, bytes] = {}
        self._failed: dict[bytes, StoreError] = {}
        self._again_at: dict[bytes, float] = {}
        self._broken: Exception | None = None  # what a search ended with that says nothing of one
        self._ended = False
        self._began = clock()

    def want(self, digests: Iterable[bytes]) -> None:
        """Look for these, those that may come and are not looked for by now."""
        with self._changed:
            now = self._clock()
            for digest in dict.fromkeys(digests):
                if self._ended or digest in self._pending or digest in self._found:
                    continue
                if digest in self._failed and now < self._again_at.get(digest, float("inf")):
                    continue
                self._pending.add(digest)
                self._queue.append(digest)
                if self._threads < min(_WIDTH, len(self._pending)):
                    self._threads += 1
                    # A daemon: a search must never keep a stopped agent alive.
                    threading.Thread(target=self._serve, name="samples", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait until nothing is looked for, so long at most. Raises StoreUnavailable: the store
        itself is down."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._pending, max(0.0, seconds))
            broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    def over(self, seconds: float) -> bool:
        """Whether nothing is looked for any more, or was so long. Raises as `wait` does."""
        self.wait(0.0)
        with self._changed:
            idle = self._ended or not self._pending
            return idle or self._clock() - self._began >= seconds

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        with self._changed:
            return self._ended

    def end(self) -> None:
        """What is not here by now is missing."""
        with self._changed:
            self._ended = True
            self._pending -= set(self._queue)
            self._queue.clear()

    def may_come(self, digest: bytes) -> bool:
        """Whether a sample is not here, and neither too long nor damaged."""
        with self._changed:
            if digest in self._found:
                return False
            return isinstance(self._failed.get(digest), NotFound | None)

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """A sample that is here. Raises StoreError for any other."""
        with self._changed:
            if digest in self._found:
                return self._found[digest]
            raise self._failed.get(digest) or NotFound(_NOT_HERE)

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._threads -= 1
                    return
                digest = self._queue.popleft()
            began = self._clock()
            try:
                found: bytes | Exception = self._source.get_digest(digest, self._limit)
            except Exception as error:
                found = error  # raised where the samples are waited for, if it is not of this one
            with self._changed:
                self._note(digest, found, began)
                self._changed.notify_all()

    def _note(self, digest: bytes, found: bytes | Exception, began: float) -> None:
        self._pending.discard(digest)
        if self._ended:
            return  # too late: what a round is judged by does not change any more
        if isinstance(found, bytes):
            self._found[digest] = found
            self._failed.pop(digest, None)
        elif isinstance(found, StoreError) and not isinstance(found, StoreUnavailable):
            self._failed[digest] = found
            if isinstance(found, NotFound):
                now = self._clock()
                self._again_at[digest] = now + (now - began)
        else:
            self._broken = found
