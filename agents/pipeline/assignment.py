# SPDX-License-Identifier: Apache-2.0
"""A round of a pipeline: which node holds which stage, and which samples it is the first to do.

The manifest has the form that every round has. What of a payload's commitment depends on it
(`agents.training.assignment.input_root`, task ids) then holds for a pipeline as it is. A sample is
assigned once in every stage, so ranges of nodes of different stages overlap. What nobody did is not
carried into a later round: samples have no value of their own here, only passes are paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.pipeline.epoch import Epoch
from agents.pipeline.lots import word
from agents.pipeline.pace import weights_of
from agents.pipeline.seats import Miner, Unseated, refill, seat
from agents.training.assignment import Assignment, Manifest, node_seed, normalise
from agents.training.spec import JobSpec


@dataclass(frozen=True)
class Facts:
    """What decides about seats and paths besides seed and snapshot.

    Attributes:
        known: stages of nodes since the last full synchronisation, also of those that are away.
        declared: bytes of free memory, by node, as the newest finalized round's report has them.
        needs: bytes of memory that each stage needs; empty where the job does not ask for memory,
            and all count as equal.
        weights: by node, as that report has them, which samples' paths are drawn by; None where
            all miners of a stage count alike.
    """

    known: Mapping[int, int] = field(default_factory=dict)
    declared: Mapping[int, int] = field(default_factory=dict)
    needs: tuple[int, ...] = ()
    weights: Mapping[int, int] | None = None


NOTHING = Facts()


def seats_of(
    seed: bytes, nodes: Sequence[int], stages: int, facts: Facts = NOTHING
) -> dict[int, int]:
    """The stage of each node that can hold one.

    Who had a seat since the last full synchronisation keeps it. Who comes in between is seated at
    once where fewest are, those that are away among them, since a stage's weights are public after
    every round. A stage that lost its last miner gets one of the others.

    A node that declared less memory than a stage needs is not seated there. One that declared
    nothing is taken to have enough for the stages of the least need. If so the stages can't all be
    held, as in the first round, it is taken to have enough for any.

    Args:
        seed: of the round, 32 bytes, drawn after the snapshot.
        nodes: ids of the snapshot, in any order.
        stages: of the model.

    Raises:
        Unseated: fewer nodes than stages, or too few with enough memory.
        ValueError: a node twice, a bad seed, or too many nodes or stages.
    """
    if len(nodes) < stages:
        raise Unseated(
            f"{len(nodes)} nodes can't hold the {stages} stages of the model: each holds one."
        )
    needs = list(facts.needs) or [1] * stages
    if not facts.needs:
        return _seated(seed, [Miner(node, memory=1) for node in nodes], needs, facts.known)
    for silent in (min(needs), max(needs)):
        everybody = [Miner(node, facts.declared.get(node, silent)) for node in nodes]
        try:
            return _seated(seed, everybody, needs, facts.known)
        except Unseated as error:
            last = error
    raise last


def _seated(
    seed: bytes, miners: Sequence[Miner], needs: Sequence[int], known: Mapping[int, int]
) -> dict[int, int]:
    if not known:
        return seat(seed, miners, needs)
    fits = {one.id: [s for s, need in enumerate(needs) if need <= one.memory] for one in miners}
    able = [one for one in miners if fits[one.id]]
    seats = {one.id: known[one.id] for one in able if known.get(one.id) in fits[one.id]}
    # Who rests has left no gap: else friends who come and rest in turn would all get one stage.
    staff = [list({**known, **seats}.values()).count(stage) for stage in range(len(needs))]
    late = [one.id for one in able if one.id not in seats]
    order = sorted(late, key=lambda one: (len(fits[one]), word(seed, "late order", one), one))
    for node in order:
        fewest = min(staff[stage] for stage in fits[node])
        least = [stage for stage in fits[node] if staff[stage] == fewest]
        seats[node] = least[word(seed, "late seat", node) % len(least)]
        staff[seats[node]] += 1
    return refill(seed, seats, (), able, needs)


def epoch_of(
    job_id: int,
    round_id: int,
    seed: bytes,
    nodes: Sequence[int],
    samples: range,
    stages: int,
    facts: Facts = NOTHING,
) -> Epoch:
    """The epoch of a round.

    Args:
        job_id, round_id: whose epoch it is; neither decides who holds what.
        samples: numbers of the batches that the round hands out.
        seed, nodes, stages, facts: see `seats_of`.

    Raises:
        Unseated, ValueError: as `seats_of`.
    """
    seats = dict(sorted(seats_of(seed, nodes, stages, facts).items()))
    staff = (tuple(n for n, held in seats.items() if held == stage) for stage in range(stages))
    weights = () if facts.weights is None else weights_of(seats, facts.weights)
    return Epoch(job_id, round_id, seed, tuple(staff), samples, weights)


def manifest(
    seed: bytes,
    nodes: Sequence[int],
    weights: Sequence[int],
    spec: JobSpec,
    cursor: int,
    facts: Facts = NOTHING,
) -> Manifest:
    """The round's manifest: each node has the samples that it is the first to do, by its stage.

    The samples are `batches_per_round` new ones from the cursor; the manifest's cursor lies behind
    them, and it carries nothing.

    Args:
        seed: of the round, 32 bytes.
        nodes: ids of the snapshot, from 1, in any order.
        weights: of each node, at least 0. They are kept, and don't count: who does a sample is
            drawn by `facts` alone.
        spec: of a model that is split.
        cursor: first batch number never handed out.
        facts: see `seats_of`.

    Raises:
        Unseated: fewer nodes than stages.
        ValueError: as `epoch_of`, a bad weight, id or cursor, or a spec whose model is whole.
    """
    if spec.pipeline is None:
        raise ValueError("The model of this job is not split into stages.")
    if len(nodes) != len(weights) or min([0, *weights]) < 0 or min([1, *nodes]) < 1 or cursor < 0:
        raise ValueError("Each node has an id from 1 and a weight from 0; the cursor is from 0.")
    end = cursor + spec.batches_per_round
    epoch = epoch_of(0, 0, seed, nodes, range(cursor, end), len(spec.pipeline.layers), facts)
    due: dict[int, list[tuple[int, int]]] = {node: [] for node in sorted(nodes)}
    for stage in range(epoch.last + 1):
        for sample in epoch.samples:
            due[epoch.first(sample, stage)].append((sample, sample + 1))
    weight = dict(zip(nodes, weights, strict=True))
    assignments = tuple(
        Assignment(node, weight[node], normalise(samples), node_seed(seed, node))
        for node, samples in due.items()
    )
    return Manifest(seed, assignments, (), end)
