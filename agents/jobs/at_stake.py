# SPDX-License-Identifier: Apache-2.0
"""What today's trainers have at stake, and what a job's terms make of it: how much is done again,
and whether that deters a lie.

Rule: read at once, in a page of 128 trainers; the smallest stakes count where a job has fewer
seats, since that is the most that checking may take.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agents.jobs.deterrence import Checking, checking
from agents.protocol.network import Network
from agents.protocol.numbers import MAX_NODES, Role
from agents.protocol.slashing import Row

if TYPE_CHECKING:  # who only asks what jobs pay does not load torch
    from agents.training.spec import JobSpec

_STAKES_S = 60.0  # for which what was read of the trainers' stakes is good enough


class Paying(Protocol):
    """The terms of a job that decide it; amounts in 1e-18 ZOO."""

    @property
    def reward_per_round(self) -> int: ...
    @property
    def verifier_bps(self) -> int: ...
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
            terms.verifier_bps,
            terms.aggregator_bps,
            self.stakes[: terms.max_nodes],
            self.table,
            sample,
            retained,
        )

    def undeterred(self, terms: Paying, spec: JobSpec) -> str | None:
        """Why a job is neither created nor worked on: because a lie in it costs nothing.

        None where a lie costs something, and where no work is done again. Retained pay does not
        count: a newcomer has none.
        """
        from agents.mechanisms import verify

        if not verify.get(spec.verify).redone:
            return None
        found = self.checking(terms, spec.audit_sample)
        return None if found.deters else f"its terms don't deter cheats: {found.sentences()[0]}"


def read_at_stake(network: Network) -> AtStake:
    """Today's trainers. One without a stake has left since the list was read."""
    nodes = network.chain.call(network.registry, "role_nodes", int(Role.TRAINER), 0, MAX_NODES)
    stakes = network.stakes_at(nodes, network.chain.head().number)
    return AtStake(tuple(sorted(filter(None, stakes.values()))), network.penalties())


class Watched:
    """What trainers have at stake, read anew when it is a minute old."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._read: tuple[float, AtStake] | None = None  # when, and what

    def now(self) -> AtStake:
        """Today's trainers, as they were a minute ago at most."""
        now = time.monotonic()
        if self._read is None or now >= self._read[0] + _STAKES_S:
            self._read = now, read_at_stake(self._network)
        return self._read[1]
