# SPDX-License-Identifier: Apache-2.0
"""A verifier's duty in a job scored by Gauntlet: evaluate, commit a score vector, reveal it.

    AGGREGATE, CHALLENGE, DISPUTED
      until committed     check every node, evaluate the few that the audit seed drew, rate them,
                          journal the vector, commit to it
      once all committed  (or the commit window is over) publish the record, reveal

Rule: what a commitment hides (scores, salt, record) is on disk before it is sent, so a crash at any
line costs nothing. It counts only on the chain that says what the scores were made from
(`agents.gauntlet.basis`): after a reorganisation the validator scores anew and commits again. So it
does if an older reveal of its own is mined before it commits. The record is published only with the
reveal: others could copy its scores.

A validator that never revealed in the job, or not in the last LOOK_BACK rounds, or whose last
record can't be had or is of an older version, starts from fresh ratings. No other validator's
record is ever read.

Payloads and sync samples that are missing are waited for, half of the aggregate window from the end
of the reveals on, and no longer: the round's clock decides, not who commits or proposes first. In
rounds of an even number those of a node that kept them back in this validator's last record are
waited for a tenth of it only. So a mute node delays every second round at most, and who was late
once and is a little slower than the others is rated again two rounds later at most. A record that
misses more than a third of the nodes says more of its validator, and excuses nobody.
Samples are looked for beside the loop (`agents.gauntlet.sample_search`); once the patience is over
the validator waits for what is still looked for, at most a quarter of the time that is left to
commit. What is missing then is missing in this round.
Every payload that it reads it keeps, as it keeps its record: a committee member who can't have what
a record rests on takes the record for withheld.
Nothing that goes wrong here keeps the verifier from attesting.
"""

from __future__ import annotations

import json
from dataclasses import replace

from agents.gauntlet.basis import Basis, basis_in, basis_of, newest_revealed
from agents.gauntlet.draw import round_seed
from agents.gauntlet.fast_evaluation import (
    NO_SAMPLE,
    SAMPLE_LOST,
    Checked,
    Facts,
    check_nodes,
    step_size,
)
from agents.gauntlet.peer_scores import peer_score
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.ratings import Rating, ordinal
from agents.gauntlet.record import (
    MAX_REASON,
    MAX_RECORD_BYTES,
    NodeRating,
    NodeScore,
    RecordError,
    ScoreRecord,
)
from agents.gauntlet.replay import digest_of_record, drawn, follow, scores_of
from agents.gauntlet.sample_search import SampleSearch
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.numbers import ZERO_DIGEST, Phase, ScorePhase
from agents.protocol.scores import Consensus, Scoring, digests_in
from agents.protocol.view import View
from agents.rounds.history import earlier_model, merged_updates
from agents.rounds.plan import Plan
from agents.rounds.reader import RoundReader
from agents.rounds.report import UNAVAILABLE
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import max_samples_bytes
from agents.runtime.commitments import Commitments, Entry
from agents.runtime.context import Context
from agents.runtime.errors import Reverted
from agents.runtime.faults import crashpoint
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import State

_ROUNDS_KEPT = 3
_ROUND_PHASES = (Phase.AGGREGATE, Phase.CHALLENGE, Phase.DISPUTED)
_WAIT = 0.5  # of the aggregate window
_EXCUSED_WAIT = 0.1  # the same for nodes that kept something back in the record before
_EXCUSED_EVERY = 2  # rounds: in one of so many
_LOOK_S = 2.0  # that a step waits for samples while there is time
_LAST_LOOK = 0.25  # of what is left of the time to commit
_MOST_EXCUSED = 3  # one part of so many of a record's nodes, at most
_RECORD = "record"  # the file of a commitment
_MILLI = 1_000
_MOST_SYNC = 10**12


