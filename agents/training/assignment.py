# SPDX-License-Identifier: Apache-2.0
"""Who trains on what: a pure function of the round's seed, its snapshot and the spec.

Every party derives the same manifest from the chain and the previous report, so no scheduler has
to be trusted or asked. Ranges are half-open (first, last) pairs of batch numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from agents.mechanisms import verify
from agents.storage.canonical import dumps
from agents.training.spec import Hyperparameters, JobSpec

Range = tuple[int, int]
Ranges = tuple[Range, ...]


@dataclass(frozen=True)
class Assignment:
    """One node's share of a round."""

    node: int
    weight: int
    ranges: Ranges
    rng_seed: bytes

    @property
    def batches(self) -> int:
        """Number of batches, which is the number of local steps H."""
        return size(self.ranges)


@dataclass(frozen=True)
class Manifest:
    """The whole round: assignments by ascending node, what stays carried, the next new batch."""

    seed: bytes
    assignments: tuple[Assignment, ...]
    carry: Ranges
    cursor: int

    def of(self, node: int) -> Assignment | None:
        """The node's assignment; None if it was not in the snapshot."""
        return next((a for a in self.assignments if a.node == node), None)

    def hash(self) -> bytes:
        """keccak256 of the canonical JSON of every field."""
        rows = [
            [a.node, a.weight, [list(r) for r in a.ranges], a.rng_seed.hex()]
            for a in self.assignments
        ]
        carry = [list(r) for r in self.carry]
        fields = {"seed": self.seed.hex(), "nodes": rows, "carry": carry, "cursor": self.cursor}
        return keccak(dumps(fields))


@dataclass(frozen=True)
class WorkOrder:
    """What one trainer does in one round (ZIP-407).

    Attributes:
        task_id: 32 bytes, keccak of (job, round, node).
        model_id: hash of the model to start from, 32 bytes.
        epoch: round number, from 0.
        rng_seed: 32 bytes, the node's own.
    """

    task_id: bytes
    job_id: int
    model_id: bytes
    epoch: int
    node: int
    batch_ranges: Ranges
    hyperparameters: Hyperparameters
    rng_seed: bytes

    @property
    def steps(self) -> int:
        """H: one local step per batch."""
        return size(self.batch_ranges)

    def batches(self) -> list[int]:
        """The batch numbers in the order of training."""
        return [index for first, last in self.batch_ranges for index in range(first, last)]


def size(ranges: Iterable[Range]) -> int:
    """Number of batches in the ranges."""
    return sum(last - first for first, last in ranges)


