# SPDX-License-Identifier: Apache-2.0
"""Carries letters, notices and questions to other miners' posts, in threads of its own.

Rule: one request to a receiver at a time, in the order in which they were given, and every request
is bounded in total time. So a slow receiver holds one thread for that time and delays its own
letters. Nothing is tried twice here: the outcome is told to who gave the letter. A letter for a
receiver that takes no connections is held until it comes. A sender without a post of its own gives
it to the receiver's relays, one after the other until one takes it, and asks them for its notice. A
letter that found none of these ways goes into the store, if its receiver comes there.
"""

from __future__ import annotations

import http.client
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from agents.runtime.bounded_http import ask

_MAX_REPLY = 4096
_MOST = 64  # letters that wait for one receiver
_BY_STORE_S = 30.0  # that a receiver gets its letters in the store once it could not be reached
_TO_STORE = ""  # the path of a letter that is left in the store only


class Outcome(Enum):
    """What became of a letter. LATER: nobody was reached, or not now."""

    TAKEN = 0
    REFUSED = 1
    LATER = 2


@dataclass(frozen=True)
class Carried:
    """`tag` as it was given; `why` is the receiver's sentence or the error; `reply`: the bytes of
    the answer, at most 4096, none if nobody answered."""

    tag: Any
    receiver: int
    outcome: Outcome
    why: str
    reply: bytes = b""


def send(url: str, body: bytes, timeout_s: float) -> tuple[Outcome, str]:
    """One POST of a letter or notice to its full address; the outcome and the reason for it."""
    found = _request(url, body, timeout_s)
    return found.outcome, found.why


@dataclass(frozen=True)
class _Answer:
    """`reached`: whether the receiver itself answered."""

    outcome: Outcome
    why: str
    reply: bytes = b""
    reached: bool = False


def _request(url: str, body: bytes | None, timeout_s: float) -> _Answer:
    try:
        method = "GET" if body is None else "POST"
        status, reply = ask(method, url, body, timeout_s, _MAX_REPLY)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _Answer(Outcome.LATER, f"{type(error).__name__}: {error}"[:200])
    why = f"{status} {reply[:200].decode(errors='replace')}"
    if status == 200:
        return _Answer(Outcome.TAKEN, why, reply, True)
    outcome = Outcome.REFUSED if 400 <= status < 500 else Outcome.LATER
    return _Answer(outcome, why, reply, True)


Hold = Callable[[int, bytes, Callable[[Outcome, str], None]], bool]
Relays = Callable[[int], Iterable[str]]


class Left(Protocol):
    """The way through the store, as `agents.pipeline.by_store` has it."""

    def prefers(self, receiver: int) -> bool:
        """Whether a receiver can reach nobody, so that the store is the only way."""

    def leave(self, receiver: int, body: bytes) -> bool:
        """Leave a letter; False if its receiver does not come there."""


