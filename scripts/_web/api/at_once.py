# SPDX-License-Identifier: Apache-2.0
"""How many of the server's threads may be at something that may be slow: the chain's node, a store.

Rule: so many are at it, a few more wait for a moment, and all others are refused at once. So the
server's others, of its 40 threads, go on answering what costs little, however long it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.runtime.errors import AgentError


class TooMany(AgentError):
    """As many are at it as may be."""

    def __init__(self) -> None:
        super().__init__("Too many ask for this at the moment; try again in a moment.")


class AtOnce:
    """`most`: threads that are at it. `waiting`: threads that wait, `patience_s` seconds each."""

    def __init__(self, most: int, waiting: int = 0, patience_s: float = 0.0) -> None:
        self.most = most
        self._patience_s = patience_s
        self._places = threading.BoundedSemaphore(most + waiting)
        self._turns = threading.BoundedSemaphore(most)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Be one of them while it is entered. Raises TooMany."""
        if not self._places.acquire(blocking=False):
            raise TooMany
        try:
            if not self._turns.acquire(timeout=self._patience_s):
                raise TooMany
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._places.release()