def normalise(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Sorted, joined where they touch; ValueError if one is empty, negative or overlaps."""
    joined: list[Range] = []
    for first, last in sorted((int(first), int(last)) for first, last in ranges):
        if not 0 <= first < last:
            raise ValueError(f"the batch range {first}..{last} is empty or negative")
        if joined and first < joined[-1][1]:
            raise ValueError(f"the batch ranges overlap at {first}")
        if joined and first == joined[-1][1]:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def _take(ranges: Ranges, count: int) -> tuple[Ranges, Ranges]:
    """The first ``count`` batches, and the rest."""
    taken: list[Range] = []
    rest: list[Range] = []
    for first, last in ranges:
        middle = min(last, first + count)
        count -= middle - first
        if first < middle:
            taken.append((first, middle))
        if middle < last:
            rest.append((middle, last))
    return tuple(taken), tuple(rest)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Split ``total`` by weight with the largest remainder method, exactly in integers.

    Ties go to the lower index; all-zero weights count as equal. While there are at least as many
    as nodes, everyone gets one: whoever's share would round to zero gets one, and the rest is
    split among the others. Each count then is less than 1 away from its exact share of that rest.
    """
    if sum(weights) == 0:
        weights = [1] * len(weights)
    counts = largest_remainder(total, weights)
    raised: set[int] = set()
    while total >= len(weights) and 0 in counts:
        raised |= {index for index, count in enumerate(counts) if count == 0}
        others = [0 if index in raised else weight for index, weight in enumerate(weights)]
        counts = largest_remainder(total - len(raised), others)
        for index in raised:
            counts[index] = 1
    return counts


def largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of ``total`` in proportion to ``weights``; they add up to it.

    What rounding down leaves goes to the largest remainders, one each, ties to the lower index. A
    weight of 0 gets 0, and so does everyone where all weights are 0.
    """
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    counts = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in order[: total - sum(counts)]:
        counts[index] += 1
    return counts


def assign(
    seed: bytes,
    nodes: Sequence[int],
    weights: Sequence[int],
    spec: JobSpec,
    carry: Iterable[Sequence[int]] = (),
    cursor: int = 0,
) -> Manifest:
    """The round's manifest.

    Where the job's verification demands equal shares (``gauntlet`` does), weights don't count and
    all get equally many (`equal_share`): nodes are compared there, so a remainder would favour
    whoever has a low id, and who had none could show nothing. One that can do more may do so
    unasked.

    Args:
        seed: the round's 32-byte seed from the chain.
        nodes: ids of the eligible trainers, in any order.
        weights: benchmark x reliability of each, >= 0.
        spec: its ``batches_per_round`` are handed out, or fewer where shares are equal.
        carry: ranges that earlier rounds missed; they go first. What exceeds the round's
            batches stays in ``Manifest.carry``.
        cursor: first batch number never handed out.

    Raises:
        ValueError: no nodes, a node twice, a bad weight, seed, range or cursor.
    """
    if len(seed) != 32:
        raise ValueError(f"the round seed has 32 bytes, got {len(seed)}")
    if not nodes or len(set(nodes)) != len(nodes) or len(nodes) != len(weights):
        raise ValueError("assign needs at least one node, each once, with one weight each")
    if min(weights) < 0 or min(nodes) < 1:
        raise ValueError("weights must not be negative and node ids start at 1")
    total = spec.batches_per_round
    if verify.get(spec.verify).equal_shares:
        weights = [1] * len(nodes)
        total = equal_share(spec, len(nodes)) * len(nodes)
    missed = normalise(carry)
    if missed and missed[-1][1] > cursor:
        raise ValueError(f"a carried range ends at {missed[-1][1]}, beyond the cursor {cursor}")
    taken, left = _take(missed, total)
    fresh = total - size(taken)
    pool = (*taken, (cursor, cursor + fresh)) if fresh else taken
    pairs = sorted(zip(nodes, weights, strict=True))
    counts = apportion(total, [weight for _, weight in pairs])
    assignments = []
    for (node, weight), count in zip(pairs, counts, strict=True):
        mine, pool = _take(pool, count)
        assignments.append(Assignment(node, weight, normalise(mine), node_seed(seed, node)))
    return Manifest(seed, tuple(assignments), left, cursor + fresh)


def equal_share(spec: JobSpec, nodes: int) -> int:
    """The batches of each of so many nodes where all have equally many: ``batches_per_round`` over
    their number rounded down, or one.

    Never more than validators look for work on. Of a job with more of them, less is done in a round
    while its nodes are few.
    """
    from agents.mechanisms.score.gauntlet import Gauntlet  # loads torch, which few need here

    most = Gauntlet(**dict[str, Any](spec.score_options)).most_assigned
    return max(1, min(spec.batches_per_round // nodes, most))


def node_seed(seed: bytes, node: int) -> bytes:
    """keccak(seed || node): a different 32-byte seed for every node and round."""
    return keccak(seed + node.to_bytes(32, "big"))


def next_carry(manifest: Manifest, accepted: Iterable[int]) -> tuple[Ranges, int]:
    """What the next round starts from: missed ranges and the cursor.

    Args:
        manifest: of the round that ended.
        accepted: nodes whose payload entered the merge.
    """
    done = set(accepted)
    missed = [r for a in manifest.assignments if a.node not in done for r in a.ranges]
    return normalise([*manifest.carry, *missed]), manifest.cursor


def unassigned(manifest: Manifest, node: int, count: int) -> Ranges:
    """``count`` batches that the round hands to nobody, other ones for each node of the manifest.

    They are new ones: each node has a stretch of its own, as long as all that is handed out, after
    the cursor. Later rounds will assign them.

    Raises:
        ValueError: the node is not in the manifest, or ``count`` exceeds its stretch.
    """
    place = manifest.assignments.index(_assignment(manifest, node))
    stretch = sum(assignment.batches for assignment in manifest.assignments)
    if not 0 <= count <= stretch:
        raise ValueError(f"{count} extra batches; from 0 to {stretch} may be taken")
    first = manifest.cursor + place * stretch
    return ((first, first + count),) if count else ()


def input_root(manifest: Manifest, node: int, previous_model: bytes) -> bytes:
    """keccak256 over everything the node's result depends on; part of its commitment.

    abi_encode(seed, previous model hash, manifest hash, node, ranges as uint256[2][], rng seed).

    Raises:
        ValueError: the node has no task in this manifest.
    """
    mine = _assignment(manifest, node)
    types = ["bytes32", "bytes32", "bytes32", "uint256", "uint256[2][]", "bytes32"]
    values = [manifest.seed, previous_model, manifest.hash(), node, mine.ranges, mine.rng_seed]
    return keccak(encode(types, values))


def task_id(job_id: int, round_number: int, node: int) -> bytes:
    """keccak256(abi_encode(job, round, node))."""
    return keccak(encode(["uint256"] * 3, [job_id, round_number, node]))


def work_order(
    manifest: Manifest,
    node: int,
    spec: JobSpec,
    job_id: int,
    round_number: int,
    model_id: bytes,
) -> WorkOrder:
    """The node's task. ``round_number`` counts from 0 and decides the learning rate.

    Raises:
        ValueError: the node is not in the manifest.
    """
    mine = _assignment(manifest, node)
    return WorkOrder(
        task_id=task_id(job_id, round_number, node),
        job_id=job_id,
        model_id=model_id,
        epoch=round_number,
        node=node,
        batch_ranges=mine.ranges,
        hyperparameters=Hyperparameters.of(spec, round_number),
        rng_seed=mine.rng_seed,
    )


def _assignment(manifest: Manifest, node: int) -> Assignment:
    mine = manifest.of(node)
    if mine is None:
        raise ValueError(f"node {node} is not in this round's manifest")
    return mine
