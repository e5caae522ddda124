# SPDX-License-Identifier: Apache-2.0
"""A job in which a node is cleared while the next round is open, and once before one opens.

Eve sends noise in the rounds 1 and 3, is convicted, and nobody decides her appeals. She is cleared
when round 2 has been opened, and before round 4 is. So her batches of round 1 are handed out again,
and those of round 3 are not. The audit, which comes when she is cleared of both, must see that too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.rounds.plan import Plan
from scripts._net.processes import Supervisor
from tests.stage.chain.finished_job import JOB, SPEC, FinishedJob, make_job
from tests.stage.chain.made_once import made_once
from tests.stage.chain.people import EVIDENCE, TRAINERS

OTHERS = [name for name in TRAINERS if name != "eve"]


@dataclass
class ClearedJob(FinishedJob):
    """`undecided`: appeals that anybody may dismiss, which happens in the round that is open."""

    undecided: list[bytes] = field(default_factory=list)

    def play(self) -> None:
        self.round_(TRAINERS, noisy=("eve",))
        self._appeal()
        self.round_(OTHERS)
        self.round_(TRAINERS, noisy=("eve",))
        self._appeal()
        self._dismiss()
        self.round_(TRAINERS)

    def _appeal(self) -> None:
        people, report = self.people, self.reports.pop()
        people.chain.send(people.nodes["eve"].owner, people.reports, "appeal", report, EVIDENCE)
        people.wait_until(int(people.chain.call(people.reports, "report_of", report).deadline))
        self.undecided.append(report)

    def _dismiss(self) -> None:
        people = self.people
        while self.undecided:
            call = people.reports, "dismiss_unresolved", self.undecided.pop()
            people.chain.send(people.faucet, *call)

    def _plan(self) -> Plan:
        plan = super()._plan()
        self._dismiss()
        return plan


@pytest.fixture(scope="module")
def cleared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClearedJob]:
    def make(directory: Path, supervisor: Supervisor) -> ClearedJob:
        job = make_job(ClearedJob, directory, supervisor, SPEC)
        job.play()
        return job

    with made_once(tmp_path_factory, "cleared", make) as made:
        yield made


def test_only_what_was_invalid_as_a_round_opened_is_handed_out_again(cleared: ClearedJob) -> None:
    assert cleared.outcomes[JOB, 2].report.carry_in != []
    assert cleared.outcomes[JOB, 4].report.carry_in == []


@pytest.mark.parametrize("deep", [False, True])
def test_who_audits_after_the_clearings_finds_nothing_wrong(
    cleared: ClearedJob, deep: bool
) -> None:
    audit = cleared.audited(deep=deep)
    assert [str(difference) for difference in audit.differences] == []
    assert [part.status for part in audit.rounds] == ["finalized"] * 4
