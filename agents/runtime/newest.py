# SPDX-License-Identifier: Apache-2.0
"""A few of many things that were found, so that a process that lives for months doesn't grow.

Rule: what was used last is kept. What was dropped is found again, so it must be there to be found.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Newest(Generic[_K, _V]):
    """At most `most` of what was found, by key. Safe for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_K, _V] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: _K, find: Callable[[], _V]) -> _V:
        """What is kept under `key`, else what `find` gives, which is kept. `key`: all that it
        depends on. Raises as `find` does, and keeps nothing then."""
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = find()  # may take long, and may ask for others
        with self._guard:
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found
