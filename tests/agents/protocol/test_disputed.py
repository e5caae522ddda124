# SPDX-License-Identifier: Apache-2.0
"""Which rounds wait for the committee: whatever was decided long ago is asked about no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.ended import Ended
from agents.protocol.network import Network
from agents.protocol.numbers import Phase


class Facts(Network):
    """A network whose chain has challenges, as (job, round, block), and the phases of rounds."""

    def __init__(self) -> None:
        self.made: list[tuple[int, int, int]] = []
        self.phases: dict[tuple[int, int], Phase] = {}
        self.height, self.asked = 1, list[tuple[int, int]]()
        self._challenged: Any = SimpleNamespace(read=self._events)
        self._resolved = Ended()
        self.chain: Any = SimpleNamespace(
            head=lambda: SimpleNamespace(number=self.height), call_many=self._call_many
        )
        self.rounds: Any = None

    def _events(self) -> list[Any]:
        return [
            SimpleNamespace(args={"job_id": job, "round_id": number}, block=block)
            for job, number, block in self.made
        ]

    def _call_many(self, calls: list[Any]) -> list[Phase]:
        self.asked = [place for _, _, place in calls]
        return [self.phases[place] for place in self.asked]

    def challenge(self, job: int, number: int) -> None:
        self.made.append((job, number, self.height))
        self.phases[job, number] = Phase.DISPUTED


@pytest.fixture
def network() -> Facts:
    return Facts()


def test_a_dispute_is_found_until_it_is_decided(network: Facts) -> None:
    network.challenge(1, 7)
    network.height += 10_000
    assert network.disputed() == [(1, 7)]
    network.phases[1, 7] = Phase.FINALIZED
    assert network.disputed() == []


def test_what_was_decided_long_ago_is_not_asked_about(network: Facts) -> None:
    """Each challenge that was ever made was asked about at each look."""
    for job in range(1, 50):
        network.challenge(job, 1)
        network.phases[job, 1] = Phase.FINALIZED
    network.disputed()
    network.height += 129
    assert network.disputed() == [] and network.asked == []


def test_a_decision_that_a_reorg_takes_back_is_found(network: Facts) -> None:
    network.challenge(1, 7)
    network.phases[1, 7] = Phase.AGGREGATE
    network.disputed()
    network.phases[1, 7] = Phase.DISPUTED
    assert network.disputed() == [(1, 7)]
    network.height += 10_000
    assert network.disputed() == [(1, 7)]


def test_a_round_that_is_disputed_again_is_found(network: Facts) -> None:
    network.challenge(1, 7)
    network.phases[1, 7] = Phase.AGGREGATE
    network.disputed()
    network.height += 1_000
    network.challenge(1, 7)
    assert network.disputed() == [(1, 7)]
