# SPDX-License-Identifier: Apache-2.0
"""Where other miners' posts are: announcements, each signed by its node's operator.

Rule: of each node the newest announcement counts whose signer is the node's operator now. Nobody is
believed about another, so anybody may pass announcements on. An address is only ever tried. Once an
operator's key has changed, what the former one signed counts for nothing, however late its time is.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agents.pipeline.letters import Announcement, Domain, LetterError
from agents.runtime.bounded_http import ask
from agents.storage.nesting import parse_json

MAX_ANNOUNCEMENTS = 2048
MAX_ANNOUNCEMENT = 1024  # bytes of one, as JSON
MAX_LIST = MAX_ANNOUNCEMENTS * 512  # bytes of a reply
_MAX_FORGED = 4  # in one reply, before the rest of it is left
_AHEAD_S = 600  # how far ahead of ours another clock may be


@dataclass(frozen=True)
class _Kept:
    said: Announcement
    signer: str  # the node's operator when it was taken


class AddressBook:
    """The newest announcement of each node. Its methods may be called from any thread."""

    def __init__(self, where: Domain, operator_of: Callable[[int], str | None]) -> None:
        """`operator_of`: a node's checksummed operator, None for a node that does not matter."""
        self._where, self._operator_of = where, operator_of
        self._known: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def url_of(self, node: int) -> str | None:
        """Where a node's post is said to be, without a slash at the end.

        Empty for a node that takes no connections, None if nobody said.
        """
        found = self._newest(node, self._operator_of(node))
        return None if found is None else found.url.rstrip("/")

    def _newest(self, node: int, operator: str | None) -> Announcement | None:
        """The announcement that is known of a node's operator."""
        kept = self._known.get(node)
        return None if kept is None or kept.signer != operator else kept.said

    def take(self, said: Announcement) -> bool:
        """Keep an announcement if it is newer than what is known; False if its signature is not
        that of the node's operator, its time lies ahead, or the book is full."""
        operator = self._operator_of(said.node)
        if operator is None or said.time > time.time() + _AHEAD_S:
            return False
        known = self._newest(said.node, operator)
        if known is not None and known.time >= said.time:
            return True
        if said.signer(self._where) != operator:
            return False
        with self._lock:
            known = self._newest(said.node, operator)
            if said.node not in self._known and len(self._known) >= MAX_ANNOUNCEMENTS:
                # Who mattered in an earlier epoch only must not fill the book for good.
                matter = {n for n in self._known if self._operator_of(n) is not None}
                self._known = {n: one for n, one in self._known.items() if n in matter}
            if said.node not in self._known and len(self._known) >= MAX_ANNOUNCEMENTS:
                return False
            if known is None or known.time < said.time:
                self._known[said.node] = _Kept(said, operator)
        return True

    def listed(self) -> bytes:
        """What `GET /announcements` answers: not what a former operator has signed, which nobody
        takes."""
        with self._lock:
            known = [
                kept.said.to_json()
                for node, kept in self._known.items()
                if self._operator_of(node) in (None, kept.signer)
            ]
        return json.dumps({"announcements": known}).encode()

    def ask(self, peers: Iterable[str], own: Announcement, timeout_s: float = 5.0) -> int:
        """Give the own announcement to each peer and take those that it knows.

        `peers`: urls of posts. A peer that can't be reached, or answers nonsense, is left out.
        Returns how many peers answered.
        """
        self.take(own)
        answered = 0
        for peer in peers:
            address = f"{peer.rstrip('/')}/announcements"
            try:
                ask("POST", address, json.dumps(own.to_json()).encode(), timeout_s, MAX_LIST)
                status, body = ask("GET", address, None, timeout_s, MAX_LIST)
                listed = parse_json(body)["announcements"] if status == 200 else []
                self._take_all(listed)
                answered += status == 200
            except (OSError, http.client.HTTPException):
                continue
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return answered

    def look(self, peers: Iterable[str], timeout_s: float = 2.0) -> None:
        """Take the announcements that each peer knows, of a node that has none to give."""
        for peer in peers:
            try:
                address = f"{peer.rstrip('/')}/announcements"
                status, body = ask("GET", address, None, timeout_s, MAX_LIST)
                self._take_all(parse_json(body)["announcements"] if status == 200 else [])
            except (OSError, http.client.HTTPException):
                continue
            except (ValueError, KeyError, TypeError, RecursionError):
                continue

    def _take_all(self, listed: Any) -> None:
        forged = 0
        for values in listed[:MAX_ANNOUNCEMENTS]:
            try:
                said = Announcement.from_json(values)
            except LetterError:
                forged += 1
            else:
                # One of a node that does not matter here costs no check and is no lie.
                forged += self._operator_of(said.node) is not None and not self.take(said)
            if forged > _MAX_FORGED:
                return


class Inquiry:
    """Asks the peers in a thread of its own, at once and then every `every_s`."""

    def __init__(
        self,
        book: AddressBook,
        peers: Iterable[str],
        own: Callable[[], Announcement],
        every_s: float = 30.0,
        timeout_s: float = 5.0,
    ) -> None:
        self._stopped = threading.Event()
        urls = tuple(peers)

        def work() -> None:
            while True:
                book.ask(urls, own(), timeout_s)
                if self._stopped.wait(every_s):
                    return

        self._thread = threading.Thread(target=work, name="addresses", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; does not wait for a request that is under way."""
        self._stopped.set()
