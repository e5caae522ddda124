# SPDX-License-Identifier: Apache-2.0
"""The way through the store, for letters whose receiver can't be reached, or can reach nobody.

Rule: every miner looks into its own box of the store while its epoch runs, and leaves signs there
that it does (`agents.pipeline.presence`). Whoever could not reach it otherwise puts a letter into
the store and the letter's CID into that box. What lies there goes through the own post's `letter`,
so it is checked as a posted letter is, and is then taken out of the box. Notices of the first
stage lie in one box for all.

The sender is told that its letter is on its way. If nobody comes for it, its sample is lost, as if
the receiver had died. Whoever uses the store can empty a box or fill it with rubbish; that costs
letters, and a bounded part of the receiver's time (`agents.pipeline.box_reader`).

A sender looks for the signs of each receiver before it sends a letter. A store may take a minute to
say that it is down, or that nobody serves what lies among the signs, so no letter waits for that
longer than a few seconds: what was found before counts, or nothing.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.pipeline.box_reader import BoxReader
from agents.pipeline.inbox import MAX_TRAIL
from agents.pipeline.letters import HEAD_BYTES, NOTICE_BYTES, Domain, Done, LetterError
from agents.pipeline.mailbox import Mailbox, Running
from agents.pipeline.post import Post
from agents.pipeline.presence import PRESENT_BYTES, SPAN_S, Present, box_of, span_of
from agents.runtime.logs import Log
from agents.runtime.wallet import Wallet
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError

_LOOK_S = 1.0  # between two looks into the own box
_SOON_S = 0.2  # the same, while letters come this way
_SINCE_S = 10.0  # since the last letter, after which they come no more
_LONGEST_S = 10.0  # the same, where the store does not answer
_FRESH_S = 3.0  # that what was found about another miner is believed
_WAIT_S = 3.0  # that a look for another miner's signs is waited for
_OLD_S = 2 * SPAN_S  # after which what was found counts for nothing


@dataclass
class _Looked:
    """What is known of another miner's signs. `at`, `alone`: when a look ended, and what it found.
    `began`, `ended`: of the newest look. `said`: what the signs of a span say, by span."""

    at: float = float("-inf")
    alone: bool | None = None
    began: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)
    runs: bool = False
    readers: dict[int, BoxReader] = field(default_factory=dict)
    said: dict[int, list[bool]] = field(default_factory=dict)


class ByStore:
    """Of one miner in one epoch. Any thread may call it."""

    def __init__(
        self,
        store: ContentStore,
        post: Post,
        box: Mailbox,
        running: Running,
        wallet: Wallet,
        where: Domain,
        log: Log,
        alone: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            post: takes what lies in the own box.
            box: of this epoch; takes notices.
            alone: whether no other post has answered this miner, which takes no connections.
        """
        self._store, self._post, self._mailbox = store, post, box
        self._running, self._wallet, self._where, self._log = running, wallet, where, log
        self._alone = alone
        self._looked: dict[int, _Looked] = {}  # by miner
        self._lock = threading.Lock()
        longest = HEAD_BYTES + MAX_TRAIL + running.max_message
        self._letters = BoxReader(store, self._box("letters", running.miner), longest, log)
        self._notices = BoxReader(store, self._box("notices"), NOTICE_BYTES, log, stays=True)
        self._said: tuple[int, bool] | None = None
        self._came_at = float("-inf")
        self._stopped = threading.Event()
        threading.Thread(target=self._serve, name="store", daemon=True).start()

    def stop(self) -> None:
        """Look no more; a look that is under way ends by itself."""
        self._stopped.set()

    # -- the sender's side --

    def leave(self, receiver: int, body: bytes) -> bool:
        """Leave a letter for a receiver; False if it does not come to the store, or the store
        doesn't take it."""
        if self._alone_of(receiver) is None:
            return False
        return self._put(body, self._box("letters", receiver))

    def prefers(self, receiver: int) -> bool:
        """Whether a receiver said that it can reach nobody."""
        return self._alone_of(receiver) is True

    def comes(self, receiver: int) -> bool:
        """Whether a receiver comes to the store."""
        return self._alone_of(receiver) is not None

    def tell(self, notice: Done) -> bool:
        """Leave the own notice for whoever looks."""
        return self._put(notice.to_bytes(), self._box("notices"))

    def _put(self, body: bytes, box: bytes) -> bool:
        try:
            self._store.leave(box, self._store.put_bytes(body))
        except StoreError as error:
            self._log.debug("not_left_in_the_store", why=str(error)[:200])
            return False
        return True

    def _alone_of(self, miner: int) -> bool | None:
        """What a miner's signs of this span, or the one before, say; None if there is none, or it
        takes too long to find out."""
        with self._lock:
            now = time.monotonic()
            looked = self._looked.setdefault(miner, _Looked())
            if not looked.runs and now - looked.at > _FRESH_S:
                looked.runs, looked.began = True, now
                looked.ended.clear()
                place = miner, looked
                threading.Thread(target=self._look, args=place, name="signs", daemon=True).start()
        looked.ended.wait(max(0.0, looked.began + _WAIT_S - now))
        return looked.alone if time.monotonic() - looked.at <= _OLD_S else None

    def _look(self, miner: int, looked: _Looked) -> None:
        try:
            looked.alone = self._read_signs(miner, looked)
        finally:
            looked.at, looked.runs = time.monotonic(), False
            looked.ended.set()

    def _read_signs(self, miner: int, looked: _Looked) -> bool | None:
        span, operator = span_of(time.time()), self._running.operators.get(miner)
        for old in [one for one in looked.readers if one < span - 1]:
            del looked.readers[old], looked.said[old]
        for one in (span, span - 1):
            said = looked.said.setdefault(one, [])

            def take(raw: bytes, of: int = one, said: list[bool] = said) -> None:
                sign = Present.from_bytes(raw)
                if not sign.is_of(self._where, self._running.epoch, miner, of, operator):
                    raise LetterError("This sign is of another miner, epoch or time.")
                said.append(sign.alone)

            if one not in looked.readers:
                box = self._box("present", miner, one)
                reader = BoxReader(self._store, box, PRESENT_BYTES, self._log, stays=True)
                looked.readers[one] = reader
            try:
                looked.readers[one].look(take)
            except StoreError as error:
                self._log.debug("no_sign", miner=miner, why=str(error)[:200])
            if said:
                # It is not alone once a post has answered it.
                return all(said)
        return None

    def _box(self, what: str, *numbers: int) -> bytes:
        return box_of(what, self._where, self._running.epoch, *numbers)

    # -- the receiver's side --

    def _serve(self) -> None:
        pause = _LOOK_S
        while not self._stopped.is_set():
            try:
                self._sign()
                self._fetch()
                flowing = time.monotonic() - self._came_at < _SINCE_S
                pause = _SOON_S if flowing else _LOOK_S
            except StoreError as error:
                self._log.debug("store_not_looked_into", why=str(error)[:200])
                pause = min(_LONGEST_S, max(_LOOK_S, 2 * pause))
            self._stopped.wait(pause)

    def _sign(self) -> None:
        span, alone = span_of(time.time()), self._alone()
        if self._said == (span, alone):
            return
        facts = self._running.epoch, self._running.miner, span, alone
        sign = Present.signed(self._wallet, self._where, *facts)
        box = self._box("present", self._running.miner, span)
        self._store.leave(box, self._store.put_bytes(sign.to_bytes()))
        self._said = span, alone

    def _fetch(self) -> None:
        if self._letters.look(self._letter):
            self._came_at = time.monotonic()
        if not self._mailbox.done.issuperset(self._running.epoch.stages[0]):
            self._notices.look(self._notice)

    def _letter(self, raw: bytes) -> None:
        self._post.letter(io.BytesIO(raw).read, len(raw))

    def _notice(self, raw: bytes) -> None:
        notice = Done.from_bytes(raw)
        if (notice.job, notice.epoch, notice.seed) != self._running.epoch.key:
            raise LetterError("This notice is of another epoch.")
        self._mailbox.accept_notice(notice)
