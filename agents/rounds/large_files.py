# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, updates and text of strangers' jobs, which a loop waits for no longer than stated.

A model's file has as many bytes as its job asks for, a shard of text 256 MiB, and a store goes on
with one as long as its bytes come: at the least rate a GiB takes four and a half hours. Whoever
serves such a file so would hold up all that an agent does meanwhile, in other jobs too.

Rule: a file that has not come by then goes on coming beside the loop, and each further call says
so at once until it is there. What a call returns is not kept here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from agents.jobs.model_files import Reader
from agents.runtime.slow_calls import SlowCalls
from agents.storage.errors import NotFound

_LONGEST_S: Final = 60.0  # that a file is waited for
_MOST: Final = 8  # files that are coming, or have come and were not taken yet

_Name = tuple[str | bytes, int]


class StillComing(NotFound):
    """A file is on its way, and is not there yet."""


class LargeFiles:
    """A store's files, by CID or digest, for any thread. `longest_s`: that one is waited for."""

    def __init__(self, store: Reader, longest_s: float = _LONGEST_S) -> None:
        self._store, self._longest_s = store, longest_s
        self._coming = SlowCalls[_Name, bytes](0.0, "large file")
        self._until: dict[_Name, float] = {}  # by real time
        self._lock = threading.Lock()

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content. Raises StillComing, and as `ContentStore.get`."""
        return self._read((cid, max_bytes), partial(self._store.get, cid, max_bytes))

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names. Raises as `get`."""
        return self._read((digest, max_bytes), partial(self._store.get_digest, digest, max_bytes))

    def _read(self, name: _Name, read: Callable[[], bytes]) -> bytes:
        while True:
            with self._lock:
                if name not in self._coming:
                    self._begin(name, read)
                elif self._coming.ended(name):
                    del self._until[name]
                    return self._coming.take(name)
                left = self._until[name] - time.monotonic()
            # Unlocked: another thread may want another file, which is there.
            if left <= 0:
                what = name[0] if isinstance(name[0], str) else name[0].hex()
                raise StillComing(f"{what} is still coming")
            self._coming.wait(name, left)

    def _begin(self, name: _Name, read: Callable[[], bytes]) -> None:
        if len(self._coming) >= _MOST:
            self._coming.forget()  # of rounds and jobs that this reader has left
            self._until.clear()
        self._coming.run({name: read})
        self._until[name] = time.monotonic() + self._longest_s
