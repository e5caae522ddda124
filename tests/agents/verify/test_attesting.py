# SPDX-License-Identifier: Apache-2.0
"""What members attest of a real job: models that they have recomputed from what is public, at its
checkpoints, and no other. A result that every verifier attested and nobody challenged is final all
the same; if it is not what the payloads give, no member attests it, nor what was built on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.jobs.specs_beside import SpecComing
from agents.protocol.network import Network
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome
from agents.rounds.plan import Plan
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.storage.cid import cid_of_bytes, digest_of, parse_cid
from agents.storage.embedded import EmbeddedStore
from agents.training import replay
from agents.training.state import apply_outer, model_hash, save_state
from agents.training.update import pack_update
from agents.verify import attesting
from agents.verify.attesting import Attestation, Attesting
from agents.verify.judging import Judge
from agents.verify.rulings import attestation_rulings
from scripts._net.processes import Supervisor
from scripts._report.verdict import check_attested
from tests.stage.chain.finished_job import JOB, SPEC, FinishedJob, make_job
from tests.stage.chain.finished_scored_job import make_finished_scored_job
from tests.stage.chain.people import TRAINERS, CommittedWork, Node
from tests.stage.memory.honest_round import DEVICE, HonestWork

HEAD: Any = None


class LyingJob(FinishedJob):
    """A job whose aggregators double everybody's update while `lies` is set: report, update, model
    and checkpoint agree with one another, and every verifier attests them. `withholds`: a node that
    reveals work which no store here has."""

    lies = False
    withholds = ""

    def _published(self, work: HonestWork, node: Node) -> CommittedWork:
        found = super()._published(work, node)
        if node.name == self.withholds:
            self.store._path(parse_cid(self.store.resolve(found.content))).unlink()
        return found

    def _outcome(self, plan: Plan, standing: Any = None) -> Outcome:
        honest = super()._outcome(plan, standing)
        return doubled(self, honest, plan) if self.lies else honest


def doubled(job: FinishedJob, honest: Outcome, plan: Plan) -> Outcome:
    """The outcome with twice the update, consistent in itself."""
    merged = {name: 2 * tensor for name, tensor in honest.merged.items()}
    before = Models(job.network, job.store).at(JOB, bytes(job.people.state.prev_model))
    once = apply_outer(before, merged, job.published.spec.outer_lr_at(plan.step))
    update, checkpoint = pack_update(merged), save_state(once)
    named = honest.report.checkpoint is not None
    report = honest.report.model_copy(
        update={
            "model": model_hash(once).hex(),
            "update": cid_of_bytes(update),
            "checkpoint": cid_of_bytes(checkpoint) if named else None,
        }
    )
    kept = checkpoint if named else None
    return replace(honest, state=once, merged=merged, update=update, checkpoint=kept, report=report)


@dataclass
class Member:
    """A committee member's recomputation, in a process of its own as far as it can tell."""

    job: FinishedJob
    said: list[str] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)  # recomputed, in order

    def __post_init__(self) -> None:
        client = ChainClient(self.job.url, open_log("member", "warning", True, None))
        self.network = Network(client, load_deployment(self.job.deployment))
        self.judge = Judge(self.network, EmbeddedStore(self.job.store.root), DEVICE)
        honest = self.judge.result_errors

        def counted(view: Any, patient: bool) -> list[str] | None:
            self.rounds.append(view.round_id)
            return honest(view, patient)

        self.judge.result_errors = counted  # type: ignore[method-assign]
        self.attesting = Attesting(
            self.network, lambda job: self.judge, lambda job, why: self.said.append(why)
        )

    def look(self, steps: int = 6) -> list[Attestation]:
        """What it would attest after some heads."""
        due: list[Attestation] = []
        for _ in range(steps):
            due = self.attesting.step(self.network.chain.head())
        return due


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LyingJob]:
    """Two honest rounds, the second of which publishes a checkpoint."""
    directory = tmp_path_factory.mktemp("attested")
    with Supervisor(directory / "logs") as supervisor:
        job = make_job(LyingJob, directory, supervisor, SPEC)
        job.round_(TRAINERS)
        job.round_(TRAINERS)
        yield job


@pytest.fixture
def job(base: LyingJob) -> Iterator[LyingJob]:
    snapshot = base.people.chain.snapshot()
    base.lies, base.withholds = False, ""
    yield base
    base.people.chain.revert(snapshot)


