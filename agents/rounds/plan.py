# SPDX-License-Identifier: Apache-2.0
"""The manifest of a round: who trains on which batches.

Rule: the round's seed and snapshot are on chain; what earlier rounds left undone is in the last
finalized round's report. So everyone derives the same manifest, and nobody has to send it. The
batches of a void round are handed out again.

A batch is done when an update that came of it was merged. The batches of a good payload that was
not merged are handed out again, usually to other nodes. Each round assigns these batches before any
new ones, so never more than one round's batches are left.

Work of an earlier round that was invalid when a round opened counts for nothing in it. An appeal
that clears the node later moves no batch of that round, and no pay (`agents.protocol.marks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.jobs.job import JobContext
from agents.mechanisms.codec import Codec
from agents.mechanisms.options import MAX_MEMORY_ROUNDS
from agents.mechanisms.score.backward_passes import BackwardPasses
from agents.pipeline import assignment as seating
from agents.pipeline.epoch import Epoch
from agents.pipeline.seats import Unseated
from agents.protocol.marks import Marks, nodes_of
from agents.protocol.network import Network
from agents.protocol.structs import Round, Snapshot
from agents.protocol.view import View
from agents.rounds.models import Models
from agents.rounds.report import RoundReport
from agents.runtime.newest import Newest
from agents.training.assignment import Manifest, Range, assign, next_carry, node_seed

_KEPT = 2 * MAX_MEMORY_ROUNDS  # a re-execution may look back over half as many rounds of a job


@dataclass(frozen=True)
class Plan:
    """A round's manifest with what it was made from.

    `step`: finalized rounds before this one, which decides the learning rate. `epoch`: who holds
    which stage, where the model is split; None where it is not, or where too few nodes came.
    `earlier`: passes that count, by node, of each earlier round whose passes are still paid.
    `seats`: where the model is split, stages of all nodes that had one since the last full
    synchronisation, for the next round; empty where this round is one. `weights`: by node, those
    that paths were drawn by, also of nodes that are away; empty in a job that draws all alike.
    `invalid`: the job's earlier work that was invalid when this round opened.
    """

    manifest: Manifest
    step: int
    carry_in: tuple[Range, ...]
    cursor_in: int
    epoch: Epoch | None = None
    earlier: tuple[Mapping[int, int], ...] = ()
    seats: Mapping[int, int] = field(default_factory=dict)
    weights: Mapping[int, int] = field(default_factory=dict)
    invalid: Marks = frozenset()

    @property
    def handed_out(self) -> int:
        """Passes of all stages that this round and those that are still paid handed out. A round in
        which none counted is not paid any more."""
        if self.epoch is None:
            return 0
        rounds = 1 + sum(any(old.values()) for old in self.earlier)
        return rounds * len(self.epoch.samples) * len(self.epoch.stages)

    def codec_seed(self, codec: Codec, node: int) -> bytes:
        """The public randomness of a node's payload: the round's, or the node's own in the round.

        With one seed for all, payloads of a projecting codec lie in one subspace, where a robust
        merge can compare them; with a seed each, their errors differ and average out in a mean. A
        codec with `own_rounding` is given both, one behind the other.
        """
        shared, own = self.manifest.seed, node_seed(self.manifest.seed, node)
        if getattr(codec, "own_seed", False):
            return own
        return shared + own if getattr(codec, "own_rounding", False) else shared


class Plans:
    """Derives plans; keeps some of those of rounds that can't change any more. All that an older
    one needs is on chain and in the store."""

    def __init__(self, network: Network, models: Models) -> None:
        self._network = network
        self._models = models
        self._plans: Newest[tuple[int, int, bytes], Plan] = Newest(_KEPT)

    def of(self, view: View) -> Plan | None:
        """The newest round's plan, None while its seed is not known yet."""
        seed = self._network.seed(view.job_id, view.round_id, view.round)
        if seed is None:
            return None
        place = view.job_id, view.round_id
        return self._plans.of(
            (*place, seed), lambda: self._make(*place, view.round, seed, view.snapshot)
        )

    def past(self, job_id: int, round_id: int) -> Plan:
        """The plan of a round that is over; its seed is in the chain's storage."""
        round_ = self._network.round(job_id, round_id)
        seed = round_.seed

        def make() -> Plan:
            snapshot = self._network.snapshot(job_id, round_id, round_)
            return self._make(job_id, round_id, round_, seed, snapshot)

        return self._plans.of((job_id, round_id, seed), make)

    def _make(
        self, job_id: int, round_id: int, round_: Round, seed: bytes, snapshot: Snapshot
    ) -> Plan:
        job = self._models.job(job_id)
        step = self._step_of(job_id, round_id)
        left = Left()
        if step:
            left = self._left_by(
                job_id, step, job, self._network.marks_at(job_id, round_id, round_)
            )
        return planned(job, (job_id, round_id), seed, snapshot.nodes, snapshot.weights, step, left)

    def _step_of(self, job_id: int, round_id: int) -> int:
        """Number of rounds finalized before a round."""
        step = self._network.ledger_length(job_id)
        while step and self._network.ledger_entry(job_id, step - 1).round_id >= round_id:
            step -= 1
        return step

    def _left_by(self, job_id: int, step: int, job: JobContext, invalid: Marks) -> Left:
        """What the first `step` finalized rounds leave to a round, by what was `invalid` then."""
        entry = self._network.ledger_entry(job_id, step - 1)
        number = entry.round_id
        report = self._models.report(entry.report)
        round_ = self._network.round(job_id, number)
        snapshot = self._network.snapshot(job_id, number, round_)
        carried = Left(tuple(report.carry_in), report.cursor_in)
        if job.slices is not None:
            seats, declared = self._seats(job_id, step - 1, job), self._declared(job_id, step - 1)
            carried = replace(carried, seats=seats, declared=declared)
        nodes, weights = snapshot.nodes, snapshot.weights
        before = planned(job, (job_id, number), round_.seed, nodes, weights, step - 1, carried)
        left = left_by(before, done_in(job, report) - nodes_of(invalid, number))
        earlier = self._earlier(job_id, step, gamma_of(job), invalid)
        seats = self._seats(job_id, step, job)
        return replace(left, earlier=earlier, seats=seats, invalid=invalid).told(report)

    def _seats(self, job_id: int, step: int, job: JobContext) -> Mapping[int, int]:
        """The seats since the last full synchronisation among the first `step` finalized rounds."""
        seats: Mapping[int, int] = {}
        if job.slices is None:
            return seats
        for index in range(step - step % job.spec.full_every, step):
            number = self._network.ledger_entry(job_id, index).round_id
            round_ = self._network.round(job_id, number)
            nodes = self._network.snapshot(job_id, number, round_).nodes
            declared = self._declared(job_id, index)
            seats = seated(job, round_.seed, nodes, facts_of(job, seats, declared))
        return seats

    def _declared(self, job_id: int, step: int) -> Mapping[int, int]:
        """The memory that nodes declared in the newest of the first `step` finalized rounds."""
        if step == 0:
            return {}
        return self._models.report(self._network.ledger_entry(job_id, step - 1).report).declared()

    def _earlier(
        self, job_id: int, step: int, gamma: int, invalid: Marks
    ) -> tuple[Mapping[int, int], ...]:
        """Passes of the newest of the first `step` finalized rounds, which are still paid."""
        found = []
        for index in range(max(0, step - gamma + 1), step):
            entry = self._network.ledger_entry(job_id, index)
            report = self._models.report(entry.report)
            found.append(report.delivered(nodes_of(invalid, entry.round_id)))
        return tuple(found)


