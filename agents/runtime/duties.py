# SPDX-License-Identifier: Apache-2.0
"""Permissionless duties: what any agent may send, and somebody has to.

Rule: to keep agents from all sending the same transaction, each waits a little: its role's patience
plus a jitter that depends on its address. An agent that comes too late loses nothing: it asks the
contract before it sends, and sees the refusal. Duties that are due together are sent together, as
many as one block takes. The rest waits for the next step: who makes a thousand duties must not keep
an agent from its own work. Where a look reads only some of what may be due, a duty that it could
not tell of goes on waiting: else more duties than one look reads would never come to their end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import islice

from agents.runtime.errors import Reverted
from agents.runtime.loop import jitter
from agents.runtime.pace import stretched
from agents.runtime.sender import TOGETHER, Sender
from agents.runtime.transaction import Order, Receipt

_MOST = 16_384  # duties that are remembered
_UNSEEN_S = 86_400.0  # after which one that no look has come to again is forgotten

Due = tuple[str, int, Callable[[], Order]]
"""A duty: its name, the number of the event that agents' jitter is drawn for, the call."""


@dataclass(frozen=True)
class _Waiting:
    """A duty that is due. `since` and `seen`: the moments of the first and of the last look that
    found it so."""

    event: int
    since: float
    seen: float


class Duties:
    """The duties of one agent.

    `patience_s`: seconds to leave to roles that should be first. `jitter_s`: spread after that.
    Both are as many blocks on a chain whose blocks take longer than a second.
    """

    def __init__(self, sender: Sender, patience_s: float, jitter_s: float) -> None:
        self._sender = sender
        self._patience_s = patience_s
        self._jitter_s = jitter_s
        self._waiting: dict[str, _Waiting] = {}  # those first that have waited longest

    def step(
        self, due: Iterable[Due], at_once: bool = False, looked: Container[int] | None = None
    ) -> str | None:
        """Send the duties whose time has come; returns what was sent, None if nothing was.

        `at_once`: this agent leads, so it waits for nobody. `looked`: the events of which `due`
        tells all that is due; None: all events.
        """
        due = list(due)
        now = time.monotonic()
        found = self._found(due, now)
        known = {
            name: one
            for name, one in self._waiting.items()
            if name in found or (looked is not None and _goes_on(one, looked, now))
        }
        # Where there are too many, new ones are not remembered: each old one that is done makes
        # room. If the old ones made room for the new, none would come to its end.
        self._waiting = dict(islice({**known, **found}.items(), _MOST))
        mine = {name: call for name, _, call in due if at_once or self._waited(found[name], now)}
        names = list(mine)
        for first in range(0, len(names), TOGETHER):
            part = names[first : first + TOGETHER]
            outcomes = self._sender.send_all([mine[name]() for name in part])
            if all(_before_sending(outcome) for outcome in outcomes):
                continue
            # Refused: someone was faster, or the contract sees no reason yet.
            sent = [
                name
                for name, outcome in zip(part, outcomes, strict=True)
                if not isinstance(outcome, Reverted)
            ]
            for name in sent:
                self._waiting.pop(name, None)
            return "; ".join(sent) or None
        return None

    def _found(self, due: Iterable[Due], now: float) -> dict[str, _Waiting]:
        """What this look has found due, and since when."""
        found = {}
        for name, event, _ in due:
            before = self._waiting.get(name)
            found[name] = _Waiting(event, now if before is None else before.since, now)
        return found

    def _waited(self, one: _Waiting, now: float) -> bool:
        wait = self._patience_s + jitter(self._sender.address, one.event, self._jitter_s)
        return now - one.since >= stretched(wait, self._sender.block_s)


def _before_sending(outcome: Receipt | Reverted) -> bool:
    """Whether a call was refused without a transaction, so that no block went by for it."""
    return isinstance(outcome, Reverted) and outcome.tx_hash is None


def _goes_on(one: _Waiting, looked: Container[int], now: float) -> bool:
    """Whether a duty that was due still may be: this look could not tell."""
    return one.event not in looked and now - one.seen <= _UNSEEN_S
