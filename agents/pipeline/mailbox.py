# SPDX-License-Identifier: Apache-2.0
"""The letters of one epoch that a miner's post accepted, and why it refuses the others.

A refusal carries the status and the sentence that the post answers (`agents.pipeline.post`).

Rule: what waits to be taken has `WAITING_BYTES` in an epoch, however many miners send. Each of the
stages beside has an equal part of them, and one letter at least. `agents.jobs.budget` counts what
the stage's own work takes; this is of the memory that it leaves to everything else.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from eth_utils import keccak

from agents.pipeline.courier import Outcome
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Passage
from agents.pipeline.held import ANSWERS, Held, Occupied, Replayed
from agents.pipeline.inbox import MAX_TRAIL
from agents.pipeline.letters import Collect, Domain, Done, Letter, signed_by
from agents.pipeline.miner_log import Kind
from agents.pipeline.trail import broken, trail_bytes
from agents.runtime.logs import Log

WAITING_BYTES = 256 << 20  # of all letters of an epoch, as of those that `Held` keeps
_COLLECT_S = 1.0  # that a question waits for a letter


def _nobody(outcome: Outcome, why: str) -> None:
    """Its sender has been told already that the letter is held."""


class Refused(Exception):
    """What a client is told: a status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Running:
    """An epoch that runs here.

    Attributes:
        miner: this one.
        operators: the checksummed operator of every miner of the epoch.
        max_message: bytes of the longest message.
        check: raises ValueError for bytes that are no code of this epoch (FORWARD) or no gradient
            (BACKWARD), or that this sender may not send; any thread may call it.
        max_waiting: letters of each kind that may wait to be taken from one sender, if there is
            room for so many.
    """

    epoch: Epoch
    miner: int
    operators: Mapping[int, str]
    max_message: int
    check: Callable[[Kind, bytes, int], object]
    max_waiting: int = 64