@dataclass(frozen=True)
class Left:
    """What finalized rounds leave to the next: missed ranges, the first batch that was never handed
    out, `Plan.earlier`, `Plan.seats`, `Plan.invalid`, and what the newest of their reports says of
    nodes: the memory that they declared, and `Plan.weights` of the next round."""

    carry: tuple[Range, ...] = ()
    cursor: int = 0
    earlier: tuple[Mapping[int, int], ...] = ()
    seats: Mapping[int, int] = field(default_factory=dict)
    declared: Mapping[int, int] = field(default_factory=dict)
    weights: Mapping[int, int] = field(default_factory=dict)
    invalid: Marks = frozenset()

    def told(self, report: RoundReport) -> Left:
        """The same with what the newest round's report says of nodes."""
        return replace(self, declared=report.declared(), weights=dict(report.weights or ()))


def done_in(job: JobContext, report: RoundReport) -> set[int]:
    """Nodes whose batches of a round are not handed out again.

    Where nodes are paid for what they show and few of them are merged, that is whoever sent a good
    payload: a node that was handed its batches again could show the same work again.
    """
    return report.accepted() if job.verification.scored_unmerged else report.merged()


def facts_of(
    job: JobContext,
    known: Mapping[int, int],
    declared: Mapping[int, int],
    weights: Mapping[int, int] | None = None,
) -> seating.Facts:
    """What decides about seats and paths besides seed and snapshot. `weights`: see `Left`."""
    assert job.spec.pipeline is not None
    facts = seating.Facts(known)
    if job.spec.pipeline.declared_memory:
        facts = replace(facts, declared=declared, needs=job.stages_need)
    if job.spec.measured_paths:
        facts = replace(facts, weights=weights or {})
    return facts


