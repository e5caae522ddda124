# SPDX-License-Identifier: Apache-2.0
"""Reads what lies in a box of the store, whatever strangers throw into it.

Rule: one look reads a bounded number of names, files and bytes of each, for a bounded time. What is
of no use is taken out of the box, so rubbish is read once and makes room. What can't be read or
used now is tried again after all that was not tried yet, and of that only a bounded number is kept.
What does not come at once is waited for beside the others: a daemon searches up to a minute for a
file of which nobody serves more than the first block, and twenty such names would hide a letter for
five minutes. Which of the others come first is drawn by lot: nobody gets to the front by the name
of its CID.
"""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from agents.pipeline.letters import LetterError
from agents.pipeline.mailbox import Refused
from agents.runtime.logs import Log
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable

AT_ONE_LOOK = 1024  # names that are read at one look, so files as well
_LOOK_S = 2.0  # of one look, after which no further file is begun
_ONE_S = 0.2  # of one file, after which the next one is begun
_WIDTH = 64  # files that are waited for beside others; while there are so many no other is begun
_LATER = 256  # that are tried again; the room of the rest is for others
_REMEMBERED = 4 * AT_ONE_LOOK  # of those that were used and stay in the box


class BoxReader:
    """One box, for one thread at a time."""

    def __init__(
        self, store: ContentStore, box: bytes, longest: int, log: Log, stays: bool = False
    ) -> None:
        """
        Args:
            longest: bytes of a file; a longer one is not read.
            stays: whether what was used stays in the box, because others read it too.
        """
        self._store, self._box, self._longest, self._log = store, box, longest, log
        self._stays = stays
        self._used: OrderedDict[str, None] = OrderedDict()
        self._later: dict[str, int] = {}  # -> how often it was tried
        self._coming: dict[str, _Read] = {}

    def look(self, use: Callable[[bytes], None]) -> int:
        """Give `use` what is new; returns how many files it used.

        `use` raises LetterError or Refused: what is refused with a status of 500 or above may be of
        use later. Raises StoreUnavailable if the box can't be looked into.
        """
        end = time.monotonic() + _LOOK_S
        come = [cid for cid, read in self._coming.items() if read.ended.is_set()]
        used = sum(self._try(cid, use) for cid in come)
        for cid in self._choice():
            if len(self._coming) >= _WIDTH:
                break
            self._coming[cid] = read = _Read(self._store, cid, self._longest)
            if read.ended.wait(_ONE_S):
                used += self._try(cid, use)
            if time.monotonic() >= end:
                break
        return used

    def _choice(self) -> list[str]:
        """Those that were not used, in the order in which they are tried."""
        there = self._store.left(self._box, AT_ONE_LOOK)
        if len(there) < AT_ONE_LOOK:  # it is all that lies there
            self._later = {cid: self._later[cid] for cid in there if cid in self._later}
        found = [cid for cid in there if cid not in self._used and cid not in self._coming]
        random.SystemRandom().shuffle(found)
        return sorted(found, key=lambda cid: self._later.get(cid, 0))

    def _try(self, cid: str, use: Callable[[bytes], None]) -> bool:
        """Use what has come of a file; whether it was of use."""
        try:
            use(self._coming.pop(cid).content())
        except StoreUnavailable as error:
            self._postpone(cid, str(error))
        except Refused as refused:
            if refused.status >= 500:
                self._postpone(cid, str(refused))
            else:
                self._remove(cid, str(refused))
        except (StoreError, LetterError) as error:
            self._remove(cid, str(error))
        else:
            self._later.pop(cid, None)
            if self._stays:
                self._remember(cid)
            else:
                self._remove(cid)
            return True
        return False

    def _postpone(self, cid: str, why: str) -> None:
        if cid in self._later or len(self._later) < _LATER:
            self._later[cid] = self._later.get(cid, 0) + 1
        else:
            self._remove(cid, why)

    def _remove(self, cid: str, why: str = "") -> None:
        if why:
            self._log.debug("left_and_refused", cid=cid, why=why[:200])
        self._later.pop(cid, None)
        with suppress(StoreError):
            self._store.take_away(self._box, cid)
        self._remember(cid)  # it may lie there still

    def _remember(self, cid: str) -> None:
        self._used[cid] = None
        while len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)


class _Read:
    """One file that a thread of its own reads. `ended`: it is there, or can't be had."""

    def __init__(self, store: ContentStore, cid: str, longest: int) -> None:
        self.ended = threading.Event()
        self._raw: bytes | None = None
        self._error: Exception | None = None

        def read() -> None:
            try:
                self._raw = store.get(cid, longest)
            except Exception as error:
                self._error = error
            finally:
                self.ended.set()

        threading.Thread(target=read, name="box", daemon=True).start()

    def content(self) -> bytes:
        """What was read, once it has ended. Raises as `ContentStore.get`."""
        if self._error is not None:
            raise self._error
        assert self._raw is not None
        return self._raw