def _decide(job: FinishedJob, member: Member, due: list[Attestation]) -> None:
    """The committee carries out what a member would have it do."""
    for ruling, found in zip(attestation_rulings(member.network, due), due, strict=True):
        args = (found.job_id, found.model, found.checkpoint, found.statement)
        function = member.network.ledger.function("attest_model", 4)
        assert (ruling.target, ruling.data) == (
            member.network.ledger.address,
            function.encode(args),
        )
        job.people.decide((job.people.contracts["TrainingLedger"], "attest_model", args))


def _ask(job: FinishedJob, function: str, *args: Any) -> Any:
    return job.people.chain.call(job.people.contracts["TrainingLedger"], function, *args)


def test_the_model_of_a_checkpoint_is_attested_once(
    job: LyingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(*_: Any, **__: Any) -> None:
        raise AssertionError("a member trains nothing")

    monkeypatch.setattr(replay, "run_task", trained)
    ada, bo = Member(job), Member(job)
    due = ada.look()
    (found,) = due
    report = job.outcomes[JOB, 2].report
    assert found.round_id == 2 and found.model.hex() == report.model
    assert found.checkpoint == digest_of(report.checkpoint or "")
    assert found.statement == _ask(job, "head", JOB)
    rulings = [list(attestation_rulings(m.network, m.look())) for m in (ada, bo)]
    assert rulings[0] == rulings[1] and len(rulings[0]) == 1
    assert not _ask(job, "is_attested", JOB, found.model)
    models = Models(job.network, job.store)
    assert not check_attested(job.network, models, JOB).holds
    _decide(job, ada, due)
    assert _ask(job, "is_attested", JOB, found.model)
    assert _ask(job, "checkpoint_of", JOB, found.model) == found.checkpoint
    verdict = check_attested(job.network, models, JOB)
    assert verdict.holds and "the checkpoint of round 2, recomputed" in verdict.sentence
    assert ada.look() == bo.look() == []
    assert ada.rounds == bo.rounds == [1, 2] and ada.said == []


def test_a_round_is_recomputed_once_and_none_before_an_attested_one(job: LyingJob) -> None:
    ada = Member(job)
    _decide(job, ada, ada.look())
    job.round_(TRAINERS)
    late = Member(job)
    assert ada.look() == late.look() == [], "round 3 publishes no checkpoint"
    job.round_(TRAINERS)
    (found,) = ada.look()
    assert found.round_id == 4 and late.look() == [found]
    assert ada.rounds == [1, 2, 3, 4] and late.rounds == [3, 4]
    _decide(job, ada, [found])
    current = job.network.job(JOB).model
    assert current == found.model and _ask(job, "is_attested", JOB, current)


def test_a_spec_that_is_still_coming_is_waited_for_and_costs_no_round(job: LyingJob) -> None:
    """Without it a member does not know which rounds publish checkpoints, and it would begin with
    the first one again."""
    ada, late, looks = Member(job), Member(job), []
    _decide(job, ada, ada.look())
    job.round_(TRAINERS)

    def judge_of(job_id: int) -> Judge:
        looks.append(job_id)
        if len(looks) < 4:
            raise SpecComing("still coming")
        return late.judge

    late.attesting = Attesting(late.network, judge_of, lambda job, why: late.said.append(why))
    assert late.look() == []
    assert late.rounds == [3] and late.said == []


@pytest.mark.parametrize("wrong", [3, 4])
def test_a_wrong_model_that_all_verifiers_attested_is_never_attested(
    job: LyingJob, wrong: int
) -> None:
    """Neither it nor a model that an honest round built on it."""
    ada = Member(job)
    _decide(job, ada, ada.look())
    for number in (3, 4):
        job.lies = number == wrong
        job.round_(TRAINERS)
    assert len(job.people.nodes) and job.network.ledger_length(JOB) == 4
    for member in (ada, Member(job)):
        assert member.look(10) == []
        (why,) = member.said
        assert why.startswith(f"the model of round {wrong} is wrong: model is ")
        assert member.rounds[-1] == wrong and member.rounds.count(wrong) == 1
    model = job.network.job(JOB).model
    assert not _ask(job, "is_attested", JOB, model)


def test_a_lost_checkpoint_waits_and_is_no_lie(job: LyingJob, tmp_path: Path) -> None:
    cid = job.outcomes[JOB, 2].report.checkpoint
    assert cid is not None
    path = job.store._path(parse_cid(cid))
    kept = path.read_bytes()
    path.unlink()
    ada = Member(job)
    assert ada.look() == [] and ada.said == ["round 2 can't be recomputed, or not yet"]
    assert ada.rounds == [1, 2], "not at every head"
    path.write_bytes(kept)
    ada.attesting._jobs[JOB].not_before = 0.0
    assert [a.round_id for a in ada.look()] == [2]


def test_a_node_that_publishes_nothing_keeps_no_model_from_being_attested(job: LyingJob) -> None:
    """The rounds left its payload out, and nobody will ever have it."""
    job.withholds = "eve"
    ada = Member(job)
    job.round_(TRAINERS)
    job.round_(TRAINERS)
    assert job.outcomes[JOB, 4].report.missing() == {job.node("eve")}
    assert [found.round_id for found in ada.look()] == [2, 4] and ada.said == []


def test_a_job_that_fails_in_a_way_nobody_foresaw_is_paused_and_holds_up_no_other(
    job: LyingJob,
) -> None:
    """Such as one that is more than this machine can do. Nothing is raised at every head."""
    ada = Member(job)
    honest = ada.judge.result_errors
    hostile = True

    def failing(view: Any, patient: bool) -> list[str] | None:
        if hostile:
            ada.rounds.append(view.round_id)
            raise MemoryError("too large")
        return honest(view, patient)

    ada.judge.result_errors = failing  # type: ignore[method-assign]
    assert ada.look() == [] and ada.rounds == [1], "not at every head"
    assert ada.said == ["round 1 can't be recomputed, or not yet: MemoryError: too large"]
    hostile = False
    ada.attesting._jobs[JOB].not_before = 0.0
    assert [found.round_id for found in ada.look()] == [2]


def test_a_job_that_took_too_long_by_the_clock_waits_until_nothing_else_is_to_do(
    job: LyingJob,
) -> None:
    """Not all that a model computes follows from its parameters."""
    ada = Member(job)
    now, honest = 0.0, ada.judge.result_errors

    def slow(view: Any, patient: bool) -> list[str] | None:
        nonlocal now
        now += 3_601.0
        return honest(view, patient)

    ada.judge.result_errors = slow  # type: ignore[method-assign]
    ada.attesting._clock = lambda: now
    assert ada.look() == [] and ada.rounds == [1]
    assert ada.said == [
        "a round of it takes 1 hours to recompute, and coordinator.attest_hours is 1: left until "
        "nothing else is to do"
    ]
    now += 3_601.0
    assert ada.attesting.step(ada.network.chain.head(), idle=False) == [] and ada.rounds == [1]
    assert [found.round_id for found in ada.look()] == [2] and ada.rounds == [1, 2]


def test_a_reorg_takes_back_what_was_due(job: LyingJob) -> None:
    ada = Member(job)
    job.round_(TRAINERS)
    snapshot = job.people.chain.snapshot()
    job.round_(TRAINERS)
    assert [a.round_id for a in ada.look()] == [2, 4]
    job.people.chain.revert(snapshot)
    job.lies = True
    job.round_(TRAINERS)
    assert [a.round_id for a in ada.look(10)] == [2]
    assert ada.said == [f"the model of round 4 is wrong: {ada.attesting._jobs[JOB].wrong}"]


class Clocked:
    """A member and jobs without a chain. `takes`: by job, the seconds that each of its rounds takes
    at the usual speed, by a clock of the test. `stuck`: jobs whose rounds give no word."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, takes: dict[int, list[float]], fast: float = 1.0
    ) -> None:
        self.now, self.takes, self.fast = 0.0, takes, fast
        self.rounds: list[tuple[int, int]] = []
        self.said: list[str] = []
        self.stuck: set[int] = set()
        self.attested: set[bytes] = set()
        heads = {
            job: [bytes([job, i]) for i in range(len(rounds))] for job, rounds in takes.items()
        }
        network: Any = SimpleNamespace(ledger_entry=self._entry, ledger_heads=lambda: heads)

        def tell(job: int, why: str) -> None:
            self.said.append(why)

        self.attesting = Attesting(network, self._judge, tell, clock=lambda: self.now)
        monkeypatch.setattr(
            self.attesting, "_attested", lambda asked: [one in self.attested for _, one in asked]
        )
        monkeypatch.setattr(self.attesting, "_left_out", lambda *_: False)
        monkeypatch.setattr(self.attesting, "_checkpoint", lambda *_: (b"checkpoint", []))
        monkeypatch.setattr(
            attesting,
            "observe",
            lambda network, job, head, number: SimpleNamespace(job_id=job, round_id=number),
        )

    def _entry(self, job: int, index: int) -> Any:
        model = bytes([job, index])
        return SimpleNamespace(round_id=index + 1, index=index, head=model, new_model=model)

    def _judge(self, job: int) -> Any:
        def errors(view: Any, patient: bool) -> list[str] | None:
            self.rounds.append((job, view.round_id))
            self.now += self.takes[job][view.round_id - 1] / self.fast
            return None if job in self.stuck else []

        spec = SimpleNamespace(checkpoint_every=1, rounds=99)
        return SimpleNamespace(
            takes_s=lambda view: self.takes[job][view.round_id - 1],
            result_errors=errors,
            reader=SimpleNamespace(models=SimpleNamespace(spec=lambda job: spec)),
        )

    def look(self, steps: int, idle: bool = True) -> list[tuple[int, int]]:
        """What it recomputes in so many steps of a second each."""
        before = len(self.rounds)
        for _ in range(steps):
            self.now += 1.0
            self.attesting.step(HEAD, idle)
        return self.rounds[before:]


def test_a_crowded_round_waits_until_nothing_else_is_to_do_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who registers 64 trainers for a round makes that one long, and no other."""
    member = Clocked(monkeypatch, {1: [1_000, 11_000, 1_000, 1_000], 2: [10, 10, 10]})
    assert member.look(9, idle=False) == [(1, 1), (2, 1), (2, 2), (2, 3)]
    assert member.said == [
        "a round of it takes 3.06 hours to recompute, and coordinator.attest_hours is 1: left "
        "until nothing else is to do"
    ]
    assert member.look(9) == [(1, 2), (1, 3), (1, 4)] and len(member.said) == 1


def test_long_rounds_take_half_of_the_time_and_a_stuck_one_holds_no_other_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Clocked(monkeypatch, {1: [7_200] * 9, 2: [7_200] * 9})
    member.stuck = {1}
    assert member.look(7_300) == [(1, 1), (2, 1)]
    member.look(20 * 7_200)
    assert (2, 9) in member.rounds and member.now >= 2 * 7_200 * (len(member.rounds) - 1)


def test_what_takes_days_is_not_begun_and_goes_on_from_what_others_attest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Clocked(monkeypatch, {1: [100, 200_000, 100]})
    assert member.look(9) == [(1, 1)]
    assert member.said[-1].endswith("attest_hours is 1: looked at again in hours")
    member.now += 21_600.0
    assert member.look(9) == []
    member.attested = {bytes([1, 1])}
    member.now += 21_600.0
    assert member.look(9) == [(1, 3)]


def test_a_fast_member_goes_by_what_it_took_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Clocked(monkeypatch, {1: [3_000, 200_000]}, fast=100.0)
    assert member.look(9, idle=False) == [(1, 1), (1, 2)] and member.said == []


def test_one_round_that_took_days_by_the_clock_is_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its spec it takes a minute. The next one is begun after some long pauses."""
    member = Clocked(monkeypatch, {1: [50, 50]}, fast=1 / 4_000)
    assert member.look(9) == [(1, 1)]
    for _ in range(9):
        member.fast = 1.0
        member.now += 200_000.0
        member.look(2)
    assert member.rounds == [(1, 1), (1, 2)]


def test_a_job_that_consensus_pays_can_be_recomputed_as_well(tmp_path: Path) -> None:
    """There validators' scores choose whom a round merges; they are read from the chain. This job
    has no checkpoint before its end, which is not reached."""
    with Supervisor(tmp_path / "logs") as supervisor:
        ada = Member(make_finished_scored_job(tmp_path, supervisor))
        assert ada.look(12) == [] and ada.said == []
        assert ada.rounds == [1, 2, 3, 4, 5] and ada.network.ledger_length(JOB) == 5