class Mailbox:
    """Letters of one epoch that were accepted and not taken yet. Any thread may call it.

    Attributes:
        done: miners of the first stage that gave notice.
        came: letters and notices that were accepted so far.
        held: what this miner, or another without a post, wrote to receivers that take no
            connections.
        notices: those that came, by miner.
    """

    def __init__(self, running: Running, where: Domain, wake: Callable[[], None], log: Log) -> None:
        self._running, self._where, self._wake, self._log = running, where, wake, log
        self._epoch, self._signed = running.epoch, signed_by(where, running.operators)
        stage = self._epoch.stage_of(running.miner)
        if stage is None:
            raise ValueError(f"Miner {running.miner} holds no stage in this epoch.")
        self._stage = stage
        self._most = min(running.max_waiting, self._part())
        self._seen: dict[Passage, bytes] = {}  # -> digest
        self._relayed: dict[Passage, bytes] = {}  # the same, of letters for others
        self._forward_from: dict[int, int] = {}  # sample -> whose forward was accepted
        # By sender, who comes next first.
        self._waiting: dict[Kind, OrderedDict[int, deque[Letter]]]
        self._waiting = {Kind.FORWARD: OrderedDict(), Kind.BACKWARD: OrderedDict()}
        self._lock = threading.Lock()
        # Of each kind as many as a post takes of one sender.
        self.held = Held(2 * running.max_waiting)
        self.done: set[int] = set()
        self.notices: dict[int, bytes] = {}
        self.came = 0

    # -- the miner's side --

    def take(self, kind: Kind) -> Letter | None:
        """A letter of a kind that waits, of each sender in turn the oldest; None if there is none.

        So who sends many letters delays its own, and others by one each.
        """
        with self._lock:
            if not self._waiting[kind]:
                return None
            sender, letters = self._waiting[kind].popitem(last=False)
            letter = letters.popleft()
            if letters:
                self._waiting[kind][sender] = letters
            return letter

    def recall(self, passages: Iterable[tuple[Passage, bytes]]) -> None:
        """Passages, and their digests, that were accepted before this process started."""
        with self._lock:
            for passage, digest in passages:
                self._remember(passage, digest)

    def release(self, passage: Passage) -> None:
        """A forward could not be executed: another miner may send the sample."""
        with self._lock:
            self._forward_from.pop(passage.sample, None)

    # -- the senders' side --

    def check_head(self, passage: Passage, length: int) -> int:
        """Refuse what the head shows to be wrong; returns the bytes of the trail that follows it.
        `length`: bytes of trail and message."""
        trail = self._check_way(passage, self._stage, length)
        if passage.receiver != self._running.miner:
            raise Refused(403, f"This is the post of miner {self._running.miner}.")
        self._check_room(passage)
        return trail

    def check_relayed(self, passage: Passage, length: int) -> int:
        """As `check_head`, of a letter that is passed on to its receiver."""
        stage = self._epoch.stage_of(passage.receiver)
        if stage is None or passage.receiver == self._running.miner:
            raise Refused(403, "A relayed letter is for another miner of the epoch.")
        return self._check_way(passage, stage, length)

    def _check_way(self, passage: Passage, stage: int, length: int) -> int:
        """Refuse a letter of a wrong length, sample or sender to `stage`; bytes of its trail."""
        trail = trail_bytes(stage, passage.kind)
        if not trail <= length <= trail + self._running.max_message:
            raise Refused(
                413 if length > trail else 400,
                f"A trail of {trail} bytes and a message of at most {self._running.max_message} "
                f"follow, not {length} bytes.",
            )
        if passage.sample not in self._epoch.samples:
            raise Refused(403, f"Sample {passage.sample} is not handed out in this epoch.")
        if not self._epoch.may_send(passage.sample, passage.kind, passage.sender, stage):
            raise Refused(
                403,
                f"Miner {passage.sender} is not of the stage beside, or can't begin the sample.",
            )
        return trail

    def accept(self, letter: Letter) -> None:
        """Put a letter among those that wait; Refused if it is none, nothing if it is known."""
        passage, digest = letter.passage, keccak(letter.message)
        if self._seen.get(passage) == digest:
            return
        self._check(letter, digest)
        with self._lock:
            known = self._seen.get(passage)
            if known == digest:
                return
            if known is not None:
                self._report(letter, known, digest)
                raise Refused(409, "This passage came before with other bytes.")
            if passage.kind is Kind.FORWARD:
                other = self._forward_from.get(passage.sample)
                if other is not None:
                    raise Refused(409, f"Sample {passage.sample} came already, from {other}.")
            self._check_room(passage)
            self._remember(passage, digest)
            self._waiting[passage.kind].setdefault(passage.sender, deque()).append(letter)
            self.came += 1
        self._wake()

    def relay(self, letter: Letter) -> None:
        """Hold another miner's letter for its receiver; Refused for one that no receiver takes.

        Else who writes such letters would fill the place of others, and its receiver, which pauses
        after what it refuses, would come for theirs late.
        """
        passage, digest = letter.passage, keccak(letter.message)
        if self._relayed.get(passage) == digest:
            return
        self._check(letter, digest)
        with self._lock:
            known = self._relayed.get(passage)
            if known == digest:
                return
            if known is not None:
                self._report(letter, known, digest)
                raise Refused(409, "This passage came before with other bytes.")
            place = passage.receiver, letter.to_bytes(), _nobody, time.monotonic()
            if not self.held.put(*place, relayed=True):
                raise Refused(503, "No letter is held for this miner now.")
            self._relayed[passage] = digest

    def accept_notice(self, notice: Done) -> None:
        """Note that a miner of the first stage is done; Refused if it is none."""
        if notice.sender in self.done:
            return
        if self._epoch.stage_of(notice.sender) != 0:
            raise Refused(403, f"Miner {notice.sender} is not of the first stage.")
        if notice.signer(self._where) != self._running.operators.get(notice.sender):
            raise Refused(403, f"The operator of miner {notice.sender} did not sign this.")
        with self._lock:
            self.done.add(notice.sender)
            self.notices[notice.sender] = notice.to_bytes()
            self.came += 1
        self._wake()

    def collect(self, asked: Collect) -> bytes | None:
        """The letter that a receiver comes for; None if none came within a second."""
        if asked.at != self._running.miner:
            raise Refused(403, f"This is the post of miner {self._running.miner}.")
        operator = self._running.operators.get(asked.receiver)
        if operator is None or asked.signer(self._where) != operator:
            raise Refused(403, f"The operator of miner {asked.receiver} did not sign this.")
        outcome = ANSWERS[asked.answer]
        try:
            place = asked.receiver, asked.counter, outcome, asked.about
            return self.held.collect(*place, _COLLECT_S)
        except Replayed:
            raise Refused(409, "The counter is not above the last one.") from None
        except Occupied:
            raise Refused(503, "Another question of this receiver waits here.") from None

    def _part(self) -> int:
        """Letters of one sender that there is room for. A sender sends one kind only."""
        kinds = (Kind.FORWARD, Kind.BACKWARD)
        sources = (self._epoch.source_of(self._stage, kind) for kind in kinds)
        senders = sum(len(self._epoch.stages[at]) for at in sources if at is not None)
        longest = MAX_TRAIL + self._running.max_message
        return max(1, WAITING_BYTES // (longest * max(1, senders)))

    def _check(self, letter: Letter, digest: bytes) -> None:
        """Refuse what its sender did not sign, was not handed, or can't be worked with."""
        passage = letter.passage
        if not self._signed(passage, digest, letter.signature):
            raise Refused(403, f"The operator of miner {passage.sender} did not sign this.")
        wrong = broken(self._epoch, passage, letter.trail, self._signed)
        if wrong:
            raise Refused(403, wrong)
        try:
            self._running.check(passage.kind, letter.message, passage.sender)
        except ValueError as error:
            raise Refused(400, str(error)) from None

    def _check_room(self, passage: Passage) -> None:
        if len(self._waiting[passage.kind].get(passage.sender, ())) >= self._most:
            raise Refused(503, "Too many of your letters wait here; come again later.")

    def _remember(self, passage: Passage, digest: bytes) -> None:
        self._seen[passage] = digest
        if passage.kind is Kind.FORWARD:
            self._forward_from[passage.sample] = passage.sender

    def _report(self, letter: Letter, known: bytes, digest: bytes) -> None:
        # Both signatures are at hand: the first one is in the inbox once it was executed.
        self._log.warning(
            "two_digests_of_one_passage",
            miner=letter.passage.sender,
            sample=letter.passage.sample,
            digests=[known.hex(), digest.hex()],
            signature=letter.signature.hex(),
        )
