# SPDX-License-Identifier: Apache-2.0
"""A live miner: one stage of one epoch, from its first letter to its last step.

Rule: one loop, one thread for the numbers. Letters come and go in other threads. An entry is on the
disk before it is executed, and executed before anything that follows from it is sent. A miner that
starts again executes its file first, and goes on with the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.mechanisms.boundary import WireError
from agents.pipeline.by_store import ByStore
from agents.pipeline.collector import Collector, beside
from agents.pipeline.courier import Carried, Courier, Outcome
from agents.pipeline.entries_file import EntriesFile
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage
from agents.pipeline.held import Told
from agents.pipeline.inbox import Entry
from agents.pipeline.letters import Domain, Done, Letter, LetterError, done_path
from agents.pipeline.mailbox import Refused, Running
from agents.pipeline.miner_log import Kind
from agents.pipeline.post import Post
from agents.pipeline.relays import relays
from agents.pipeline.schedule import Outgoing, Schedule, Times
from agents.pipeline.stage import Passed, StageError
from agents.pipeline.work import StageWork, digest, replay, since_step
from agents.runtime.faults import crashpoint
from agents.runtime.logs import Log
from agents.runtime.wallet import Wallet
from agents.storage.content_store import ContentStore

_LOOK_S = 0.5  # at most between two looks at the stop and at the clock
_LEAST_WIDTH = 8  # letters that are sent at once; a notice goes to everybody
_FAILURES = (StageError, WireError, FloatingPointError)


@dataclass(frozen=True)
class Finished:
    """A miner's epoch. `inbox`: the file of its entries. `busy_s`: seconds in which it executed
    them, each once. What a restart executes again counts in the place of what it did before."""

    work: StageWork
    inbox: Path
    busy_s: float


def written_to(epoch: Epoch, miner: int) -> set[int]:
    """Whom a miner writes to while it works: those beside it, and the first stage, which it asks.

    A courier has a thread for each. Had it fewer, so many posts that take letters as slowly as they
    may would keep the letters to all others back.
    """
    return {*beside(epoch, miner), *epoch.stages[0]} - {miner}


class Miner:
    """One miner of one epoch."""

    def __init__(
        self,
        start: Callable[[], StageWork],
        running: Running,
        wallet: Wallet,
        where: Domain,
        post: Post,
        path: Path,
        local_batch: int,
        in_flight: int,
        log: Log,
        times: Times | None = None,
        store: ContentStore | None = None,
    ) -> None:
        """
        Args:
            start: makes the stage's work from the epoch's start, again after a failure.
            running: the epoch as the post knows it.
            wallet: the operator's key.
            where: the domain that letters are signed in.
            post: takes the letters; its book says where others are.
            path: of the file of entries, one for each epoch.
            local_batch: backward passes to a step.
            in_flight: samples that may wait at once, as `start` gives it to the work.
            store: where letters go that find no other way; None for a miner without that way.
        """
        self._start, self._running, self._wallet, self._where = start, running, wallet, where
        self._post, self._path, self._log = post, path, log
        self._epoch, self._id = running.epoch, running.miner
        self._times, self._store = times or Times(), store
        self._limits = local_batch, in_flight
        self._wake = threading.Event()
        self._work: StageWork
        self._broken, self._busy_s = False, 0.0

    def run(self, deadline: float, stop: Callable[[], bool] = lambda: False) -> Finished | None:
        """Work until the epoch is over, or `deadline` (of `time.monotonic`).

        A miner that nobody handed a sample has an empty log, and that is all its work: whoever is
        to hand it one may be gone, and the same epoch begun again would wait as long in vain. So it
        is with the log of a miner of the first stage that never got a gradient back.

        It is over when every miner of the first stage has said that it is done, or nothing came
        for `linger` seconds. One of a later stage that has nothing to do asks them, at once and
        then every `answer` seconds: they may have said it while it was away. Where the own post
        does not listen, it asks every `retry` seconds. A `stop` that says True leaves the loop at
        once, without a last step: the file is there to go on with, and None is returned. Else
        there is always a result.

        Raises:
            OSError: the disk refuses.
            PayloadError: the file of entries is not this miner's.
        """
        self._file = EntriesFile(self._path, self._running.max_message)
        self._schedule = Schedule(self._epoch, self._id, *self._limits, self._times)
        over, self._ask_at = False, 0.0
        self._asked: set[int] = set()
        self._box = self._post.open(self._running, self._wake.set)
        self._box.recall(self._restart())
        url_of, listens = self._post.book.url_of, bool(self._post.url)
        ways: dict[str, Any] = {"hold": self._hold} if listens else {"relays": self._relays_of}
        # Nobody can tell it that the epoch is over.
        self._ask_s = self._times.answer if listens else self._times.retry
        place = self._post, self._running, self._wallet, self._where
        posts = [] if listens else beside(self._epoch, self._id)
        everybody = [] if listens else [m for stage in self._epoch.stages for m in stage]
        others = [miner for miner in everybody if miner not in (*posts, self._id)]
        collector = Collector(*place, posts, self._log, others=others, relays=self._own_relays)
        self._by_store = self._store_way(lambda: not listens and not collector.answered)
        ways["left"] = self._by_store
        width = max(_LEAST_WIDTH, len(written_to(self._epoch, self._id)))
        self._courier = Courier(url_of, self._wake.set, width=width, **ways)
        try:
            if self._loop(deadline, stop):
                return None
            over = True
            if self._schedule.passes and not self._broken:
                self._execute(self._schedule.step())
            self._take_leave(deadline, stop)
            return Finished(self._work, self._path, self._busy_s)
        finally:
            self._post.close(self._epoch, over)
            self._courier.stop()
            collector.stop()
            if self._by_store is not None:
                self._by_store.stop()
            self._file.close()

    # -- the loop --

    def _loop(self, deadline: float, stop: Callable[[], bool]) -> bool:
        """Work until the epoch is over; True if it was stopped before."""
        came, last = -1, time.monotonic()
        while not stop():
            self._wake.clear()
            now = time.monotonic()
            if came != self._box.came:
                came, last = self._box.came, now
            over = self._is_over  # before the letters are taken: what came earlier still counts
            self._hear(now)
            entry = self._schedule.next()
            if over and (entry is None or entry.kind is Kind.FORWARD):
                return False
            if entry is not None and not self._execute(entry):
                return False
            self._send(now)
            # Below the patience of `Schedule`: who does not come is as one who can't be reached.
            self._box.held.expire(now - self._times.answer / 2)
            if entry is None:
                self._ask(now)
            if now >= deadline or now - last >= self._times.linger:
                return False
            if entry is not None:
                last = now
            else:
                wait = min(self._schedule.wake_at, deadline, now + _LOOK_S) - time.monotonic()
                self._wake.wait(max(0.0, wait))
        return True

    @property
    def _is_over(self) -> bool:
        return self._schedule.done or self._box.done.issuperset(self._epoch.stages[0])

    def _hear(self, now: float) -> None:
        """Take what couriers report and what came by post."""
        while (carried := self._courier.carried()) is not None:
            if carried.tag is None:
                self._answered(carried)
                continue
            sent: Outgoing = carried.tag
            if carried.outcome is not Outcome.TAKEN:
                self._log.debug(
                    "letter_not_taken",
                    sample=sent.sample,
                    kind=sent.kind.name,
                    receiver=sent.receiver,
                    why=carried.why,
                )
            self._schedule.told(sent, carried.outcome, now)
        while (letter := self._box.take(Kind.BACKWARD)) is not None:
            self._schedule.arrived(letter)
        while self._schedule.wants_forward:
            letter = self._box.take(Kind.FORWARD)
            if letter is None:
                return
            self._schedule.arrived(letter)

    def _send(self, now: float) -> None:
        for out in self._schedule.outgoing(now):
            passage = Passage.of(self._epoch, out.sample, out.kind, self._id, out.receiver)
            letter = Letter.signed(self._wallet, self._where, passage, out.message, out.trail)
            self._courier.give(out.receiver, "/letters", letter.to_bytes(), out)

    def _store_way(self, alone: Callable[[], bool]) -> ByStore | None:
        if self._store is None:
            return None
        place = self._running, self._wallet, self._where, self._log
        return ByStore(self._store, self._post, self._box, *place, alone)

    def _hold(self, receiver: int, body: bytes, told: Told) -> bool:
        return self._box.held.put(receiver, body, told, time.monotonic())

    def _own_relays(self) -> tuple[int, ...]:
        """The miners whose posts hold letters for this one."""
        return relays(self._epoch, self._id, self._post.book.url_of)

    def _relays_of(self, receiver: int) -> list[str]:
        url_of = self._post.book.url_of
        return [url for miner in relays(self._epoch, receiver, url_of) if (url := url_of(miner))]

    def _ask(self, now: float) -> None:
        """Ask those of the first stage for the notices that did not come."""
        if self._epoch.stage_of(self._id) == 0 or now < self._ask_at:
            return
        self._ask_at = now + self._ask_s
        for miner in set(self._epoch.stages[0]) - self._box.done - self._asked:
            self._asked.add(miner)
            self._courier.give(miner, done_path(self._epoch, miner), None, None)

    def _answered(self, carried: Carried) -> None:
        self._asked.discard(carried.receiver)
        if carried.outcome is not Outcome.TAKEN:
            return
        try:
            notice = Done.from_bytes(carried.reply)
            if (notice.job, notice.epoch, notice.seed) != self._epoch.key:
                raise LetterError("This notice is of another epoch.")
            self._box.accept_notice(notice)
        except (LetterError, Refused) as error:
            self._log.debug("notice_not_taken", miner=carried.receiver, why=str(error))

    def _take_leave(self, deadline: float, stop: Callable[[], bool]) -> None:
        """Tell all others that this miner of the first stage is done, for a bounded time."""
        if not self._schedule.done:
            return
        notice = Done.signed(self._wallet, self._where, self._epoch, self._id)
        self._post.keep(notice)
        left = self._by_store
        if left is not None:
            left.tell(notice)
        body = notice.to_bytes()
        others = {miner for stage in self._epoch.stages[1:] for miner in stage}
        # Who takes no connections asks.
        others = {miner for miner in others if self._post.book.url_of(miner) != ""}
        end = min(deadline, time.monotonic() + self._times.answer)
        while others and not stop() and time.monotonic() < end:
            for miner in others:
                self._courier.give(miner, "/done", body, None)
            asked = len(others)
            while asked and time.monotonic() < end:
                self._wake.wait(_LOOK_S)
                self._wake.clear()
                while (carried := self._courier.carried()) is not None:
                    if carried.tag is None:
                        asked -= 1
                        later = carried.outcome is Outcome.LATER
                        # Who comes to the store finds the notice there.
                        if not later or (left is not None and left.comes(carried.receiver)):
                            others.discard(carried.receiver)
            if others:
                time.sleep(min(self._times.retry, max(0.0, end - time.monotonic())))

    # -- executing --

    def _execute(self, entry: Entry) -> bool:
        """Write and execute an entry; False if the miner can't go on with its epoch."""
        self._file.append(entry)
        crashpoint("miner-entry-written")
        events = len(self._work.events)
        try:
            passed = self._do(entry)
        except _FAILURES as error:
            self._file.cut_last()
            self._log.warning(
                "entry_not_executed",
                kind=entry.kind.name,
                sample=entry.sample,
                sender=entry.sender,
                error=str(error),
            )
            return self._recover(entry, len(self._work.events) > events)
        crashpoint("miner-entry-executed")
        self._schedule.executed(entry, passed, time.monotonic())
        return True

    def _do(self, entry: Entry) -> Passed:
        """Execute an entry. WireError as well for a message that no receiver would take."""
        began = time.monotonic()
        passed = self._work.do(entry)
        self._busy_s += time.monotonic() - began
        if passed.message is not None:
            self._running.check(entry.kind, passed.message, self._running.miner)
        return passed

    def _recover(self, entry: Entry, executed: bool) -> bool:
        """After a failure: a forward that was not executed changed nothing. One that was, and whose
        code nobody would take, is taken back. A backward may have changed gradients, so what was
        done since the last step is done again.

        A step that fails would fail again: the epoch ends here with the steps that were made.
        """
        self._schedule.refused(entry, time.monotonic())
        if entry.kind is Kind.FORWARD:
            if entry.sender:
                self._box.release(self._passage(entry))
            if executed:
                self._work.take_back()
            return True
        self._broken = entry.kind is Kind.STEP
        entries = self._file.read()
        if self._broken:
            self._work = replay(self._start(), entries)
        else:
            self._work.begin_step_again()
            replay(self._work, since_step(entries))
        return not self._broken

    def _restart(self) -> list[tuple[Passage, bytes]]:
        """Execute the file; the passages that came before, with their digests."""
        self._work, self._broken, self._busy_s = self._start(), False, 0.0
        received, now = [], time.monotonic()
        entries = self._file.read()
        for place, entry in enumerate(entries):
            events = len(self._work.events)
            try:
                passed = self._do(entry)
            except _FAILURES:
                if place != len(entries) - 1:
                    raise
                self._file.cut_last()  # the crash came before it was taken back
                self._recover(entry, len(self._work.events) > events)
                break
            self._schedule.executed(entry, passed, now)
            if entry.sender:
                received.append((self._passage(entry), digest(entry.message)))
        return received

    def _passage(self, entry: Entry) -> Passage:
        return Passage.of(self._epoch, entry.sample, entry.kind, entry.sender, self._id)
