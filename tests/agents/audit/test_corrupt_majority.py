# SPDX-License-Identifier: Apache-2.0
"""What two thirds of the verifiers, an aggregator or the committee do wrong on chain is said.

Everything here is a call that the contracts accept. Round 1 is honest; then ann's score expires,
and she fails a benchmark. In round 2 two verifiers have honest bob found invalid, and a challenge
that nobody decides makes the round void. In round 3 the committee calls a right result wrong, and
another aggregator proposes the same. In round 4 an aggregator invents the merge and gives all pay
to cat; the report behind it exists nowhere, and eve calls its digest her trace. The second job is
paid by shares of the work, and two verifiers reveal scores that no record gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from eth_utils import keccak

from agents.audit.sources.findings import Audit, Part
from agents.jobs.model_files import hash_of, pack_change
from agents.jobs.outer_step import stepped
from agents.protocol.scores import Consensus
from agents.protocol.view import observe
from agents.rounds.models import Models
from agents.rounds.plan import Plan
from agents.rounds.proof import ProofOfComputation
from agents.rounds.upkeep import Upkeep
from agents.storage.canonical import dumps
from agents.storage.cid import cid_of_bytes, digest_of
from scripts._net.deployment import ZOO
from scripts._net.processes import Supervisor
from tests.stage.chain.benchmarks import FEW, answer, judge, measure
from tests.stage.chain.finished_job import JOB, SPEC, FinishedJob, make_job
from tests.stage.chain.people import INVALID, TERMS, TRAINERS, VERIFIERS

ADOPTED = 2
NOWHERE = b"a report that nobody has"
_WEEK = 7 * 86_400


class CorruptJob(FinishedJob):
    """The history above."""

    def play(self) -> None:
        self.round_(TRAINERS)
        self._let_scores_expire()
        self._frame()
        self._reject()
        self._invent()
        self._score()

    def _let_scores_expire(self) -> None:
        people, ann = self.people, self.people.nodes["ann"]
        parameters = people.chain.call(people.registry, "parameters")
        people.chain.warp(4 * int(parameters.unbonding_period) + 10)
        answer(people, ann, self.store, wrong=lambda _: True, units=FEW)
        judge(people, ann, False, "vic", "vera")
        for name in TRAINERS:
            measure(people, people.nodes[name], self.store)

    def _frame(self) -> None:
        people, bob = self.people, self.people.nodes["bob"]
        self._propose(self._revealed())
        report = self._report("bob", INVALID, "vic", "vera")
        people.challenge(people.nodes["cat"].operator, digest_of(self._wrong()))
        people.wait_until(int(people.state.deadline))
        people.chain.send(people.faucet, people.results, "advance", *people.place)
        people.execute(report)
        people.chain.warp(_WEEK + 1)
        people.give(bob.owner, 20 * ZOO)
        people.chain.send(bob.owner, people.registry, "add_stake", bob.node_id, 20 * ZOO)

    def _reject(self) -> None:
        people, cat = self.people, self.people.nodes["cat"].operator
        plan, duty = self._revealed(), people.on_duty
        self._propose(plan)
        evidence = digest_of(self._wrong())
        people.announce_challenge(cat, evidence)
        people.resolve(people.challenge(cat, evidence), True)
        people.confirm(self._propose(plan, people.other_aggregator(duty)))

    def _invent(self) -> None:
        people, models = self.people, Models(self.network, self.store)
        self._revealed(trace_of_eve=cid_of_bytes(NOWHERE))
        job = models.job(people.job)
        before = models.at(people.job, bytes(people.state.prev_model))
        merged = {name: torch.full(tensor.shape, 0.01) for name, tensor in before.items()}
        after = stepped(job.spec, before, merged, job.spec.outer_lr_at(2))
        update = self.store.put_bytes(pack_change(job, merged, after).main)
        arrays = [people.nodes["cat"].node_id], [1]
        digests = hash_of(job, after), digest_of(update), digest_of(cid_of_bytes(NOWHERE))
        by = people.on_duty
        call = (people.results, "propose_result", *people.place, by.node_id, *digests, *arrays)
        people.chain.send(by.operator, *call)
        self._report("eve", INVALID, "vic", "vera")
        people.confirm(arrays)

    def _score(self) -> None:
        self._new_job()
        people, send = self.people, self.people.chain.send
        send(people.sponsor, people.scores, "adopt", people.job, *TERMS.score_windows)
        names = [name for name in TRAINERS if name != "eve"]
        arrays = self._propose(self._revealed(names))
        view = observe(self.network, people.job, self.network.chain.head())
        cat = people.nodes["cat"].node_id
        scores = [65_535 if node == cat else 0 for node in view.snapshot.nodes]
        record, salt = keccak(text="no record"), keccak(text="salt")
        judges = [people.nodes[name] for name in ("vic", "vera")]
        for one in judges:
            place = (*people.place, one.node_id)
            said = (*place, one.operator.address, scores, record, salt)
            digest = people.chain.call(people.scores, "scores_digest", *said)
            send(one.operator, people.scores, "commit_scores", *place, digest)
        people.wait_until(Consensus(self.network).scoring(*people.place).commit_deadline)
        for one in judges:
            call = (*people.place, one.node_id, scores, record, salt)
            send(one.operator, people.scores, "reveal_scores", *call)
        abe = people.nodes["abe"].operator
        upkeep = Upkeep(self.network, SimpleNamespace(address=str(abe.address)), 0.0, 0.0)
        order = upkeep._close_scoring(observe(self.network, people.job, self.network.chain.head()))
        assert order is not None
        send(abe, order.contract, order.function, *order.args)
        people.confirm(arrays, *VERIFIERS)

    def _revealed(self, names: list[str] = TRAINERS, trace_of_eve: str | None = None) -> Plan:
        """A round in which these nodes have revealed honest work."""
        people = self.people
        people.open()
        plan = self._plan()
        works = {name: self._work(plan, people.nodes[name], False) for name in names}
        if trace_of_eve is not None:
            honest = self.store.get_digest(works["eve"].proof, 1 << 20)
            proof = ProofOfComputation.from_bytes(honest)
            other = proof.model_copy(update={"trace": trace_of_eve})
            digest = digest_of(self.store.put_bytes(other.to_bytes()))
            works["eve"] = replace(works["eve"], proof=digest)
        self._show(works)
        return plan

    def _wrong(self) -> str:
        job, number = self.people.place
        case = {"version": 1, "job": job, "round": number, "wrong": ["everything"]}
        return self.store.put_bytes(dumps(case))


@pytest.fixture(scope="module")
def corrupt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorruptJob]:
    directory = tmp_path_factory.mktemp("corrupt")
    with Supervisor(directory / "logs") as supervisor:
        job = make_job(CorruptJob, directory, supervisor, {**SPEC, "rounds": 5})
        job.play()
        yield job


@pytest.fixture(scope="module")
def audit(corrupt: CorruptJob) -> Audit:
    return corrupt.audited()


def part_of(audit: Audit, number: int) -> Part:
    return next(part for part in audit.rounds if part.round_id == number)


def test_honest_rounds_hold_after_a_score_has_expired(audit: Audit) -> None:
    """A failed benchmark states the score that is left, which is none. It was a difference."""
    assert [str(d) for d in part_of(audit, 1).differences] == []
    assert [str(d) for d in part_of(audit, 3).differences] == []
    assert [d for d in audit.differences if d.check in ("opening", "benchmarks")] == []


def test_who_was_framed_in_a_void_round_is_found_with_deep(
    corrupt: CorruptJob, audit: Audit
) -> None:
    """Nothing of such a round was looked at, although bob lost stake by it."""
    assert part_of(audit, 2).status == "void" and part_of(audit, 2).holds
    assert any("found invalid in it was not looked at" in r for r in part_of(audit, 2).remarks)
    deep = part_of(corrupt.audited(deep=True), 2)
    [found] = deep.differing("training")
    assert found.subject == f"node {corrupt.node('bob')}"
    assert "its training gives what it revealed" in found.sentence


def test_a_rejected_result_that_stands_in_the_end_is_remarked(
    corrupt: CorruptJob, audit: Audit
) -> None:
    """Its files may not have been there, so nobody can tell whether the committee was wrong."""
    assert any("the committee upheld a challenge of it" in r for r in part_of(audit, 3).remarks)


def test_a_report_that_exists_nowhere_is_not_excused_by_a_node_that_calls_it_its_trace(
    audit: Audit,
) -> None:
    """That made of it a thing which a slashed node owed. Neither merge nor pay was looked at."""
    found = part_of(audit, 4).differing("artefacts")
    assert any("and report" in d.sentence and "is missing" in d.sentence for d in found)


def test_scores_that_no_record_gives_are_a_difference(corrupt: CorruptJob) -> None:
    """The job's score has none, and they decided all of the trainers' pay."""
    audit = corrupt.audited(job=ADOPTED)
    [found] = [d for d in audit.differences if d.check == "scores"]
    judges = [f"verifier {corrupt.node(name)}" for name in ("vic", "vera")]
    assert found.subject == ", ".join(judges) and "has no records" in found.sentence


def test_the_first_job_is_the_one_that_was_played(audit: Audit) -> None:
    assert audit.job_id == JOB
    assert [part.status for part in audit.rounds] == ["finalized", "void", "finalized", "finalized"]
