# SPDX-License-Identifier: Apache-2.0
"""Counts what an agent asks of its RPC node, in all and for each block.

A request is one HTTP request. A call is one JSON-RPC method in it: a batch holds several, and many
providers bill each.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable

_BLOCKS = 64  # over which the figures for each block are averaged


class Traffic:
    """The requests of one client. Safe for threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._requests = 0
        self._calls: Counter[str] = Counter()
        self._marks: deque[tuple[int, int]] = deque(maxlen=_BLOCKS + 1)  # block, requests before

    def sent(self, methods: Iterable[str]) -> None:
        """One request was sent, with these methods in it."""
        with self._guard:
            self._requests += 1
            self._calls.update(methods)

    def see_block(self, number: int) -> None:
        """The chain's newest block is `number`."""
        with self._guard:
            if self._marks and number < self._marks[-1][0]:
                self._marks.clear()  # a reorg to a shorter branch
            if not self._marks or number > self._marks[-1][0]:
                self._marks.append((number, self._requests))

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._requests

    def calls(self) -> dict[str, int]:
        """Calls sent so far, by method."""
        with self._guard:
            return dict(self._calls)

    def per_block(self) -> float:
        """Requests for each of the last blocks, on average; 0 before the second block."""
        with self._guard:
            if len(self._marks) < 2:
                return 0.0
            (first, before), (last, now) = self._marks[0], self._marks[-1]
            return (now - before) / (last - first)
