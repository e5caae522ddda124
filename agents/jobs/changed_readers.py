# SPDX-License-Identifier: Apache-2.0
"""Under how many public keys a reader is given keys.

Rule: who tells keys serves two public keys of a reader in one round, and no third. A reader may
have lost its first one, so what is due is told once more under another. But a change costs it gas
alone, and costs whoever tells keys a file and a transaction each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from agents.storage.key_release import KeyRelease

MOST_CHANGES = 2  # public keys of one reader that one teller serves in one round


class Served:
    """The public keys that one teller has served in one round. `releases`: its files of it."""

    def __init__(self, releases: Iterable[KeyRelease]) -> None:
        self._keys: dict[str, set[str]] = defaultdict(set)
        for release in releases:
            for entry in release.readers:
                self._keys[entry.reader].add(entry.key)

    def may_have(self, reader: str, public: bytes) -> bool:
        """Whether the reader is told anything under this 32-byte key."""
        return len(self._keys[reader] - {public.hex()}) < MOST_CHANGES