def seated(
    job: JobContext, seed: bytes, nodes: Sequence[int], facts: seating.Facts
) -> Mapping[int, int]:
    """The seats that are known after a round: its own, and those of nodes that were away. Where too
    few nodes came nothing is new."""
    assert job.slices is not None
    try:
        return {**facts.known, **seating.seats_of(seed, nodes, job.slices.last + 1, facts)}
    except Unseated:
        return facts.known


def gamma_of(job: JobContext) -> int:
    """In how many rounds a backward pass is paid."""
    return job.score.gamma if isinstance(job.score, BackwardPasses) else 1


def planned(
    job: JobContext,
    place: tuple[int, int],
    seed: bytes,
    nodes: Sequence[int],
    weights: Sequence[int],
    step: int,
    left: Left,
) -> Plan:
    """A round's plan, by what everyone knows.

    Args:
        place: job and round.
        nodes, weights: of the snapshot.
        left: by the finalized rounds before.

    Raises:
        ValueError: as `assign`.
    """
    carry, cursor = left.carry, left.cursor
    if job.slices is None:
        manifest = assign(seed, nodes, weights, job.spec, carry, cursor)
        return Plan(manifest, step, carry, cursor, invalid=left.invalid)
    samples = range(cursor, cursor + job.spec.batches_per_round)
    facts = facts_of(job, left.seats, left.declared, left.weights)
    seats = {} if job.spec.is_full(step) else seated(job, seed, nodes, facts)
    told = left.earlier, seats, left.weights, left.invalid
    try:
        epoch = seating.epoch_of(*place, seed, nodes, samples, job.slices.last + 1, facts)
        manifest = seating.manifest(seed, nodes, weights, job.spec, cursor, facts)
    except Unseated:
        empty = Manifest(seed, (), (), cursor)
        return Plan(empty, step, carry, cursor, None, *told)
    return Plan(manifest, step, carry, cursor, epoch, *told)


def left_by(plan: Plan, merged: Iterable[int]) -> Left:
    """What a finalized round leaves to the next, without `earlier` and what the report says of
    nodes.

    `merged`: nodes whose payload counts. Of a split model nothing is missed: each sample is done by
    whoever still can, and what nobody did is not handed out again.
    """
    if plan.epoch is not None:
        return Left((), plan.manifest.cursor, seats=plan.seats)
    return Left(*next_carry(plan.manifest, merged))
