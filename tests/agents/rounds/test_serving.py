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
from agents.runtime.errors import JournalFull, RpcDown
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


class Kept(dict[str, Any]):
    """A journal, which a restart leaves as it is."""

    full = False

    def put(self, key: str, value: Any) -> None:
        if self.full:
            raise JournalFull("no room")
        self[key] = value


class Jobs:
    """A node's jobs among `count`; `rated` and `live` are what the chain offers."""

    def __init__(
        self,
        tmp_path: Path,
        job_id: int = 0,
        reports: tuple[int, ...] = (),
        journal: Kept | None = None,
        role: Role = Role.VERIFIER,
        count: int = 5,
    ) -> None:
        self.log, self.open_in = tmp_path / "log", set[int]()
        self.journal = Kept() if journal is None else journal
        self.attested: set[int] = set()
        network: Any = Stub(
            job_count=lambda: count,
            deployment=Stub(block=0),
            attesters=lambda job, *_: {7} if job in self.attested else set(),
            open_reports=lambda: list(reports),
            report=lambda job: Stub(job_id=job, status=ReportStatus.CONFIRMED),
        )
        context: Any = Context(
            settings=Stub(job_id=job_id, max_jobs=8, least_pay=0.0, memory=None),
            log=open_log("verifier", path=self.log),
            metrics=Metrics("verifier"),
            **dict.fromkeys(("deployment", "chain", "wallet", "sender", "feed", "stop")),
            journal=self.journal,
            artefacts=tmp_path,
        )
        store: Any = None
        make = lambda _: Duty()  # noqa: E731
        self.serving: Serving[Duty] = Serving(
            network, context, store, role, make, lambda: self.open_in
        )
        self.metrics = context.metrics

    def step(self, rated: list[int], live: set[int] | None = None, node: int = 7) -> str | None:
        offers: Any = self.serving.offers
        offers.rated = lambda *_: [Rated(job, 1.0) for job in rated]
        offers._live.jobs = dict.fromkeys(rated if live is None else live)
        return self.serving.step(HEAD, node)

    @property
    def served(self) -> set[int]:
        return set(self.serving._duties)

    @property
    def chosen(self) -> set[int]:
        """Those to serve, whether or not each has had its turn."""
        return set(self.serving._served)


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


COUNTS = {"phase": Phase.CHALLENGE, "snapshot": Stub(verifiers={7: 1}, aggregators=(7,))}
BAITS = list(range(60, 68))


@pytest.mark.parametrize("role", [Role.VERIFIER, Role.AGGREGATOR])
def test_a_restart_lures_nobody_away_from_a_round_that_counts_on_it(
    tmp_path: Path, role: Role
) -> None:
    jobs = Jobs(tmp_path, role=role, count=99)
    ROUNDS.update({2: COUNTS, 3: COUNTS})
    jobs.step([2, 4])
    for _ in range(2):
        jobs = Jobs(tmp_path, journal=jobs.journal, role=role, count=99)
        jobs.step(BAITS, live={2, 3, 4, *BAITS})
        assert jobs.chosen == {2, *BAITS}, "job 3 was never served, and job 4 has no such round"
        assert '"job": 2, "why": "its running round counts on the node"' in jobs.log.read_text()
    ROUNDS[2] = {**COUNTS, "phase": Phase.VOID}
    jobs.step(BAITS, live={2, *BAITS})
    assert jobs.chosen == {*BAITS}
    ROUNDS[2] = COUNTS
    jobs = Jobs(tmp_path, journal=jobs.journal, role=role, count=99)
    jobs.step(BAITS, live={2, *BAITS})
    assert jobs.chosen == {*BAITS}


def test_a_look_that_fails_after_a_restart_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(tmp_path, count=99)
    ROUNDS[2] = COUNTS
    jobs.step([2])
    jobs = Jobs(tmp_path, journal=jobs.journal, count=99)
    with monkeypatch.context() as patch, pytest.raises(RpcDown):
        patch.setattr(agents.rounds.serving, "observe", gone)
        jobs.step(BAITS, live={2, *BAITS})
    jobs.step(BAITS, live={2, *BAITS})
    assert jobs.chosen == {2, *BAITS}


def gone(*_: Any) -> Any:
    raise RpcDown("the RPC node does not answer")


def test_a_full_disk_takes_nobody_from_its_jobs(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    jobs.journal.full = True
    assert jobs.step([2, 4]) == "attested: round 1 (job 2)"
    assert jobs.chosen == {2, 4} and not jobs.journal


def served_in_turn(jobs: Jobs, numbers: list[int], live: set[int]) -> None:
    """Each is rated once, and its round counts on the node from then on."""
    for number in numbers:
        ROUNDS[number] = {**COUNTS, "phase": Phase.COMMIT}
        jobs.step([number], live)


def test_eight_older_jobs_take_no_place_from_a_round_that_is_due(tmp_path: Path) -> None:
    """Theirs are long, and were there first. Also when the node has checked theirs already."""
    older = list(range(40, 48))
    live = {50, *older, *BAITS}
    jobs = Jobs(tmp_path, count=99)
    served_in_turn(jobs, [*older, 50], live)
    jobs.serving.offers.proven = {**dict.fromkeys(older, 9.0), 50: 1.0}
    jobs.step(BAITS, live)
    assert jobs.chosen == {*older, *BAITS}, "nothing is due yet, and theirs pay more"
    for restarted in (False, True):
        if restarted:
            jobs = Jobs(tmp_path, journal=jobs.journal, count=99)
            jobs.serving.offers.proven = {**dict.fromkeys(older, 9.0), 50: 1.0}
            jobs.attested = {*older}
        for phase in (Phase.CHALLENGE, Phase.DISPUTED):
            ROUNDS[50] = {**COUNTS, "phase": phase}
            jobs.step(BAITS, live)
            assert 50 in jobs.chosen and len(jobs.chosen) == 16
        for number in older:
            ROUNDS[number] = COUNTS
    jobs.attested = {50, *older}
    jobs.step(BAITS, live)
    assert jobs.chosen == {*older, *BAITS}


def test_of_rounds_that_are_due_those_of_proven_pay_come_first(tmp_path: Path) -> None:
    """Among jobs that have yet to pay no order is the same for all nodes."""
    jobs = Jobs(tmp_path, count=99)
    older = list(range(40, 48))
    live = {50, *older, *BAITS}
    served_in_turn(jobs, [*older, 50], live)
    everybody = Stub(verifiers=dict.fromkeys(range(60), 1), aggregators=())
    for number in (50, *older):
        ROUNDS[number] = {**COUNTS, "snapshot": everybody}
    jobs.serving.offers.proven = {50: 1.0, **dict.fromkeys(older[1:], 0.5)}
    jobs.step(BAITS, live)
    assert jobs.chosen == {50, *older[1:], *BAITS}
    jobs.serving.offers.proven = {}
    lost = set()
    for node in range(60):
        jobs.step(BAITS, live, node)
        lost |= {50, *older} - jobs.chosen
    assert lost == {50, *older}


def test_an_aggregator_s_rounds_are_due_when_a_result_is_to_be_proposed(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, role=Role.AGGREGATOR, count=99)
    older = list(range(40, 48))
    live = {50, *older, *BAITS}
    served_in_turn(jobs, [*older, 50], live)
    jobs.serving.offers.proven = dict.fromkeys(older, 9.0)
    for number in older:
        ROUNDS[number] = COUNTS
    ROUNDS[50] = {**COUNTS, "phase": Phase.AGGREGATE}
    jobs.step(BAITS, live)
    assert 50 in jobs.chosen


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
