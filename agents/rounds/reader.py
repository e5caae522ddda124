# SPDX-License-Identifier: Apache-2.0
"""All that chain and store say of a round: model, plan, memories, submissions, outcome, inputs.

Every role, the committee and the audit read rounds by a `RoundReader`, each by one of its own.

Rule: everyone computes the result from the same published payloads, and, where the job merges only
the best, from the same scores: those of the last round that was scored before this one. A payload
that the store lacks is waited for; it is left out only when the phase is about to end, and the
report then says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from agents.jobs.job import JobContext
from agents.jobs.model_files import stage_of
from agents.pipeline.epoch import Epoch
from agents.pipeline.hand_over import Signed
from agents.pipeline.letters import domain, signed_by
from agents.pipeline.shards import Statement
from agents.protocol.draw_chance import Exposure, exposures, findings_at_once, lasting_loss
from agents.protocol.network import Network
from agents.protocol.numbers import UNCLAIMED, Phase
from agents.protocol.scores import Consensus
from agents.protocol.structs import Reveal
from agents.protocol.view import View
from agents.rounds.codec_memory import Memories
from agents.rounds.history import known_updates
from agents.rounds.inputs import RoundInputs
from agents.rounds.mined import Mined, fetch_mined
from agents.rounds.models import Models
from agents.rounds.named import Named
from agents.rounds.outcome import Merging, Outcome, finish, merge
from agents.rounds.payload_bound import bound_of
from agents.rounds.plan import Plan, Plans
from agents.rounds.release import draw, published
from agents.rounds.report import ReportError, RoundReport
from agents.rounds.searches import Searches
from agents.rounds.shares import (
    Recorded,
    RecordMissing,
    Shares,
    max_record_bytes,
    read_record,
)
from agents.rounds.submissions import Submission, Unseal, fetch, left_out, shut
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.assignment import input_root
from agents.training.state import State

WAIT_SHARE = 0.5  # of the aggregate window: how long a proposer waits for a missing payload
_KEPT = 4
_LOOK = 0.125  # of the window: how long a proposer looks for pieces that owners name
_Key = tuple[bytes, ...]
# (job, round) -> shares of the newest scored round before it, by node.
Standings = Callable[[int, int], Mapping[int, int]]


class Opening(Protocol):
    """Opens sealed payloads for somebody: a round's reader, or a committee member."""

    def opener(self, view: View) -> Unseal:
        """What opens the round's payloads, in any thread. It raises NotForUs, SealError."""
        ...


