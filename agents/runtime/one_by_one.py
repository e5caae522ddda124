# SPDX-License-Identifier: Apache-2.0
"""Agents that know of each other, and of whom one has to send something: one after the other.

Rule: they stand in an order that is drawn for each event, so it is not always the same one that
pays. The first sends at once. Each other one leaves some time to each before it, from when it saw
that it could send. That must be more than a block: a transaction is seen in the next one at the
earliest, and if all waited less than that, all would send.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

from eth_utils import keccak

from agents.runtime.pace import stretched

_KEPT = 1024  # events, and more while they are asked for
_QUIET_S = 3600.0  # for which an event was not asked for, so that it is over


class OneByOne:
    """The turns of one agent, by its address.

    `apart_s`: seconds that are left to each agent before it, on a chain with a block a second; 0
    for agents that wait for nobody.
    """

    def __init__(self, address: str, apart_s: float) -> None:
        self._address, self._apart_s = address.lower(), apart_s
        # When it could be sent first, and was asked for last; in the order of the latter.
        self._seen: OrderedDict[tuple[bytes, str], tuple[float, float]] = OrderedDict()

    def is_mine(self, event: bytes, what: str, agents: Iterable[str], block_s: float) -> bool:
        """Whether it is this agent's turn.

        Args:
            event: what the order is drawn for.
            what: is to be sent, and could be now.
            agents: addresses of all who may send it.
            block_s: seconds from block to block.
        """
        now = time.monotonic()
        since, _ = self._seen.pop((event, what), (now, now))
        self._seen[event, what] = since, now
        while len(self._seen) > _KEPT and now - next(iter(self._seen.values()))[1] > _QUIET_S:
            self._seen.popitem(last=False)
        before = sum(self._place(event, one) < self._place(event, self._address) for one in agents)
        return now - since >= stretched(before * self._apart_s, block_s)

    @staticmethod
    def _place(event: bytes, address: str) -> bytes:
        return keccak(event + bytes.fromhex(address.lower().removeprefix("0x")))
