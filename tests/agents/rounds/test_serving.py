# SPDX-License-Identifier: Apache-2.0
"""Several jobs served at once: each has its own duty, which lives as long as there is something."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

import agents.rounds.serving
from agents.jobs.choice import Rated
from agents.protocol.numbers import Phase, ReportStatus, Role
from agents.rounds.serving import Serving
from agents.runtime.context import Context
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics

HEAD: Any = Stub(number=9, timestamp=1_000)


@dataclass
class Duty:
    """Finds something to do at its first step."""

    steps: list[int] = field(default_factory=list)

    def step(self, view: Any, node: int) -> str | None:
        self.steps.append(view.job_id)
        return "attested: round 1" if len(self.steps) == 1 else None


class Jobs:
    """A verifier's jobs among five; `rated` and `live` are what the chain offers."""

    def __init__(self, tmp_path: Path, job_id: int = 0, reports: tuple[int, ...] = ()) -> None:
        self.log, self.open_in = tmp_path / "log", set[int]()
        network: Any = Stub(
            job_count=lambda: 5,
            deployment=Stub(block=0),
            reported=lambda *_: list(reports),
            report=lambda job: Stub(job_id=job, status=ReportStatus.CONFIRMED),
        )
        context: Any = Context(
            settings=Stub(job_id=job_id, max_jobs=8, least_pay=0.0, memory=None),
            log=open_log("verifier", path=self.log),
            metrics=Metrics("verifier"),
            **dict.fromkeys(("deployment", "chain", "wallet", "sender", "journal", "feed", "stop")),
            artefacts=tmp_path,
        )
        store: Any = None
        make = lambda _: Duty()  # noqa: E731
        self.serving: Serving[Duty] = Serving(
            network, context, store, Role.VERIFIER, make, lambda: self.open_in
        )
        self.metrics = context.metrics

    def step(self, rated: list[int], live: set[int] | None = None) -> str | None:
        offers: Any = self.serving.offers
        offers.rated = lambda *_: [Rated(job, 1.0) for job in rated]
        offers.live = set(rated) if live is None else live
        return self.serving.step(HEAD, 7)

    @property
    def served(self) -> set[int]:
        return set(self.serving._duties)


ROUNDS: dict[int, Any] = {}
"""By job what differs of its newest round."""


@pytest.fixture(autouse=True)
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {
        "round_id": 1,
        "phase": Phase.COMMIT,
        "round": Stub(settled=False),
        "snapshot": Stub(verifiers={}, aggregators=()),
    }
    look = lambda _, job, head: Stub(job_id=job, **usual | ROUNDS.get(job, {}))  # noqa: E731
    monkeypatch.setattr(agents.rounds.serving, "observe", look)
    ROUNDS.clear()


def test_each_job_has_a_duty_of_its_own_and_its_turn(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    said = [jobs.step([2, 4]) for _ in range(3)]
    assert said == ["attested: round 1 (job 2)", "attested: round 1 (job 4)", None]
    assert [set(duty.steps) for duty in jobs.serving._duties.values()] == [{2}, {4}]
    shown = [jobs.metrics.registry.get_sample_value("menagerie_round", {"job": j}) for j in "24"]
    assert shown == [1, 1]


def test_a_job_that_ended_is_looked_after_and_one_that_is_refused_is_left(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    for _ in range(3):
        jobs.step([2, 4])
    jobs.serving.offers.reasons[4] = "it pays nothing"
    jobs.step([], live={4})
    assert jobs.served == {2}
    said = jobs.log.read_text().splitlines()[-1]
    assert '"job_left"' in said and '"job": 4, "why": "it pays nothing"' in said


def test_an_open_commitment_keeps_the_node_in_a_job_that_is_refused(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    jobs.open_in = {3}
    jobs.step([2], live={2, 3})
    jobs.step([2], live={2, 3})
    assert jobs.served == {2, 3}


@pytest.mark.parametrize("who", [{"verifiers": {7: 1}}, {"aggregators": (7,)}])
def test_better_paid_jobs_lure_nobody_away_from_a_round_that_counts_on_it(
    tmp_path: Path, who: dict[str, Any]
) -> None:
    jobs = Jobs(tmp_path)
    ROUNDS[1] = {"snapshot": Stub(**{"verifiers": {}, "aggregators": (), **who})}
    jobs.step([1, 2])
    for phase in (Phase.REVEAL, Phase.CHALLENGE, Phase.DISPUTED, Phase.FINALIZED):
        ROUNDS[1]["phase"] = phase
        jobs.step([3, 4, 5], live={1, 2, 3, 4, 5})
        assert 1 in jobs.served and 2 not in jobs.served, "no round of job 2 counts on it"
    ROUNDS[1]["round"] = Stub(settled=True)
    jobs.step([3, 4, 5], live={1, 2, 3, 4, 5})
    assert 1 not in jobs.served


def test_without_a_live_job_the_newest_is_looked_after(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    jobs.step([])
    assert jobs.served == {5}


def test_a_restart_finds_the_jobs_whose_reports_wait(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, reports=(1,))
    for _ in range(2):
        jobs.step([2])
    assert jobs.served == {1, 2}


def test_a_configured_job_is_the_only_one(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, job_id=3)
    assert jobs.step([2, 4]) == "attested: round 1"
    assert jobs.served == {3}
