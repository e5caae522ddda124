# SPDX-License-Identifier: Apache-2.0
"""The audit itself: read the chain, then go through the rounds one by one, then the books.

Each step is a function of the record and of verified bytes. Nothing is kept between audits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.audit.chain.benchmarks import Benchmarks
from agents.audit.chain.claims import check_claims
from agents.audit.chain.evidence import check_evidence
from agents.audit.chain.money import check_balances, check_payouts
from agents.audit.chain.opening import (
    Opened,
    audit_seed,
    check_opening,
    check_seeds,
    found_invalid,
)
from agents.audit.chain.owners import check_owners
from agents.audit.chain.scores import Scored, Scores
from agents.audit.chain.stakes import StakeBook, check_slashes
from agents.audit.chain.votes import check_ledger, check_votes
from agents.audit.sources.artefacts import Artefacts, take_failures
from agents.audit.sources.findings import Audit, Part
from agents.audit.sources.proofs import check_logs
from agents.audit.sources.record import Record
from agents.audit.tasks.artefacts import check_artefacts
from agents.audit.tasks.book import TaskBook
from agents.audit.tasks.rerunning import check_results
from agents.audit.work.benchmarks import check_work
from agents.audit.work.privacy import Charges
from agents.audit.work.ratings import Ratings
from agents.audit.work.training import Training
from agents.jobs.model_files import read_model
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, JobStatus, Phase
from agents.runtime.errors import ConfigError
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError

Progress = Callable[[str, int, int], None]


def _silent(text: str, done: int, total: int) -> None:
    pass


def audit_job(
    network: Network,
    store: ContentStore,
    job_id: int,
    *,
    round_id: int | None = None,
    deep: bool = False,
    device: str = "cpu",
    random_source: bool = False,
    receipts: bool = True,
    data_key: bytes | None = None,
    progress: Progress = _silent,
) -> Audit:
    """Audit a job, or one round of it.

    Args:
        network: the contracts, over an RPC node of the auditor's choice.
        store: where the artefacts are; every byte is verified here whatever it is.
        round_id: audit only this round. Earlier ones are only followed for the model and the
            batches they left; balances, which all rounds make, are not looked at.
        deep: also train every node's batches again, and run every redundant task again.
        device: where to compute, such as "cpu" or "cuda".
        random_source: the deployment takes seeds from a contract; they can't be checked then.
        receipts: hold every log against the receipts and header of its block.
        data_key: the 32-byte key of the job's encrypted data; without it losses are believed.
        progress: called as (what, rounds done, rounds in all).

    Raises:
        AgentError: the RPC node is down, or there is no such job or round.
        StoreUnavailable: the store is down. Missing or wrong artefacts are findings.
    """
    auditor = _Auditor(
        Record(network, job_id, lambda text: progress(text, 0, 0)),
        store,
        _Options(round_id, deep, device, random_source, data_key),
        progress,
    )
    audit = auditor.run()
    if receipts:
        progress("receipts", 0, 0)
        check_logs(auditor.record, audit.job)
    return audit


@dataclass(frozen=True)
class _Options:
    round_id: int | None
    deep: bool
    device: str
    random_source: bool
    data_key: bytes | None


class _Auditor:
    def __init__(
        self, record: Record, store: ContentStore, options: _Options, progress: Progress
    ) -> None:
        self.record = record
        self._options = options
        self._only = options.round_id
        self._progress = progress
        self._done, self._total = 0, len(record.current)
        if self._only is not None and self._only not in record.current:
            raise ConfigError(
                f"Job {record.job_id} has no round {self._only}; it has {self._total}."
            )
        head = record.head
        self.audit = Audit(
            record.job_id, record.chain_id, head.number, "0x" + head.hash.hex(), options.deep
        )
        self.artefacts = Artefacts(store)
        self.registry = StakeBook(record)
        self.training = Training(
            record,
            self.artefacts,
            self.registry,
            options.device,
            self.audit.job,
            self._say,
            options.data_key,
            options.random_source,
        )
        job = self.training.job
        self.scores = Scores(record, self.registry)
        self.charges = None if job is None else Charges(job, record, store)

    def _say(self, text: str) -> None:
        self._progress(text, self._done, self._total)

    def run(self) -> Audit:
        """Everything, in order."""
        for number in self.record.current:
            self._say(f"round {number}")
            if not self._is_over(number):
                self.audit.job.remark(f"Round {number} is not over yet and was not audited.")
                break
            part = Part(number, Phase(self.record.current[number].phase).name.lower())
            self._round(part)
            if self._only in (None, number):
                self.audit.rounds.append(part)
            self._done += 1
            if number == self._only:
                break
        self._job()
        return self.audit

    def _is_over(self, number: int) -> bool:
        """Whether nothing can happen in a round any more, by its events and by its state."""
        ends = [*self.record.of("RoundSettled", number), *self.record.of("RoundVoided", number)]
        older = number < len(self.record.current)
        said = self.record.settled(number)
        what = f"whether round {number} is over"
        self.audit.job.same("job", "TrainingResults", what, said, bool(ends) or older)
        return said or bool(ends) or older

    def _round(self, part: Part) -> None:
        record, number = self.record, part.round_id
        full = self._only in (None, number)
        opened = check_opening(record, part)
        seed = check_seeds(record, part, self._options.random_source)
        if opened is None:
            return
        standing = check_votes(record, part, opened, seed)
        plan = self.training.plan(opened, seed, part)
        invalid = frozenset() if standing is None else standing.invalid
        manifest = None if plan is None else plan.manifest
        reveals, flagged = check_claims(record, part, opened, manifest, self.registry, invalid)
        final = record.current[number].phase == Phase.FINALIZED
        scored = self.scores.replay(part, opened)
        vectors = {} if scored is None else scored.vectors
        self.training.facts, self.training.replayed = None, {}
        if final and standing is not None:
            self._check_chain(part, opened.prev_model)
            check_ledger(record, part, opened, standing)
            if plan is not None and self.training.job is not None:
                deep = self._options.deep and full
                chosen = {} if scored is None else scored.standing
                place = (opened, plan, reveals, standing, deep, flagged, full, chosen)
                self.training.replay(part, *place)
            else:
                part.differ("merge", "merge", "it can't be done again without the job's spec.")
        elif full and plan is not None and (found_invalid(record, number) or vectors):
            # It came to nothing, but stake or the next scores rest on it.
            self.training.replay_void(part, opened, plan, reveals, self._options.deep, flagged)
        if full:
            check_evidence(record, self.artefacts, part, self.training.replayed)
            self._check_records(part, opened, scored)
        spared = self.scores.spared(number)
        check_payouts(record, part, standing, self.registry, scored, spared)
        check_slashes(self.registry, part, record.job_id)
        if self.charges is not None:
            self.charges.replay(part, plan)

    def _check_records(self, part: Part, opened: Opened, scored: Scored | None) -> None:
        """The records behind a round's scores; with `deep`, their losses."""
        job = self.training.job
        if scored is None or job is None:
            return
        if not isinstance(job.score, Gauntlet):
            who = ", ".join(f"verifier {verifier}" for verifier in scored.vectors)
            sentence = f"no rule gives its scores: the job's own, {job.spec.score}, has no records."
            part.hold("scores", not who, who, sentence)
            return
        ratings = Ratings(self.record, self.artefacts, job.score)
        facts = self.training.facts
        seed = audit_seed(self.record, part.round_id, self._options.random_source)
        records = ratings.check(part, opened, scored, seed, facts)
        if self._options.deep and facts is not None:
            self._say(f"round {part.round_id}: losses of {len(records)} records")
            ratings.measure(part, records, facts, self._options.device)
        samples = [f"node {node}" for node in scored.samples]  # theirs to lose
        take_failures(self.artefacts, part, "ratings", samples)

    def _check_chain(self, part: Part, prev_model: bytes) -> None:
        """A round starts from the model that the finalized round before it ended with."""
        past = [e for e in self.record.ledger if e.round_id < part.round_id]
        wanted = past[-1].new_model if past else self.record.job.terms.genesis_model
        part.same("ledger", "RoundOpened", "the model it starts from", prev_model, wanted)

    def _job(self) -> None:
        record, part = self.record, self.audit.job
        created = record.of("JobCreated")
        if part.same("job", "JobCreated", "their number", len(created), 1):
            args = created[0].args
            part.same("job", "JobCreated", "sponsor", args["sponsor"], record.job.sponsor)
            for name, other in vars(record.job.terms).items():
                one = getattr(args["terms"], name)
                part.same("job", "JobCreated", name, one, other)
        part.status = JobStatus(record.job.status).name.lower()
        self.scores.check_adoption(part)
        if self._only is not None:
            return
        final = [n for n, r in record.current.items() if r.phase == Phase.FINALIZED]
        # The job counts a round, and takes its model, once all its nodes are paid.
        paid = [n for n in final if record.settled(n)]
        part.same("job", "job", "rounds_done", record.job.rounds_done, len(paid))
        part.same("ledger", "TrainingLedger", "its length", len(record.ledger), len(final))
        ended = [e.args["status"] for e in record.of("JobEnded")]
        over = record.job.status != JobStatus.ACTIVE
        part.same("job", "JobEnded", "status", ended, [record.job.status] if over else [])
        models = [entry.new_model for entry in record.ledger[: len(paid)]]
        last = models[-1] if models else record.job.terms.genesis_model
        part.same("ledger", "job", "its model", record.job.model, last)
        opened = {e.args["round_id"] for e in record.of("RoundOpened")}
        part.same("job", "RoundOpened", "the rounds", opened, set(record.current))
        if self._done == self._total and self.scores.adoptions:
            self.scores.check_end(part)
        self._check_attestations(part)
        check_slashes(self.registry, part, record.job_id)
        check_balances(record, part, self.registry)
        take_failures(self.artefacts, part, "artefacts")
        check_owners(record, part)
        self._check_benchmarks()
        self._say("redundant tasks")
        book = TaskBook(record, self.registry, part, self._options.random_source)
        tasks = book.check().values()
        check_artefacts(part, self.artefacts, tasks, self._say)
        if self._options.deep:
            place = book.classes, self._options.device, self._say
            check_results(part, self.artefacts, tasks, *place)

    def _check_benchmarks(self) -> None:
        """Every attempt of every node, of which the weights in the rounds are made."""
        self._say("benchmarks")
        options, part = self._options, self.audit.job
        replayed = Benchmarks(self.record, self.registry, part, options.random_source).check()
        rested = {n for event in self.record.of("RoundOpened") for n in event.args["nodes"]}
        place = (rested, options.deep, options.device, self._say)
        check_work(part, self.artefacts, replayed, *place)

    def _check_attestations(self, part: Part) -> None:
        """Every attested checkpoint holds the model that it is attested for."""
        job = self.training.job
        models = {entry.new_model for entry in self.record.ledger}
        for event in self.record.of("ModelAttested"):
            args = event.args
            model, digest = args["model"], args["checkpoint"]
            who = f"attestation of {args['attester']}"
            part.hold("ledger", model in models, who, f"it is of 0x{model.hex()}, no model here.")
            if job is None or digest == ZERO_DIGEST:
                continue
            self.artefacts.name(digest, f"checkpoint attested by {args['attester']}")
            wrong = ""
            try:
                read_model(job, self.artefacts, digest, model)
            except StoreUnavailable:
                raise
            except StoreError:
                continue  # waits in `failures`
            except PayloadError as error:
                wrong = f"its checkpoint can't be used: {error}"
            part.hold("ledger", not wrong, who, wrong)


__all__ = ["audit_job"]
