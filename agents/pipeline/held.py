# SPDX-License-Identifier: Apache-2.0
"""Letters that wait at their sender's post until their receiver comes for them.

Rule: the own miner puts letters in. As a relay the post puts in what others without a post wrote to
such a receiver, in a smaller room of its own. A receiver gets its oldest one, and the same one
again until it says what became of it; then the sender is told that. A letter that nobody comes for
is taken back, and its sender is told LATER, as if the receiver could not be reached. No other
letter is held for it then until it asks.

A receiver's counter only grows, so a question that was asked before is not answered again. Counters
are forgotten with the epoch or the process. An old question can then remove only the letter that
it names, which its receiver did get.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from eth_utils import keccak

from agents.pipeline.courier import Outcome

MOST_BYTES = 256 << 20  # of all letters of an epoch
RELAYED_BYTES = 64 << 20  # of all letters that others wrote
MOST_OPEN = 16  # questions that wait for a letter at once; others are answered immediately

# What a question says of the letter that it was given, by its number `Collect.answer`.
ANSWERS = (None, Outcome.TAKEN, Outcome.REFUSED, Outcome.LATER)

Told = Callable[[Outcome, str], None]


class Replayed(Exception):
    """The counter of a question is not above the last one."""


class Occupied(Exception):
    """Another question of the same receiver waits."""


@dataclass(frozen=True)
class _Held:
    body: bytes
    told: Told
    since: float
    relayed: bool


class Held:
    """Of one miner in one epoch. Any thread may call it."""

    def __init__(
        self, most: int, most_bytes: int = MOST_BYTES, relayed_bytes: int = RELAYED_BYTES
    ) -> None:
        """
        Args:
            most: letters that wait for one receiver, of the own miner and of all others each.
            most_bytes: of all letters of the own miner.
            relayed_bytes: of all others.
        """
        self._most, self._rooms = most, {False: most_bytes, True: relayed_bytes}
        self._letters: dict[int, OrderedDict[bytes, _Held]] = {}  # receiver -> digest -> letter
        self._counter: dict[int, int] = {}
        self._open: set[int] = set()
        self._absent: set[int] = set()  # who let a letter wait too long, and has not asked since
        self._change = threading.Condition()

    def put(
        self, receiver: int, body: bytes, told: Told, now: float, relayed: bool = False
    ) -> bool:
        """Let a letter wait since `now`; `told` is called with its outcome. False if it is full,
        the receiver let another one wait too long, or the letter waits already.

        `relayed`: somebody else wrote it.
        """
        with self._change:
            waiting = self._letters.get(receiver, OrderedDict())
            alike = sum(one.relayed == relayed for one in waiting.values())
            crowded = alike >= self._most or len(body) > self._rooms[relayed]
            if receiver in self._absent or crowded:
                return False
            digest = keccak(body)
            if digest in waiting:
                return False
            self._rooms[relayed] -= len(body)
            one = _Held(body, told, now, relayed)
            self._letters.setdefault(receiver, OrderedDict())[digest] = one
            self._change.notify_all()
        return True

    def collect(
        self, receiver: int, counter: int, outcome: Outcome | None, about: bytes, wait_s: float
    ) -> bytes | None:
        """The oldest letter of a receiver; None if none came within `wait_s`.

        Args:
            counter: above that of every question before.
            outcome: of the letter with the digest `about`, which it was given before; None if it
                was given none.

        Raises:
            Replayed: an old counter.
            Occupied: its last question still waits.
        """
        with self._change:
            if counter <= self._counter.get(receiver, -1):
                raise Replayed
            self._counter[receiver] = counter
            self._absent.discard(receiver)
            settled = None if outcome is None else self._remove(receiver, about)
        if settled is not None and outcome is not None:
            settled.told(outcome, "it came for the letter")
        with self._change:
            if receiver in self._open:
                raise Occupied
            if receiver not in self._letters and len(self._open) < MOST_OPEN:
                self._open.add(receiver)
                try:
                    self._change.wait_for(lambda: receiver in self._letters, wait_s)
                finally:
                    self._open.discard(receiver)
            waiting = self._letters.get(receiver)
            return None if waiting is None else next(iter(waiting.values())).body

    def expire(self, before: float) -> None:
        """Take back what waits since earlier than `before`."""
        with self._change:
            old = [
                (receiver, digest)
                for receiver, waiting in self._letters.items()
                for digest, one in waiting.items()
                if one.since < before
            ]
            self._absent.update(receiver for receiver, _ in old)
            gone = [self._remove(*place) for place in old]
        for one in gone:
            if one is not None:
                one.told(Outcome.LATER, "it did not come for the letter")

    def _remove(self, receiver: int, digest: bytes) -> _Held | None:
        waiting = self._letters.get(receiver, OrderedDict())
        found = waiting.pop(digest, None)
        if found is not None:
            self._rooms[found.relayed] += len(found.body)
            if not waiting:
                del self._letters[receiver]
        return found