class Validator:
    """The validator of one verifier node."""

    def __init__(self, consensus: Consensus, context: Context, reader: RoundReader) -> None:
        self._network = reader.network
        self._consensus = consensus
        self._context = context
        self._store = reader.store
        self._reader = reader
        self._commitments = Commitments(context.journal, context.artefacts, "validator")
        self._said: tuple[int, int, str] | None = None
        self._told = (0, 0)  # the last job and round whose scores were logged
        self._lost = b""  # digest of a record that neither disk nor store has
        self._samples: tuple[tuple[int, int, bytes], SampleSearch] | None = None  # and the seed

    def step(self, view: View, node: int) -> str | None:
        """The next action of this duty; returns what was done."""
        if not self._concerned(view, node):
            return None
        try:
            scoring = self._consensus.scoring(view.job_id, view.round_id)
            if scoring.phase in (ScorePhase.NONE, ScorePhase.COMMIT):
                return self._commit(view, node, scoring)
            if scoring.phase == ScorePhase.REVEAL:
                return self._reveal(view, node, scoring)
        except StoreUnavailable:
            raise
        except (Reverted, StoreError, ValueError, RuntimeError) as error:
            # ValueError: data, payloads, records; RuntimeError: also a device without memory.
            self._say(view, "cannot_score", str(error))
        return None

    # -- committing ----------------------------------------------------------------------------

    def _commit(self, view: View, node: int, scoring: Scoring) -> str | None:
        if self._committed(view, node):
            return None
        if view.now > scoring.commit_deadline:
            return None
        audit_seed = self._network.seed(view.job_id, view.round_id, view.round, audit=True)
        if audit_seed is None:
            return None
        basis, entry = self._made(view, node, audit_seed) or (None, None)
        if basis is None or entry is None:
            facts, basis = self._read_chain(view, node)
            if basis is None:
                return None
            record = self._evaluate(view, node, audit_seed, scoring, facts)
            if record is None:
                return None
            entry = self._remember(view, audit_seed, record, basis)
        seen = self._network.seen(basis.block, view.block)
        # The contract knows a block's hash from the next one on.
        if seen is None or seen[0] >= view.block or not basis.stands(self._network.chain):
            return None
        crashpoint("validator-before-commit")
        follows = basis.follows
        sent = self._context.sender.ensure(
            lambda: self._committed(view, node),
            self._network.scores,
            "commit_scores_on",
            view.job_id,
            view.round_id,
            node,
            self._digest(view, node, entry),
            *seen,
            unless=lambda: self._newest(view, node) != follows,
        )
        crashpoint("validator-after-commit")
        if sent is None and not self._committed(view, node):
            return None  # an older reveal was mined meanwhile
        return f"scored: round {view.round_id}, committed"

    def _made(self, view: View, node: int, audit_seed: bytes) -> tuple[Basis, Entry] | None:
        """A vector that was made before, and may be committed to as the chain is now."""
        for name in self._commitments.names(scores_name(view.job_id, view.round_id, audit_seed)):
            entry = self._commitments.get(name)
            basis = None if entry is None else basis_in(entry)
            if entry is None or basis is None or not basis.stands(self._network.chain):
                continue
            if basis.follows != self._newest(view, node):
                continue
            if self._own_copy(view.job_id, view.round_id, bytes.fromhex(entry["record"])):
                return basis, entry
        return None

    def _read_chain(self, view: View, node: int) -> tuple[Facts, Basis | None]:
        """What the chain says of the round's nodes, and what a record made of that rests on."""
        opened = view.round.opened_block
        posted = self._consensus.samples_posted(view.job_id, view.round_id, opened)
        facts = self._facts(view, digests_in(posted))
        chain, invalid = self._network.chain, bool(facts.invalid)
        return facts, basis_of(chain, self._consensus, view, node, posted, invalid)

    def _evaluate(
        self, view: View, node: int, audit_seed: bytes, scoring: Scoring, facts: Facts
    ) -> ScoreRecord | None:
        """The round's record; None while something is waited for."""
        plan = self._reader.plans.of(view)
        if plan is None:
            return None
        submissions = self._reader.submissions(view)
        samples = facts.samples
        missing = {
            s.reveal.node for s in submissions if s.unavailable or s.reveal.node not in samples
        }
        search = self._search(view, audit_seed)
        search.want(samples.values())
        if self._patient(view, scoring, _WAIT):
            excused: set[int] = set()
            if view.round_id % _EXCUSED_EVERY == 0 and not self._patient(
                view, scoring, _EXCUSED_WAIT
            ):
                excused = _kept_back(self._previous(view, node))
            search.wait(_LOOK_S)
            missing |= {n for n, digest in samples.items() if search.may_come(digest)}
            if missing := missing - excused:
                nodes = sorted(missing)
                self._context.log.debug("waiting_for_samples", round=view.round_id, nodes=nodes)
                return None
        else:
            search.wait(_LAST_LOOK * (scoring.commit_deadline - view.now))
        search.end()
        with self._context.metrics.busy("validate"):
            kept = [self._kept(submission) for submission in submissions]
            return self._measure(view, node, audit_seed, plan, kept, facts, search)

    def _search(self, view: View, audit_seed: bytes) -> SampleSearch:
        """The search for the round's samples, which knows what was missing in it."""
        place = view.job_id, view.round_id, audit_seed
        if self._samples is None or self._samples[0] != place:
            shapes, options = self._reader.models.job(view.job_id).shapes, self._options(view)
            limit = max_samples_bytes(shapes, options.samples)
            self._samples = place, SampleSearch(self._store, limit)
        return self._samples[1]

    def _kept(self, submission: Submission) -> Submission:
        """A submission whose payload stays in this validator's store, or one without a payload.

        Its trainer may take the payload down, and the committee measures the record again.
        """
        if submission.gradient is None:
            return submission
        try:
            self._store.pin(self._store.resolve(submission.reveal.content))
        except StoreUnavailable:
            raise
        except StoreError as error:
            return replace(submission, gradient=None, reason=f"{UNAVAILABLE}{error}"[:MAX_REASON])
        return submission

    def _measure(
        self,
        view: View,
        node: int,
        audit_seed: bytes,
        plan: Plan,
        submissions: list[Submission],
        facts: Facts,
        search: SampleSearch,
    ) -> ScoreRecord:
        job, options = self._reader.models.job(view.job_id), self._options(view)
        before = self._reader.before(view)
        checked = check_nodes(
            facts,
            job,
            options,
            plan,
            before,
            submissions,
            audit_seed,
            step_size(before, earlier_model(self._reader.models, view.job_id, plan.step)),
            search,
        )
        previous = self._previous(view, node)
        usable = [n for n, found in checked.items() if found.usable]
        others = [n for n, found in checked.items() if not found.usable]
        due, last = drawn(audit_seed, previous, usable, others, options)
        sent: dict[int, State] = {
            s.reveal.node: s.gradient for s in submissions if s.gradient is not None
        }
        yardstick = Yardstick(
            job=job,
            options=options,
            plan=plan,
            before=before,
            length=median_norm(sent[n] for n in usable),
            seed=round_seed(audit_seed),
            device=self._reader.device,
            history=merged_updates(
                self._reader.models, view.job_id, view.round.prev_model, options.history
            ),
        )
        measured = yardstick.measure(
            {n: sent[n] for n in due},
            lambda n: self._context.log.debug("evaluating", round=view.round_id, of_node=n),
        )
        crashpoint("validator-evaluating")
        lines = [
            _line(n, found, n in due or n in last, measured.get(n)) for n, found in checked.items()
        ]
        ratings = follow(previous, lines, options)
        scores = scores_of(lines, ratings, options)
        record = ScoreRecord(
            job=view.job_id,
            round=view.round_id,
            verifier=node,
            position=0 if previous is None else previous.position + 1,
            previous=None if previous is None else digest_of_record(previous.to_bytes()).hex(),
            audit_seed=audit_seed.hex(),
            model=view.round.prev_model.hex(),
            scores=[
                line.model_copy(update={"score": score})
                for line, score in zip(lines, scores, strict=True)
            ],
            ratings=ratings,
        )
        return record

    def _facts(self, view: View, samples: dict[int, bytes]) -> Facts:
        job, number, nodes = view.job_id, view.round_id, view.snapshot.nodes
        return Facts(
            nodes=nodes,
            committed=self._network.committed(job, number, nodes),
            samples=samples,
            invalid=self._network.in_round("is_invalid", job, number, nodes),
        )

    def _remember(self, view: View, audit_seed: bytes, record: ScoreRecord, basis: Basis) -> Entry:
        """Put everything that a reveal needs on disk; only then may the commitment be sent.

        Its key is new: a vector that was made before may be committed to on another branch. What
        was missing then may be here when one is made again, so the samples are looked for anew.
        """
        raw, self._samples = record.to_bytes(), None
        first = scores_name(view.job_id, view.round_id, audit_seed)
        made = len(self._commitments.names(first))
        name = f"{first}-{made}" if made else first
        fields = {
            "scores": record.vector(),
            "record": digest_of_record(raw).hex(),
            **basis.fields(),
        }
        entry = self._commitments.keep(name, fields, {_RECORD: raw})
        self._commitments.forget_until(f"scores-{view.job_id}-", view.round_id - _ROUNDS_KEPT)
        return entry

    # -- revealing -----------------------------------------------------------------------------

    def _reveal(self, view: View, node: int, scoring: Scoring) -> str | None:
        committed = self._committed(view, node)
        if not committed or view.now > scoring.reveal_deadline or self._revealed(view, node):
            return None
        found = self._entry_of(view, node)
        if found is None:
            why = "the journal has no vector of this commitment; it can't be revealed"
            self._say(view, "scores_lost", why)
            return None
        name, entry = found
        raw = self._published(view, bytes.fromhex(entry["record"]))
        if raw is None:
            # A vector whose record nobody can have is false. Silence costs one round's cut.
            path = self._commitments.path(name, _RECORD)
            self._say(view, "record_lost", f"{path} is gone or has changed; nothing is revealed")
            return None
        self._tell(view, raw)
        crashpoint("validator-before-reveal")
        self._context.sender.ensure(
            lambda: self._revealed(view, node),
            self._network.scores,
            "reveal_scores",
            view.job_id,
            view.round_id,
            node,
            entry["scores"],
            bytes.fromhex(entry["record"]),
            bytes.fromhex(entry["salt"]),
        )
        crashpoint("validator-after-reveal")
        return f"scored: round {view.round_id}, revealed"

    def _published(self, view: View, digest: bytes) -> bytes | None:
        """The record of a vector that is to be revealed, kept in the store; None if it is lost."""
        raw = self._own_copy(view.job_id, view.round_id, digest)
        if raw is not None:
            self._store.pin(self._store.put_bytes(raw))
            return raw
        if digest == self._lost:
            return None  # a distant store searches long for what nobody has
        try:
            # Its process may have died between publishing it and revealing.
            raw = self._store.get_digest(digest, MAX_RECORD_BYTES)
            self._store.pin(self._store.resolve(digest))
            return raw
        except StoreUnavailable:
            raise
        except StoreError:
            self._lost = digest
            return None

    def _entry_of(self, view: View, node: int) -> tuple[str, Entry] | None:
        """What was journalled for the commitment on chain (a reorg may leave several)."""
        return self._commitments.behind(
            f"scores-{view.job_id}-{view.round_id}-",
            self._commitment(view, node),
            lambda entry: self._digest(view, node, entry),
        )

    # -- the chain of records ------------------------------------------------------------------

    def _previous(self, view: View, node: int) -> ScoreRecord | None:
        """This validator's newest revealed record of the job."""
        newest = newest_revealed(self._consensus, view.job_id, view.round_id, node)
        return None if newest is None else self._read(view, newest[0], node, newest[1])

    def _newest(self, view: View, node: int) -> bytes:
        """Digest of that record, 32 zero bytes without one."""
        newest = newest_revealed(self._consensus, view.job_id, view.round_id, node)
        return ZERO_DIGEST if newest is None else newest[1]

    def _read(self, view: View, number: int, node: int, digest: bytes) -> ScoreRecord | None:
        """A record of this validator, from its own disk or else from the store."""
        try:
            raw = self._own_copy(view.job_id, number, digest)
            if raw is None:
                raw = self._store.get_digest(digest, MAX_RECORD_BYTES)
            record = ScoreRecord.from_bytes(raw)
        except StoreUnavailable:
            raise
        except (StoreError, RecordError) as error:
            self._say(view, "ratings_lost", f"the record of round {number}: {error}")
            return None
        if (record.job, record.round, record.verifier) != (view.job_id, number, node):
            self._say(view, "ratings_lost", f"the record of round {number} is of another round")
            return None
        return record

    def _own_copy(self, job_id: int, number: int, digest: bytes) -> bytes | None:
        for name in self._commitments.names(f"scores-{job_id}-{number}-"):
            path = self._commitments.path(name, _RECORD)
            raw = path.read_bytes() if path.exists() else b""
            if digest_of_record(raw) == digest:
                return raw
        return None

    # -- small things --------------------------------------------------------------------------

    def _concerned(self, view: View, node: int) -> bool:
        return (
            view.phase in _ROUND_PHASES
            and node in view.snapshot.verifiers
            and isinstance(self._reader.models.job(view.job_id).score, Gauntlet)
            and self._consensus.adopted(view.job_id)
            # Suspended or banned, it has no say.
            and self._network.acting_operator(node) == self._context.wallet.address
        )

    def _options(self, view: View) -> Gauntlet:
        options = self._reader.models.job(view.job_id).score
        assert isinstance(options, Gauntlet)  # else this duty does not concern the node
        return options

    def _patient(self, view: View, scoring: Scoring, wait: float) -> bool:
        """Whether less than a share of the aggregate window has passed, in which to wait for what
        others have yet to publish."""
        commit_s, _ = self._consensus.windows(view.job_id)
        left = scoring.commit_deadline - view.now
        return left >= commit_s + (1 - wait) * view.job.terms.aggregate_s

    def _commitment(self, view: View, node: int) -> bytes:
        return self._consensus.committed(view.job_id, view.round_id, node)

    def _committed(self, view: View, node: int) -> bool:
        return self._commitment(view, node) != ZERO_DIGEST

    def _revealed(self, view: View, node: int) -> bool:
        return self._consensus.record(view.job_id, view.round_id, node) != ZERO_DIGEST

    def _digest(self, view: View, node: int, entry: Entry) -> bytes:
        return self._consensus.digest(
            view.job_id,
            view.round_id,
            node,
            self._context.wallet.address,
            entry["scores"],
            bytes.fromhex(entry["record"]),
            bytes.fromhex(entry["salt"]),
        )

    def _say(self, view: View, event: str, why: str) -> None:
        """Warn, once per round and reason."""
        what = (view.job_id, view.round_id, f"{event} {why}")
        if what != self._said:
            self._said = what
            self._context.log.warning(event, round=view.round_id, why=why)

    def _tell(self, view: View, raw: bytes) -> None:
        """One log line per failure, evaluation and rating, and one with the vector.

        Logs leave a machine more easily than a journal does, so nothing is said before the reveal.
        """
        if self._told == (place := (view.job_id, view.round_id)):
            return
        self._told = place
        try:
            record = ScoreRecord.from_bytes(raw)
        except RecordError:
            return  # of the version that committed to it; it is revealed all the same
        log = self._context.log
        for line in record.scores:
            if line.failure:
                log.info(
                    "fast_evaluation", round=view.round_id, of_node=line.node, why=line.failure
                )
            if line.evaluated:
                log.info(
                    "loss_score",
                    round=view.round_id,
                    of_node=line.node,
                    assigned=line.assigned,
                    random=line.random,
                    expected=line.expected,
                )
        here = {line.node for line in record.scores}
        for rated in record.ratings:
            if rated.node in here:
                log.info("rating", round=view.round_id, of_node=rated.node, **_figures(rated))
        log.info(
            "scores",
            round=view.round_id,
            vector=json.dumps({line.node: line.score for line in record.scores}),
        )