class Courier:
    """`url_of`: where a miner's post is, empty if it takes no connections, None if nobody knows;
    `wake`: called at each outcome."""

    def __init__(
        self,
        url_of: Callable[[int], str | None],
        wake: Callable[[], None],
        timeout_s: float = 5.0,
        width: int = 8,
        hold: Hold | None = None,
        relays: Relays | None = None,
        left: Left | None = None,
    ) -> None:
        """
        Args:
            width: threads, so receivers that are served at once.
            hold: keeps a letter for a receiver that takes no connections, and is told its outcome;
                False if it can't. None where there is no such place.
            relays: urls of the posts where such a receiver comes for others' letters; for a sender
                that can hold none.
            left: the way through the store; None where there is none.
        """
        self._hold, self._relays, self._left = hold, relays, left
        self._unreached: dict[int, float] = {}  # receiver -> until when the store comes first
        self._url_of, self._wake, self._timeout_s = url_of, wake, timeout_s
        self._bags: OrderedDict[int, deque[tuple[str, bytes | None, Any]]] = OrderedDict()
        self._busy: set[int] = set()
        self._change = threading.Condition()
        self._stopped = False
        self._carried: queue.SimpleQueue[Carried] = queue.SimpleQueue()
        for _ in range(width):
            threading.Thread(target=self._serve, name="courier", daemon=True).start()

    def give(self, receiver: int, path: str, body: bytes | None, tag: Any) -> None:
        """Carry `body` to `path` of the receiver's post, or get what lies there if it is None.

        LATER at once if many wait for it.
        """
        with self._change:
            bag = self._bags.setdefault(receiver, deque())
            full = len(bag) >= _MOST
            if not full:
                bag.append((path, body, tag))
                self._change.notify()
        if full:
            self._tell(receiver, tag, _Answer(Outcome.LATER, "too many letters wait for it"))

    def _tell(self, receiver: int, tag: Any, found: _Answer) -> None:
        self._carried.put(Carried(tag, receiver, found.outcome, found.why, found.reply))
        self._wake()

    def _set_aside(self, receiver: int, path: str, body: bytes | None, tag: Any) -> None:
        def told(outcome: Outcome, why: str) -> None:
            if outcome is Outcome.LATER and body is not None and self._left is not None:
                self.give(receiver, _TO_STORE, body, tag)
            else:
                self._tell(receiver, tag, _Answer(outcome, why))

        if self._hold is None or body is None or path != "/letters":
            self._tell(receiver, tag, _Answer(Outcome.LATER, "this miner takes no connections"))
        elif not self._hold(receiver, body, told):
            told(Outcome.LATER, "no letter is held for it now")

    def carried(self) -> Carried | None:
        """An outcome that was not told yet; None if there is none."""
        try:
            return self._carried.get_nowait()
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Carry nothing more; requests that are under way end by themselves."""
        with self._change:
            self._stopped = True
            self._bags.clear()
            self._change.notify_all()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            receiver, path, body, tag = job
            found = self._carry(receiver, path, body, tag)
            with self._change:
                self._busy.discard(receiver)
                self._change.notify()
            if found is not None:
                self._tell(receiver, tag, found)

    def _carry(self, receiver: int, path: str, body: bytes | None, tag: Any) -> _Answer | None:
        """What became of it; None if that is told later."""
        letter = body if path in ("/letters", _TO_STORE) else None
        if path == _TO_STORE:
            missed = _Answer(Outcome.LATER, "it did not come for the letter")
            return self._by_store(receiver, letter) or missed
        soon = time.monotonic() < self._unreached.get(receiver, 0.0)
        if letter is not None and self._left and (soon or self._left.prefers(receiver)):
            found = self._by_store(receiver, letter)
            if found is not None:
                return found
        url = self._url_of(receiver)
        if url:
            found = _request(url + path, body, self._timeout_s)
        elif url is None:
            found = _Answer(Outcome.LATER, "no address of this miner is known")
        elif self._relays is None:
            self._set_aside(receiver, path, body, tag)
            return None
        else:
            found = self._by_relay(receiver, path, body)
        if found.outcome is not Outcome.LATER or found.reached:
            return found
        return self._by_store(receiver, letter) or found

    def _by_store(self, receiver: int, letter: bytes | None) -> _Answer | None:
        """Leave a letter in the store; None if that is no way to its receiver."""
        if letter is None or self._left is None or not self._left.leave(receiver, letter):
            return None
        # Finding out each time that it can't be reached may take seconds.
        self._unreached[receiver] = time.monotonic() + _BY_STORE_S
        return _Answer(Outcome.TAKEN, "it lies in the store")

    def _by_relay(self, receiver: int, path: str, body: bytes | None) -> _Answer:
        """Give a letter to the first relay that takes it, or get what a relay has."""
        found = _Answer(Outcome.LATER, "this miner takes no connections, and no relay is known")
        if body is not None and path != "/letters":
            return found
        for url in self._relays(receiver) if self._relays is not None else ():
            at = path if body is None else "/relay"
            found = _request(url + at, body, self._timeout_s)
            if found.outcome is Outcome.TAKEN:
                break
        return replace(found, reached=False)

    def _next(self) -> tuple[int, str, bytes | None, Any] | None:
        with self._change:
            while not self._stopped:
                for receiver, bag in self._bags.items():
                    if receiver in self._busy:
                        continue
                    path, body, tag = bag.popleft()
                    del self._bags[receiver]
                    if bag:
                        self._bags[receiver] = bag  # at the end: the others come first
                    self._busy.add(receiver)
                    return receiver, path, body, tag
                self._change.wait()
            return None
