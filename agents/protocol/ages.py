# SPDX-License-Identifier: Apache-2.0
"""What happened lately, by the chain's clock.

Rule: a case without a deadline is looked after for as long as its culprit's stake surely answers
for it, which is the registry's unbonding period, in seconds. No number of blocks is as long on
every chain. The blocks of events tell their times, and only as many blocks are asked as halving
takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

from agents.runtime.chain import ChainClient

T = TypeVar("T")


class Ages:
    """When blocks were made; each is asked for once. After a reorg a time may be that of the other
    branch, which is seconds off."""

    def __init__(self, chain: ChainClient) -> None:
        self._chain = chain
        self._made: dict[int, int] = {}

    def made_at(self, block: int) -> int:
        """The timestamp of a block."""
        if block not in self._made:
            self._made[block] = self._chain.timestamp(block)
        return self._made[block]

    def since(self, moment: int, cases: Sequence[T], block_of: Callable[[T], int]) -> Sequence[T]:
        """Those of `cases`, which stand in the order of their blocks, of `moment` or later."""
        return cases[bisect_left(cases, moment, key=lambda case: self.made_at(block_of(case))) :]