def _line(node: int, found: Checked, evaluated: bool, measured: Measured | None) -> NodeScore:
    """A node's line, without its score."""
    measured = measured or Measured(None, None, None)
    failure = (found.failure or measured.reason)[:MAX_REASON]
    return NodeScore(
        node=node,
        failure=failure,
        usable=found.usable,
        sync=None if found.sync is None else _milli(found.sync),
        evaluated=evaluated,
        assigned=measured.assigned,
        random=measured.random,
        expected=measured.expected,
        shown=measured.shown,
        extra=measured.extra,
        score=0,
    )


def _kept_back(record: ScoreRecord | None) -> set[int]:
    """Nodes that had not published in time what this record asked for; nobody, where so many had
    not that it was this validator that could not read."""
    lines = [] if record is None else record.scores
    silent = (NO_SAMPLE, SAMPLE_LOST, UNAVAILABLE)
    found = {line.node for line in lines if line.failure.startswith(silent)}
    return found if len(found) * _MOST_EXCUSED <= len(lines) else set()


def _milli(steps: float) -> int:
    return min(_MOST_SYNC, round(min(steps, _MOST_SYNC) * _MILLI))


def _figures(line: NodeRating) -> dict[str, float]:
    rating = Rating(line.skill, line.sigma, line.mu, line.value)
    return {
        "loss_rating": round(ordinal(rating), 4),
        "mu": round(line.mu / 1_000_000, 4),
        "peer_score": round(peer_score(rating), 4),
    }


def scores_name(job_id: int, round_id: int, audit_seed: bytes) -> str:
    """The journal key of a round's first vector, with which the keys of any other begin; a reorg
    that changes the audit seed changes it."""
    return f"scores-{job_id}-{round_id}-{audit_seed.hex()[:16]}"
