# SPDX-License-Identifier: Apache-2.0
"""Scores of a round that came to nothing stand in later rounds, so their records are replayed.

Three validators score a round of four trainers. The scoring is closed while the result is disputed,
and the committee decides nothing, so the round is void.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.protocol.view import observe
from agents.rounds.upkeep import Upkeep
from scripts._net.processes import Supervisor
from tests.agents.audit.test_consensus import audited_with, line_of
from tests.stage.chain.finished_job import make_job
from tests.stage.chain.finished_scored_job import FREE_JOB, DirectSender, FinishedScoredJob
from tests.stage.chain.people import TERMS, TRAINERS, VERIFIERS


class VoidScoredJob(FinishedScoredJob):
    """The round above."""

    def play(self) -> None:
        people = self.people
        scores = (people.scores, "adopt", people.job, *TERMS.score_windows)
        people.chain.send(people.sponsor, *scores)
        people.open()
        plan = self._plan()
        works = {name: self._work(plan, people.nodes[name], False) for name in TRAINERS}
        self._show(works)
        people.chain.mine()
        people.chain.send(people.faucet, people.results, "capture_audit_seed", *people.place)
        for name in TRAINERS:
            self._prove(name)
        self._propose(plan)
        for _ in ("commit", "reveal"):
            for name in sorted(VERIFIERS):
                self._duty(name)
        people.challenge(people.nodes["cat"].operator)
        sender = DirectSender(self, people.nodes["abe"])
        view = observe(self.network, people.job, self.network.chain.head())
        order = Upkeep(self.network, sender, 0.0, 0.0)._close_scoring(view)  # type: ignore[arg-type]
        sender.send(order.contract, order.function, *order.args)
        people.wait_until(int(people.state.deadline))
        people.chain.send(people.faucet, people.results, "advance", *people.place)


@pytest.fixture(scope="module")
def void(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VoidScoredJob]:
    directory = tmp_path_factory.mktemp("void")
    with Supervisor(directory / "logs") as supervisor:
        job = make_job(VoidScoredJob, directory, supervisor, FREE_JOB)
        job.folder = directory / "validators"
        job.play()
        yield job


@pytest.mark.parametrize("deep", [False, True])
def test_honest_records_of_a_void_round_hold(void: VoidScoredJob, deep: bool) -> None:
    audit = void.audited(deep=deep)
    assert [part.status for part in audit.rounds] == ["void"]
    assert [str(d) for d in audit.differences] == []
    assert audit.rounds[0].counts["ratings"] > 0
    assert ("losses" in audit.rounds[0].counts) == deep


def test_a_false_record_of_a_void_round_is_found(
    void: VoidScoredJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checks and losses were skipped, without a word."""
    failed = line_of("bob", void, failure="out of sync by 99 steps, at most 3")
    audit, verifier = audited_with(void, tmp_path, monkeypatch, 1, failed)
    who = f"verifier {verifier}, node {void.node('bob')}"
    assert any(d.subject == who and d.check == "ratings" for d in audit.differences)
    monkeypatch.undo()
    lost = line_of("bob", void, assigned=10**9)
    audit, verifier = audited_with(void, tmp_path / "loss", monkeypatch, 1, lost, deep=True)
    assert any(d.subject == who and d.check == "losses" for d in audit.differences)
