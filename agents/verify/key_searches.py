# SPDX-License-Identifier: Apache-2.0
"""How a verifier looks for the keys of sealed payloads, some of which nobody serves.

Rule: a payload is read in a thread of its own and waited for a moment, at its first search only.
What comes later is taken at a later look, and a key that was found is not looked for again. What
was not there is looked for again after a pause as long as its search took; nobody waits for that.
Else a node that serves its payload slowly, or not at all, would hold up the verifiers of a case
about it, in all that they do, for as long as the case is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

from agents.runtime.slow_calls import WIDTH, SlowCalls
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable, TooLarge
from agents.storage.sealed import SealError
from agents.storage.sealed_payload import NotForUs

_WAIT_S = 0.5  # that a payload is waited for, sixteen at a time

KeyOf = Callable[[bytes], bytes]  # of a sealed payload; raises NotForUs, SealError
_Read = tuple[bytes | StoreError, float]  # what was found, and when to look again


class KeySearches:
    """The searches of one process in one job. `clock`: seconds. `wait_s`: see `_WAIT_S`."""

    def __init__(
        self,
        store: ContentStore,
        clock: Callable[[], float] = time.monotonic,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._found: dict[bytes, bytes | None] = {}  # None: no payload that can be opened here
        self._first = SlowCalls[bytes, _Read](wait_s, "payload key")
        self._later = SlowCalls[bytes, _Read](0.0, "payload key")
        self._again_at: dict[bytes, float] = {}

    def find(self, contents: Collection[bytes], most: int, key_of: KeyOf) -> dict[bytes, bytes]:
        """The keys known so far of payloads, by the SHA2-256 of the sealed bytes.

        `most`: bytes of a sealed payload. Raises StoreUnavailable when the store itself is down.
        """
        self._take()
        search = partial(self._search, most=most, key_of=key_of)
        self._begin(self._first, (one for one in contents if self._is_new(one)), search)
        now, room = self._clock(), WIDTH - len(self._later)
        rested = sorted((at, one) for one, at in self._again_at.items() if at <= now)
        self._begin(self._later, [one for _, one in rested if one in contents][:room], search)
        self._take()
        return {one: key for one in contents if (key := self._found.get(one)) is not None}

    def _is_new(self, content: bytes) -> bool:
        under_way = content in self._first or content in self._later
        return not under_way and content not in self._found and content not in self._again_at

    def _begin(
        self,
        calls: SlowCalls[bytes, _Read],
        contents: Iterable[bytes],
        search: Callable[[bytes], _Read],
    ) -> None:
        due = {one: partial(search, one) for one in contents}
        for one in due:
            self._again_at.pop(one, None)
        calls.run(due)

    def _search(self, content: bytes, most: int, key_of: KeyOf) -> _Read:
        began = self._clock()
        found: bytes | StoreError
        try:
            found = key_of(self._store.get_digest(content, most))
        except StoreError as error:
            found = error
        ended = self._clock()
        return found, ended + (ended - began)

    def _take(self) -> None:
        """Note, in the caller's thread, what has come. Raises StoreUnavailable."""
        down: StoreUnavailable | None = None
        for content, (found, again_at) in (
            *self._first.take_ended().items(),
            *self._later.take_ended().items(),
        ):
            if isinstance(found, bytes):
                self._found[content] = found
            elif isinstance(found, StoreUnavailable):
                down = found
            elif isinstance(found, NotForUs | SealError | TooLarge):
                self._found[content] = None  # it is no payload, which the case will say
            else:
                self._again_at[content] = again_at
        if down is not None:
            raise down
