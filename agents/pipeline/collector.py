# SPDX-License-Identifier: Apache-2.0
"""Comes for a miner's letters, where the miner takes no connections.

Rule: it asks the posts of the stages beside, and those of its relays (`agents.pipeline.relays`),
each one question at a time, in threads of its own.
What they give is put through the own post's `letter`, so it is checked as a posted letter is. A
post that does not answer, or gives what is no letter, is asked again after longer and longer. A
letter that is of no use, or for which there is no room, is no fault of the post: it may hold those
of others, which are not to wait for what one sender wrote.
"""

from __future__ import annotations

import heapq
import http.client
import io
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from eth_utils import keccak

from agents.pipeline.courier import Outcome
from agents.pipeline.epoch import Epoch
from agents.pipeline.held import ANSWERS
from agents.pipeline.inbox import MAX_TRAIL
from agents.pipeline.letters import HEAD_BYTES, Collect, Domain
from agents.pipeline.mailbox import Refused, Running
from agents.pipeline.post import Post
from agents.runtime.bounded_http import ask
from agents.runtime.logs import Log
from agents.runtime.wallet import Wallet

_SOON_S, _LONGEST_S = 0.25, 5.0
_NO_LETTER = (400, 403, 413)  # the own post's answers to what nobody should have held


@dataclass
class _Post:
    """A post that is asked. `about` and `outcome`: of the letter that it gave last."""

    miner: int
    beside: bool = True
    about: bytes = bytes(32)
    outcome: Outcome | None = None
    pause: float = 0.0

    def failed(self) -> float:
        """Seconds until it is asked again."""
        self.pause = min(_LONGEST_S, max(_SOON_S, 2 * self.pause))
        return self.pause


def beside(epoch: Epoch, miner: int) -> list[int]:
    """The miners of the stages before and behind a miner's own."""
    stage = epoch.stage_of(miner)
    if stage is None:
        return []
    places = [at for at in (stage - 1, stage + 1) if 0 <= at <= epoch.last]
    return [one for at in places for one in epoch.stages[at]]


class Collector:
    """Of one miner in one epoch. `answered`: whether any post has answered it."""

    def __init__(
        self,
        post: Post,
        running: Running,
        wallet: Wallet,
        where: Domain,
        posts: Iterable[int],
        log: Log,
        timeout_s: float = 5.0,
        width: int = 16,
        others: Iterable[int] = (),
        relays: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """
        Args:
            post: the own one. It takes what is collected, and its book says where others are.
            posts: the miners beside, whose posts are asked.
            others: miners that may become relays; asked while they are among `relays()`.
            timeout_s: that a question may take.
            width: threads at most, so posts that are asked at once.
        """
        self._post, self._running, self._wallet, self._where = post, running, wallet, where
        self._log, self._timeout_s = log, timeout_s
        self._relays = relays
        targets = [_Post(miner) for miner in posts]
        targets += [_Post(miner, beside=False) for miner in others]
        self._due = [(0.0, place, target) for place, target in enumerate(targets)]
        self._order = len(targets)  # no two entries of the heap are alike
        self._counter = 0
        self._change = threading.Condition()
        self._stopped = self.answered = False
        for _ in range(min(width, len(targets))):
            threading.Thread(target=self._serve, name="collector", daemon=True).start()

    def stop(self) -> None:
        """Ask no more; a question that is under way ends by itself."""
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def _serve(self) -> None:
        while (target := self._next()) is not None:
            pause = self._visit(target)
            with self._change:
                self._order += 1
                heapq.heappush(self._due, (time.monotonic() + pause, self._order, target))
                self._change.notify()

    def _next(self) -> _Post | None:
        with self._change:
            while not self._stopped:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2]
                self._change.wait(self._due[0][0] - now if self._due else None)
            return None

    def _visit(self, target: _Post) -> float:
        """Ask a post once; seconds until it is asked again."""
        url = self._post.book.url_of(target.miner)
        if not url or not (target.beside or target.miner in self._relays()):
            return target.failed()
        body, began = self._question(target).to_bytes(), time.monotonic()
        longest = HEAD_BYTES + MAX_TRAIL + self._running.max_message
        try:
            status, reply = ask("POST", url + "/collect", body, self._timeout_s, longest)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._log.debug("not_collected", miner=target.miner, why=str(error)[:200])
            return target.failed()
        self.answered = True
        if status not in (200, 204):
            why = f"{status} {reply[:200].decode(errors='replace')}"
            self._log.debug("not_collected", miner=target.miner, why=why)
            return target.failed()
        target.about, target.outcome = bytes(32), None  # it was told of the last letter
        if status == 204:
            target.pause = 0.0
            return max(0.0, _SOON_S - (time.monotonic() - began))
        status = self._take(target, reply)
        target.about, target.outcome = keccak(reply), _outcome(status)
        if status in _NO_LETTER:
            return target.failed()
        target.pause = 0.0
        return 0.0 if target.outcome is Outcome.TAKEN else _SOON_S

    def _question(self, target: _Post) -> Collect:
        with self._change:
            # Milliseconds, so that a process that starts again is above what it used before.
            self._counter = max(self._counter + 1, int(time.time() * 1000))
            counter = self._counter
        answer = ANSWERS.index(target.outcome)
        place = self._running.epoch, self._running.miner, target.miner
        return Collect.signed(self._wallet, self._where, *place, counter, answer, target.about)

    def _take(self, target: _Post, reply: bytes) -> int:
        """The own post's answer to what a post gave."""
        try:
            return self._post.letter(io.BytesIO(reply).read, len(reply))[0]
        except Refused as refused:
            self._log.debug("collected_and_refused", miner=target.miner, why=str(refused))
            return refused.status


def _outcome(status: int) -> Outcome:
    """What the giver is told by the own post's answer."""
    if status == 200:
        return Outcome.TAKEN
    return Outcome.LATER if status >= 500 else Outcome.REFUSED
