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

_KEPT = 1024


class OneByOne:
    """The turns of one agent, by its address.

    `apart_s`: seconds that are left to each agent before it, on a chain with a block a second; 0
    for agents that wait for nobody.
    """

    def __init__(self, address: str, apart_s: float) -> None:
        self._address, self._apart_s = address.lower(), apart_s
        self._since: OrderedDict[tuple[bytes, str], float] = OrderedDict()

    def is_mine(self, event: bytes, what: str, agents: Iterable[str], block_s: float) -> bool:
        """Whether it is this agent's turn.

        Args:
            event: what the order is drawn for.
            what: is to be sent, and could be now.
            agents: addresses of all who may send it.
            block_s: seconds from block to block.
        """
        now = time.monotonic()
        since = self._since.setdefault((event, what), now)
        while len(self._since) > _KEPT:
            self._since.popitem(last=False)
        before = sum(self._place(event, one) < self._place(event, self._address) for one in agents)
        return now - since >= stretched(before * self._apart_s, block_s)

    @staticmethod
    def _place(event: bytes, address: str) -> bytes:
        return keccak(event + bytes.fromhex(address.lower().removeprefix("0x")))
