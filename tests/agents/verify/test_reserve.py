# SPDX-License-Identifier: Apache-2.0
"""What a verifier's wallet must hold for the jobs that it serves, and when it says that it does
not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.protocol.numbers import ZOO, JobStatus
from agents.verify.reserve import Reserve

BONDS = {1: 100, 2: 50, 3: 1_000}  # of jobs, in ZOO
DEPOSIT = 10


class Wallet:
    """An operator's wallet of so many ZOO, the jobs above of which the third has ended, and what
    was logged."""

    def __init__(self, holds: float) -> None:
        self.holds, self.asked = holds, 0
        self.said: list[tuple[str, dict[str, Any]]] = []
        network = SimpleNamespace(
            token=None,
            bounds=lambda: SimpleNamespace(least_bond=DEPOSIT * ZOO),
            job=lambda job: SimpleNamespace(
                terms=SimpleNamespace(challenge_bond=BONDS[job] * ZOO),
                status=JobStatus.COMPLETED if job == 3 else JobStatus.ACTIVE,
            ),
        )
        log = SimpleNamespace(
            warning=lambda event, **fields: self.said.append((event, fields)),
            info=lambda event, **fields: self.said.append((event, fields)),
        )
        context = SimpleNamespace(chain=self, wallet=SimpleNamespace(address="0x7"), log=log)
        self.reserve = Reserve(cast(Any, network), cast(Any, context))

    def call(self, contract: Any, function: str, address: str) -> int:
        self.asked += 1
        return int(self.holds * ZOO)

    def look(self, now: int, *jobs: int) -> list[str]:
        """The events of a look at a second of the chain's time."""
        before = len(self.said)
        self.reserve.look(cast(Any, SimpleNamespace(timestamp=now)), jobs)
        return [event for event, _ in self.said[before:]]


@pytest.mark.parametrize(
    ("jobs", "wanted"), [((), 0), ((1,), 110), ((2,), 60), ((1, 2), 170), ((1, 2, 3), 170)]
)
def test_it_wants_a_bond_and_a_deposit_for_each_live_job(
    jobs: tuple[int, ...], wanted: int
) -> None:
    assert Wallet(wanted).look(0, *jobs) == []
    if wanted:
        assert Wallet(wanted - 0.5).look(0, *jobs) == ["lacks_bonds"]


def test_it_says_how_much_is_lacking_and_for_which_jobs() -> None:
    poor = Wallet(120)
    assert poor.look(0, 2, 1, 3) == ["lacks_bonds"]
    fields = poor.said[0][1]
    assert (fields["wallet"], fields["holds_zoo"], fields["wants_zoo"]) == ("0x7", 120, 170)
    assert fields["jobs"] == [1, 2]
    assert fields["why"].startswith("send it 50 ZOO")


def test_a_shortage_is_said_once__when_it_changes__and_when_it_ends() -> None:
    poor = Wallet(120)
    assert poor.look(0, 1, 2) == ["lacks_bonds"]
    assert poor.look(10_000, 1, 2) == []
    poor.holds = 20  # a challenge has taken its bond
    assert poor.look(20_000, 1, 2) == ["lacks_bonds"]
    poor.holds = 170
    assert poor.look(30_000, 1, 2) == ["has_bonds"]
    assert poor.look(40_000, 1, 2) == []


def test_it_looks_at_once_where_the_jobs_change__and_else_every_ten_minutes() -> None:
    rich = Wallet(1_000)
    for now, jobs, asked in [(0, (1,), 1), (599, (1,), 1), (599, (1, 2), 2), (1_199, (1, 2), 3)]:
        rich.look(now, *jobs)
        assert rich.asked == asked
