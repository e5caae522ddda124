# SPDX-License-Identifier: Apache-2.0
"""What today's trainers have at stake, and what a job's terms make of it: how much is done again.

Rule: read at once, in a page of 128 trainers; the smallest stakes count where a job has fewer
seats, since that is the most that checking may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agents.jobs.deterrence import Checking, checking
from agents.protocol.network import Network
from agents.protocol.numbers import MAX_NODES, Role
from agents.protocol.slashing import Row


class Paying(Protocol):
    """The terms of a job that decide it; amounts in 1e-18 ZOO."""

    @property
    def reward_per_round(self) -> int: ...
    @property
    def aggregator_bps(self) -> int: ...
    @property
    def max_nodes(self) -> int: ...


@dataclass(frozen=True)
class AtStake:
    """`stakes`: of the trainers, ascending, in 1e-18 ZOO. `table`: the slashing table."""

    stakes: tuple[int, ...]
    table: Mapping[int, Row]

    def checking(self, terms: Paying, sample: int, retained: int = 0) -> Checking:
        """What a round of a job with these terms asks of each verifier.

        `sample`: nodes that are drawn in any case. `retained`: rounds whose pay is retained of
        each. Nobody is checked where there is no trainer.
        """
        return checking(
            terms.reward_per_round,
            terms.aggregator_bps,
            self.stakes[: terms.max_nodes],
            self.table,
            sample,
            retained,
        )


def read_at_stake(network: Network) -> AtStake:
    """Today's trainers."""
    nodes = network.chain.call(network.registry, "role_nodes", int(Role.TRAINER), 0, MAX_NODES)
    stakes = network.stakes_at(nodes, network.chain.head().number)
    return AtStake(tuple(sorted(stakes.values())), network.penalties())