class RoundReader:
    """Reads rounds for one process; keeps what it found of the last few.

    `models`, `plans` and `memories` answer for any round, past ones too; the methods answer for
    the round of a view. `device`: where merges are evaluated and tasks are done again.
    """

    def __init__(
        self,
        network: Network,
        store: ContentStore,
        device: str,
        *,
        models: Models | None = None,
        sealing: Opening | None = None,
        folder: Path | None = None,
        standings: Standings | None = None,
    ) -> None:
        """`models`: by default made here, and without the key of any encrypted data.

        `sealing`: opens sealed payloads; without it they count as unavailable. `folder`: where the
        noise of what is published is kept. `standings`: by default the chain's. An agent gets all
        of them from its `DataAccess.reader`.
        """
        self.network = network
        self.store = store
        self.device = device
        self.models = Models(network, store) if models is None else models
        self.plans = Plans(network, self.models)
        self.memories = Memories(network, store, self.models, self.plans, device)
        self._sealing = sealing
        self.folder = folder
        self._standings = standings
        self._submissions: dict[int, Submission] = {}
        self._searches = Searches()
        self._decoded_in: tuple[int, int, bytes, bytes] | None = None
        self._in_time: set[tuple[int, int, bytes]] = set()
        self._merged: dict[_Key, Merging] = {}
        self._named: tuple[bytes, Named] | None = None
        self._outcomes: dict[tuple[_Key, Any], Outcome] = {}

    def before(self, view: View) -> State:
        """The model that the round starts from. Raises as `Models.at`."""
        return self.models.at(view.job_id, view.round.prev_model)

    # -- what a check needs ----------------------------------------------------------------------

    def inputs(
        self,
        view: View,
        submissions: Sequence[Submission],
        outcome: Outcome | None = None,
        patient: bool = True,
    ) -> RoundInputs | None:
        """What a check of the round needs; None while one of its seeds is not known.

        Args:
            submissions: of the round.
            outcome: the round's, as computed here. With it come the signs that decide who is
                looked at: draw seed, exposures, flags. A committee member is asked about one node
                and gives none: its inputs then hold no sign.
            patient: see `RoundInputs`.
        """
        plan = self.plans.of(view)
        if plan is None:
            return None
        before = self.before(view)
        job = self.models.job(view.job_id)
        bare = self.inputs_at(job, view.job_id, view.round_id, plan, before, submissions, patient)
        if outcome is None:
            return bare
        draw_seed = self.network.draw_seed(view.job_id, view.round_id, view.round)
        if draw_seed is None:
            return None
        nodes = [s.reveal.node for s in submissions]
        flagged = self.network.in_round("is_flagged", view.job_id, view.round_id, nodes)
        return replace(
            bare,
            merged=outcome.merged,
            lies=outcome.lies,
            draw_seed=draw_seed,
            exposures=self._exposures(view, outcome) if job.verification.redone else {},
            flagged=frozenset(flagged),
            window_s=view.job.terms.commit_s,
        )

    def _exposures(self, view: View, outcome: Outcome) -> dict[int, Exposure]:
        """By what the proposed result pays, which all read alike, whatever of the payloads each of
        them has; by stakes, retained pay and slashing table of the block in which the round was
        opened, since what is added later does not answer for the round; and by how many rounds each
        stake answers for at once."""
        opened = view.round.opened_block
        proposal = self.network.proposal(view.job_id, view.round_id, view.round)
        table = self.network.penalties_at(opened)
        stakes = self.network.stakes_at(proposal.nodes, opened)
        retained = self.network.retained_at(opened)
        rounds = self.network.rounds_at_once(view.job_id, view.round_id, view.round)
        amount, uncut = self.network.pool_amount(view.job_id, view.round_id)
        found = exposures(
            amount,
            view.job.terms.aggregator_bps,
            proposal.nodes,
            proposal.contributions,
            {
                node: lasting_loss(stake, table, findings_at_once(rounds[node]))
                + retained.get((view.job_id, node), 0)
                for node, stake in stakes.items()
            },
            outcome.worth(self.models.job(view.job_id)),
            uncut,
        )
        found.pop(UNCLAIMED, None)  # it shares the pay, and nobody can be drawn for it
        return found

    def inputs_at(
        self,
        job: JobContext,
        job_id: int,
        round_id: int,
        plan: Plan,
        before: State,
        submissions: Sequence[Submission],
        patient: bool = True,
    ) -> RoundInputs:
        """Inputs without signs. For an audit, which replays plan and model instead of asking."""
        return RoundInputs(
            job=job,
            job_id=job_id,
            round_id=round_id,
            plan=plan,
            before=before,
            submissions=submissions,
            memory=lambda node: self.memories.before(job_id, plan, node),
            moved_memory=lambda node, seed: self.memories.moved(job_id, plan, node, seed),
            inner=lambda node: self.memories.carried(job_id, plan, node).inner,
            moved=lambda node, seed: self.memories.carried(job_id, plan, node, moved_by=seed),
            patient=patient,
            signed=self._signed(job_id, round_id, plan),
        )

    def _signed(self, job_id: int, round_id: int, plan: Plan) -> Signed:
        """Whether the operator of a passage's sender signed the digest of what it handed on.

        The operator is that of the block in which the round was opened. Who changes its key later
        can't make those look wrong who took its letters.
        """
        if plan.epoch is None:
            return lambda passage, digest, signature: False
        miners = [miner for stage in plan.epoch.stages for miner in stage]
        opened = self.network.round(job_id, round_id).opened_block
        operators = self.network.operators_at(miners, opened)
        where = domain(self.network.deployment.chain_id, self.network.rounds.address)
        return signed_by(where, operators)

    # -- submissions -----------------------------------------------------------------------------

    def submissions(self, view: View) -> list[Submission]:
        """Every revealed node's submission, ascending by node id."""
        job = self.models.job(view.job_id)
        plan = self.plans.of(view)
        if plan is None:
            return []
        before = view.round.prev_model
        drawn = self._draws(view, job) or b""
        decoded_in = (view.job_id, view.round_id, before, plan.manifest.hash() + drawn)
        if decoded_in != self._decoded_in:
            # The same reveal again says something else: it is read under another seed or task.
            self._submissions, self._decoded_in = {}, decoded_in
            self._searches.forget()
        reveals = self.network.reveals(view.job_id, view.round_id, view.round.opened_block)
        kept = {node: self._submissions.get(node) for node in reveals}
        due = [one for node, one in reveals.items() if self._searches.due(one, kept[node])]
        read = self._searches.read(due, self._fetching(view, job, plan)) if due else []
        fresh = {one.reveal.node: one for one in read}
        found = [fresh.get(node) or self._submissions[node] for node in reveals]
        self._submissions = {submission.reveal.node: submission for submission in found}
        if view.phase == Phase.AGGREGATE and self._proposers_wait(view, bool(read)):
            place = (view.job_id, view.round_id)
            self._in_time = {entry for entry in self._in_time if entry[:2] == place} | {
                (*place, s.reveal.content) for s in found if not s.unavailable
            }
        return found

    def _proposers_wait(self, view: View, searched: bool) -> bool:
        """Whether no proposer may have given up missing payloads yet, now that they were searched
        for. A search may take longer than what is left of that time."""
        now = self.network.chain.newest_head().timestamp if searched else view.now
        left = view.round.deadline - now
        return left > (1 - WAIT_SHARE) * view.job.terms.aggregate_s

    def _fetching(
        self, view: View, job: JobContext, plan: Plan
    ) -> Callable[[Reveal], Callable[[], Submission]]:
        """By reveal, what reads and checks it, without the chain."""
        before, drawn = view.round.prev_model, self._draws(view, job)
        whole = cache(partial(self.models.at, view.job_id, before))
        unseal = self._sealing.opener(view) if job.sealed and self._sealing else shut
        enforced = job.verification.input_enforced

        def of(reveal: Reveal) -> Callable[[], Submission]:
            if plan.epoch is not None:
                stage = plan.epoch.stage_of(reveal.node)
                state: State = {}
                if stage is not None:
                    state = stage_of(job, self.models.at(view.job_id, before, stage), stage)
                return partial(fetch_mined, reveal, job, self.store, plan, state, drawn)
            seed = plan.codec_seed(job.codec, reveal.node)
            due = input_root(plan.manifest, reveal.node, before) if enforced else None
            bound = bound_of(job, plan, reveal.node, whole)
            return partial(fetch, reveal, job, self.store, seed, unseal, due, bound)

        return of

    def _draws(self, view: View, job: JobContext) -> bytes | None:
        """The audit seed where it decides what must be there of an epoch, once it is known."""
        if not job.spec.segment:
            return None
        return self.network.seed(view.job_id, view.round_id, view.round, audit=True)

    def counted(self, view: View, submissions: Sequence[Submission]) -> list[Submission]:
        """The submissions as the result that stands has them, for who looks at nodes: a payload
        that it gives up and that was published since is left out. Else whoever publishes late would
        change whom verifiers draw, and for each of them otherwise. Of a miner of a split model its
        log and entries stay: what they show of others is no matter of the draw.

        Unchanged where the result's report can't be read. Raises StoreUnavailable.
        """
        if not any(view.round.result_hash):
            return [*submissions]
        proposal = self.network.proposal(view.job_id, view.round_id, view.round)
        try:
            missing = self.models.report(proposal.report).missing()
        except StoreUnavailable:
            raise
        except (StoreError, ReportError):
            return [*submissions]
        late = {s.reveal.node for s in submissions if s.gradient is not None} & missing
        return left_out(submissions, late)

    def had_in_time(self, view: View, submission: Submission) -> bool:
        """Whether this process could read the payload before a proposer may have given it up."""
        return (view.job_id, view.round_id, submission.reveal.content) in self._in_time

    # -- outcome ---------------------------------------------------------------------------------

    def outcome(
        self,
        view: View,
        submissions: Sequence[Submission],
        report: RoundReport | None = None,
        said: Iterable[Statement] = (),
    ) -> Outcome | None:
        """The round's outcome over these submissions; None while a seed that it needs is unknown.

        `report`: the proposed one, whose published gains are used where they are right, and whose
        record of shards is read. `said`: without a report, owners' statements about shards.
        Raises RecordMissing for that record and what it rests on, which a proposer keeps, and
        StoreError for what others keep.
        """
        plan = self.plans.of(view)
        if plan is None:
            return None
        shares = None
        if self.models.spec(view.job_id).butterfly and plan.epoch is not None:
            audit_seed = self.network.seed(view.job_id, view.round_id, view.round, audit=True)
            if audit_seed is None:
                return None
            place = view.job_id, view.round_id, plan, submissions, audit_seed
            try:
                recorded = None if report is None else self.recorded(plan.epoch, report)
                shares = self.shares(*place, recorded, said, _LOOK * view.job.terms.aggregate_s)
            except StoreUnavailable:
                raise
            except StoreError as error:
                raise RecordMissing(str(error)) from error
        standing = self._standing(view)
        key = self._key(view, plan, submissions, standing, shares)
        claimed = None if report is None else report.gains()
        named = (key, None if report is None else (tuple(report.gains().items()), report.update))
        if named not in self._outcomes:
            before, job = self.before(view), self.models.job(view.job_id)
            self._outcomes[named] = finish(
                job,
                view.job_id,
                view.round_id,
                plan,
                before,
                submissions,
                self._merging(view, key, plan, before, submissions, standing, report, shares),
                claimed,
                known_updates(self.models, view.job_id, view.round.prev_model),
            )
            _shorten(self._outcomes)
        return self._outcomes[named]

    def shares(
        self,
        job_id: int,
        round_id: int,
        plan: Plan,
        submissions: Sequence[Submission],
        audit_seed: bytes,
        recorded: Recorded | None,
        said: Iterable[Statement] = (),
        within_s: float = 0.0,
    ) -> Shares:
        """What there is to judge a round's shards by: statements of a record or, without one,
        `said`. They are checked here. Raises StoreError for what the record rests on."""
        assert plan.epoch is not None
        revealed = frozenset(s.reveal.node for s in submissions)
        opened = self.network.round(job_id, round_id).opened_block
        operators = self.network.operators_at(sorted(revealed), opened)
        where = domain(self.network.deployment.chain_id, self.network.rounds.address)
        given = said if recorded is None else recorded.said
        shares = Shares(audit_seed, revealed).sound(plan.epoch, given, operators, where)
        unread = None if recorded is None else recorded.unread
        contents = b"".join(s.reveal.content + bytes([s.gradient is None]) for s in submissions)
        signed = b"".join(one.signature for one in shares.statements.values())
        key = hashlib.sha256(audit_seed + contents + signed + repr(unread).encode()).digest()
        if self._named is None or self._named[0] != key:
            job = self.models.job(job_id)
            looked = shares.look(job, self.store, plan, submissions, unread, within_s)
            self._named = key, looked.named
        return replace(shares, named=self._named[1])

    def recorded(self, epoch: Epoch, report: RoundReport) -> Recorded:
        """What a report's record says, unchecked.

        Raises StoreError, or ReportError for a record that can't be read.
        """
        if report.shards is None:
            return Recorded()
        return read_record(self.store.get(report.shards, max_record_bytes(epoch)))

    def proposed(self, view: View, submissions: Sequence[Submission]) -> RoundReport | None:
        """The report of the result that stands, in a job with a butterfly; None in others, and
        where it, its record, or what that rests on can't be read: `agents.verify.judging` says what
        follows of that."""
        plan = self.plans.of(view)
        if not self.models.spec(view.job_id).butterfly or plan is None or plan.epoch is None:
            return None
        if not any(view.round.result_hash):
            return None  # nothing is proposed yet
        try:
            proposal = self.network.proposal(view.job_id, view.round_id, view.round)
            report = self.models.report(proposal.report)
            self.outcome(view, submissions, report)
        except StoreUnavailable:
            raise
        except (StoreError, ReportError):
            return None
        return report

    def lies(
        self,
        view: View,
        submissions: Sequence[Submission],
        outcome: Outcome,
        report: RoundReport,
    ) -> Mapping[int, Mapping[str, Any]]:
        """By owner of shards, evidence of what it stated wrong, by payloads that came after the
        result as well: else a friend that publishes late would shield it.

        `submissions`: all of the round. `outcome`: over those that `counted` leaves. `report`: as
        `proposed` gives it. Raises StoreUnavailable.
        """
        try:
            whole = self.outcome(view, submissions, report)
        except StoreUnavailable:
            raise
        except (StoreError, ReportError):
            return outcome.lies
        return outcome.lies if whole is None else {**whole.lies, **outcome.lies}

    def publish(self, outcome: Outcome) -> None:
        """Put update, checkpoint and report into the store, durably, and keep what was merged."""
        self.pin(outcome)
        for file in outcome.files:
            self.store.pin(self.store.put_bytes(file))

    def pin(self, outcome: Outcome) -> None:
        """Keep what was merged.

        The merged payloads are pinned because verifiers fetch them after this: whoever revealed one
        and takes it down must not make an honest result look wrong. The same holds for what else
        decides whose work counts, such as the logs and entries of miners.

        A store may have dropped what was read, and its node may serve it no more. Then it raises
        NotFound or CorruptContent, and the round is read anew: what can't be had is left out when
        its time is over. Else a proposer that can't keep one payload would propose nothing.
        """
        contents = (bytes.fromhex(line.content) for line in outcome.report.nodes if line.accepted)
        try:
            for digest in (*contents, *outcome.rests_on):
                self.store.pin(self.store.resolve(digest))
        except StoreUnavailable:
            raise
        except StoreError:
            self._submissions = {}
            raise

    def _merging(
        self,
        view: View,
        key: _Key,
        plan: Plan,
        before: State,
        submissions: Sequence[Submission],
        standing: Mapping[int, int],
        report: RoundReport | None,
        shares: Shares | None,
    ) -> Merging:
        job = self.models.job(view.job_id)
        if report is None or not job.sealed:
            name = hashlib.sha256(b"".join(key)).hexdigest()
            release = draw(job, self.folder, f"noised-{view.job_id}-{view.round_id}-{name}")
        else:
            release = published(job, self.models.large, report.update)
            key = (*key, report.update.encode())
        if key not in self._merged:
            nodes = [s.reveal.node for s in submissions]
            stakes = self.network.stakes_at(nodes, view.round.opened_block)
            self._merged[key] = merge(
                *(job, before, submissions, self.device, stakes, release, plan.step, standing),
                *(plan.epoch, shares),
            )
            _shorten(self._merged)
        return self._merged[key]

    def _standing(self, view: View) -> Mapping[int, int]:
        """What earlier rounds' scores say, where the job's merge asks for them."""
        if not self.models.job(view.job_id).verification.asks_standing:
            return {}
        if self._standings is None:
            self._standings = Consensus(self.network).standing
        return self._standings(view.job_id, view.round_id)

    def _key(
        self,
        view: View,
        plan: Plan,
        submissions: Sequence[Submission],
        standing: Mapping[int, int],
        shares_of_stages: Shares | None,
    ) -> _Key:
        # Refused contents count too: the report names them, and a reorg may change them. So may it
        # change a proof, and a miner's log, which decide whose work counts.
        parts = [
            s.reveal.node.to_bytes(32, "big")
            + s.reveal.content
            + s.reveal.proof
            + bytes([s.gradient is not None])
            + (s.reveal.trace_root if isinstance(s, Mined) else b"")
            for s in submissions
        ]
        shares = repr(sorted(standing.items())).encode()
        if shares_of_stages is not None:
            signed = (one.signature for one in shares_of_stages.statements.values())
            parts.append(shares_of_stages.audit_seed + b"".join(signed))
            parts.append(shares_of_stages.named.key())
        return (view.round.prev_model, plan.manifest.hash(), shares, *parts)


def _shorten(kept: dict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
