# SPDX-License-Identifier: Apache-2.0
"""Permissionless duties: what any agent may send, and somebody has to.

Rule: to keep agents from all sending the same transaction, each waits a little: its role's patience
plus a jitter that depends on its address. An agent that comes too late loses nothing: it asks the
contract before it sends, and sees the refusal. Duties that are due together are sent together, as
many as one block takes. The rest waits for the next step: who makes a thousand duties must not keep
an agent from its own work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from agents.runtime.errors import Reverted
from agents.runtime.loop import jitter
from agents.runtime.pace import stretched
from agents.runtime.sender import TOGETHER, Sender
from agents.runtime.transaction import Order, Receipt

Due = tuple[str, int, Callable[[], Order]]
"""A duty: its name, the number of the event that agents' jitter is drawn for, the call."""


class Duties:
    """The duties of one agent.

    `patience_s`: seconds to leave to roles that should be first. `jitter_s`: spread after that.
    Both are as many blocks on a chain whose blocks take longer than a second.
    """

    def __init__(self, sender: Sender, patience_s: float, jitter_s: float) -> None:
        self._sender = sender
        self._patience_s = patience_s
        self._jitter_s = jitter_s
        self._since: dict[str, float] = {}

    def step(self, due: Iterable[Due], at_once: bool = False) -> str | None:
        """Send the duties whose time has come; returns what was sent, None if nothing was.

        `at_once`: this agent leads, so it waits for nobody.
        """
        due = list(due)
        began = time.monotonic()
        self._since = {name: self._since.get(name, began) for name, _, _ in due}
        mine = {name: call for name, anchor, call in due if at_once or self._waited(name, anchor)}
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
            return "; ".join(sent) or None
        return None

    def _waited(self, name: str, anchor: int) -> bool:
        wait = self._patience_s + jitter(self._sender.address, anchor, self._jitter_s)
        return time.monotonic() - self._since[name] >= stretched(wait, self._sender.block_s)


def _before_sending(outcome: Receipt | Reverted) -> bool:
    """Whether a call was refused without a transaction, so that no block went by for it."""
    return isinstance(outcome, Reverted) and outcome.tx_hash is None
