# SPDX-License-Identifier: Apache-2.0
"""Carries letters, notices and questions to other miners' posts, in threads of its own.

Rule: one request to a receiver at a time, in the order in which they were given, and every request
is bounded in total time. So a slow receiver holds one thread for that time and delays its own
letters. Nothing is tried twice here: the outcome is told to who gave the letter. A letter for a
receiver that takes no connections is held until it comes. A sender without a post of its own gives
it to the receiver's relays, one after the other until one takes it, and asks them for its notice.
"""

from __future__ import annotations

import http.client
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agents.runtime.bounded_http import ask

_MAX_REPLY = 4096
_MOST = 64  # letters that wait for one receiver


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
    return _request(url, body, timeout_s)[:2]


def _request(url: str, body: bytes | None, timeout_s: float) -> tuple[Outcome, str, bytes]:
    try:
        method = "GET" if body is None else "POST"
        status, reply = ask(method, url, body, timeout_s, _MAX_REPLY)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Outcome.LATER, f"{type(error).__name__}: {error}"[:200], b""
    why = f"{status} {reply[:200].decode(errors='replace')}"
    if status == 200:
        return Outcome.TAKEN, why, reply
    return (Outcome.REFUSED if 400 <= status < 500 else Outcome.LATER), why, reply


Hold = Callable[[int, bytes, Callable[[Outcome, str], None]], bool]
Relays = Callable[[int], Iterable[str]]


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
    ) -> None:
        """
        Args:
            width: threads, so receivers that are served at once.
            hold: keeps a letter for a receiver that takes no connections, and is told its outcome;
                False if it can't. None where there is no such place.
            relays: urls of the posts where such a receiver comes for others' letters; for a sender
                that can hold none.
        """
        self._hold, self._relays = hold, relays
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

        LATER at once if many wait for it, or if it takes no connections and this can't be held.
        """
        if self._url_of(receiver) == "" and self._relays is None:
            self._set_aside(receiver, path, body, tag)
            return
        with self._change:
            bag = self._bags.setdefault(receiver, deque())
            full = len(bag) >= _MOST
            if not full:
                bag.append((path, body, tag))
                self._change.notify()
        if full:
            self._carried.put(Carried(tag, receiver, Outcome.LATER, "too many letters wait for it"))
            self._wake()

    def _set_aside(self, receiver: int, path: str, body: bytes | None, tag: Any) -> None:
        def told(outcome: Outcome, why: str) -> None:
            self._carried.put(Carried(tag, receiver, outcome, why))
            self._wake()

        if self._hold is None or body is None or path != "/letters":
            told(Outcome.LATER, "this miner takes no connections")
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
            url = self._url_of(receiver)
            outcome, why, reply = Outcome.LATER, "no address of this miner is known", b""
            if url:
                outcome, why, reply = _request(url + path, body, self._timeout_s)
            elif url is not None:
                outcome, why, reply = self._by_relay(receiver, path, body)
            with self._change:
                self._busy.discard(receiver)
                self._change.notify()
            self._carried.put(Carried(tag, receiver, outcome, why, reply))
            self._wake()

    def _by_relay(self, receiver: int, path: str, body: bytes | None) -> tuple[Outcome, str, bytes]:
        """Give a letter to the first relay that takes it, or get what a relay has."""
        found = Outcome.LATER, "this miner takes no connections, and no relay is known", b""
        if body is not None and path != "/letters":
            return found
        for url in self._relays(receiver) if self._relays is not None else ():
            at = path if body is None else "/relay"
            found = _request(url + at, body, self._timeout_s)
            if found[0] is Outcome.TAKEN:
                break
        return found

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
