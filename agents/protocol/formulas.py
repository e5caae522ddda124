# SPDX-License-Identifier: Apache-2.0
"""What the contracts compute, computed again from their definitions: every digest and amount.

Rule: each function is one formula of one contract, written from its NatSpec and source with no
call to the chain, and nothing else in `agents/` or `scripts/` writes that formula again. What a
slash costs is in `agents.protocol.slashing`, the consensus of scores in `agents.protocol.median`.
Digests are made here and not by the contracts' views also because whoever serves the chain would
learn a secret before its time. Amounts are in 1e-18 ZOO, digests 32 bytes, integers as the
contract's unsigned ones; tests hold each function against the contract itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from agents.protocol.numbers import BPS

COMMIT_DOMAIN = keccak(text="menagerie.TrainingRounds.commit.v1")
SEATS_DOMAIN = keccak(text="menagerie.TrainingRounds.seats.v1")
ANNOUNCE_DOMAIN = keccak(text="menagerie.announcements.v1")
SCORE_DOMAIN = keccak(text="menagerie.ScoreConsensus.commit.v1")
TASK_COMMIT_DOMAIN = keccak(text="menagerie.RedundantTasks.commit.v1")
BENCHMARK_SEED_DOMAIN = keccak(text="Menagerie NodeRegistry benchmark seed")
BENCHMARK_CHECK_DOMAIN = keccak(text="Menagerie NodeRegistry benchmark check")
TASK_TAG_DOMAIN = keccak(text="menagerie.RedundantTasks.tag.v1")

UNAVAILABLE = keccak(text="menagerie.RedundantTasks.unavailable.v1")
"""The result of an executor that could not get its task's inputs; there is no payload."""


def _hash(kinds: Sequence[str], values: Sequence[Any]) -> bytes:
    """keccak256(abi_encode(...))."""
    return keccak(encode(kinds, values))


# -- commitments -------------------------------------------------------------------------------


def round_commitment(
    chain_id: int,
    contract: str,
    place: tuple[int, int, int],
    operator: str,
    parts: tuple[bytes, bytes, bytes, bytes],
) -> bytes:
    """TrainingRounds.commitment_digest: a trainer's commitment to its work.

    Args:
        contract: address of TrainingRounds.
        place: job, round and node.
        parts: input root, content, trace root and salt.
    """
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    values = [COMMIT_DOMAIN, chain_id, contract, *place, operator]
    return _hash([*kinds, *["bytes32"] * 4], [*values, *parts])


def opened(content: bytes, trace_root: bytes) -> bytes:
    """What TrainingRounds keeps in place of a commitment once it is revealed."""
    return _hash(["bytes32", "bytes32"], [content, trace_root])


def score_commitment(
    chain_id: int,
    contract: str,
    place: tuple[int, int, int],
    operator: str,
    scores: Sequence[int],
    record: bytes,
    salt: bytes,
) -> bytes:
    """ScoreConsensus.scores_digest: a validator's commitment to its scores.

    Args:
        contract: address of ScoreConsensus.
        place: job, round and verifier.
        scores: in the order of the round's snapshot.
        record: digest of the published record behind them.
    """
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    values = [SCORE_DOMAIN, chain_id, contract, *place, operator]
    return _hash([*kinds, "uint256[]", "bytes32", "bytes32"], [*values, list(scores), record, salt])


def announcement(
    chain_id: int, contract: str, place: tuple[int, int], what: int, finder: int, evidence: bytes
) -> bytes:
    """modules/announcements: what a finder announces before it reports or challenges.

    Args:
        contract: address of ViolationReports or TrainingResults.
        place: job and round.
        what: the node's id, or the result's hash as a number.
        finder: the verifier's id, or the challenger's address as a number.
        evidence: digest of the evidence, which nobody else can guess.
    """
    kinds = ["bytes32", "uint256", "address", *["uint256"] * 4, "bytes32"]
    values = [ANNOUNCE_DOMAIN, chain_id, contract, *place, what, finder, evidence]
    return _hash(kinds, values)


def task_tag(chain_id: int, contract: str, task_id: int, result: bytes) -> bytes:
    """RedundantTasks.tag_of: what is committed to and revealed instead of a task's result."""
    kinds = ["bytes32", "uint256", "address", "uint256", "bytes32"]
    return _hash(kinds, [TASK_TAG_DOMAIN, chain_id, contract, task_id, result])


def task_commitment(
    chain_id: int,
    contract: str,
    place: tuple[int, int],
    operator: str,
    parts: tuple[bytes, bytes, bytes],
) -> bytes:
    """RedundantTasks.commitment_digest: an executor's commitment to its result.

    Args:
        contract: address of RedundantTasks.
        place: task and node.
        parts: the task's spec, the tag of the result, and a salt.
    """
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "address"]
    values = [TASK_COMMIT_DOMAIN, chain_id, contract, *place, operator]
    return _hash([*kinds, *["bytes32"] * 3], [*values, *parts])


def commit_place(job_id: int, round_id: int, node_id: int, seen: tuple[int, bytes]) -> int:
    """The word that says in TrainingRounds.commit_on whose commitment it is, and on which chain.

    `seen`: number and hash of the block of the round's seed, or of a later one.
    """
    number, digest = seen
    ids = job_id << 192 | round_id << 128 | node_id << 104
    return ids | (number & 255) << 96 | int.from_bytes(digest[-12:], "big")


# -- keys, seeds and ids -----------------------------------------------------------------------


def round_key(job_id: int, round_id: int) -> bytes:
    """The contracts' _key: names a round, and its seed."""
    return _hash(["uint256", "uint256"], [job_id, round_id])


def audit_key(key: bytes) -> bytes:
    """TrainingResults._audit_key: names the audit seed of the round of `key`."""
    return _hash(["bytes32"], [key])


def seed(value: bytes, key: bytes, chain_id: int, contract: str) -> bytes:
    """modules/randomness: the seed of `key` from its block's hash, or its source's value."""
    return _hash(["bytes32", "bytes32", "uint256", "address"], [value, key, chain_id, contract])


def report_id(job_id: int, round_id: int, node_id: int, violation: int) -> bytes:
    """ViolationReports._report_id."""
    return _hash(["uint256"] * 4, [job_id, round_id, node_id, violation])


def benchmark_seed_key(node_id: int, attempt: int) -> bytes:
    """NodeBenchmarks._seed_key: names the seed that an attempt's work begins with."""
    kinds = ["bytes32", "uint256", "uint256"]
    return _hash(kinds, [BENCHMARK_SEED_DOMAIN, node_id, attempt])


def benchmark_check_key(node_id: int, attempt: int) -> bytes:
    """NodeBenchmarks._draw_key: names the seed that draws the checked chunks of an attempt."""
    kinds = ["bytes32", "uint256", "uint256"]
    return _hash(kinds, [BENCHMARK_CHECK_DOMAIN, node_id, attempt])


def task_key(task_id: int) -> bytes:
    """RedundantTasks._key: names a task's draws; their blocks tell them apart."""
    return task_id.to_bytes(32, "big")


def task_seat(draw_seed: bytes, attempt: int, size: int) -> int:
    """modules/executors._pick: the seat that a draw looks at next, of `size` in the pool."""
    return int.from_bytes(_hash(["bytes32", "uint256"], [draw_seed, attempt]), "big") % size


def task_created_at(born: int, at: int) -> int:
    """RedundantTasks._created_at: a time no later than the creation at `born`, nor more than 8
    seconds earlier, as it is seen at a time within six days of it."""
    steps = at // 8
    return (steps - ((steps - (born // 8 & 0xFFFF)) & 0xFFFF)) * 8


def announcement_key(job_id: int, round_id: int, node: int) -> bytes:
    """ViolationReports._scope of a verifier, whose announcement it is; its _subject of a node, what
    it is about."""
    return _hash(["uint256"] * 3, [job_id, round_id, node])


# -- results and the ledger --------------------------------------------------------------------


def snapshot_hash(nodes: Sequence[int], weights: Sequence[int]) -> bytes:
    """keccak256(abi_encode(nodes, weights)), as TrainingRounds keeps it of a snapshot."""
    return _lists_hash(nodes, weights)


def seated(
    round_seed: bytes, nodes: Sequence[int], scores: Sequence[int], seats: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """TrainingRounds.seat: which candidates are drawn, and their scores, in the given order."""
    number = _hash(["bytes32", "bytes32"], [SEATS_DOMAIN, round_seed])
    drawn: list[tuple[int, int]] = []
    for index, pair in enumerate(zip(nodes, scores, strict=True)):
        if int.from_bytes(number, "big") % (len(nodes) - index) < seats - len(drawn):
            drawn.append(pair)
        number = keccak(number)
    return tuple(node for node, _ in drawn), tuple(score for _, score in drawn)


def contributions_hash(nodes: Sequence[int], contributions: Sequence[int]) -> bytes:
    """keccak256(abi_encode(nodes, contributions)), of a proposed result; the ledger's scores
    root."""
    return _lists_hash(nodes, contributions)


def contributors_root(nodes: Sequence[int]) -> bytes:
    """keccak256(abi_encode(nodes))."""
    return _hash(["uint256[]"], [list(nodes)])


def result_hash(
    job_id: int,
    round_id: int,
    attempt: int,
    model: bytes,
    update: bytes,
    report: bytes,
    contributions: bytes,
) -> bytes:
    """TrainingResults.propose_result: names a proposed result.

    `attempt` counts from 1; `contributions`: their hash.
    """
    kinds = ["uint256"] * 3 + ["bytes32"] * 4
    return _hash(kinds, [job_id, round_id, attempt, model, update, report, contributions])


def ledger_head(
    before: bytes,
    job_id: int,
    round_id: int,
    prev_model: bytes,
    new_model: bytes,
    contributors: bytes,
    scores: bytes,
    report: bytes,
    reward: int,
    timestamp: int,
) -> bytes:
    """TrainingLedger.record_round: the head after an entry."""
    kinds = ["bytes32", "uint256", "uint256"] + ["bytes32"] * 5 + ["uint256"] * 2
    values = [before, job_id, round_id, prev_model, new_model, contributors, scores, report]
    return _hash(kinds, [*values, reward, timestamp])


def _lists_hash(first: Sequence[int], second: Sequence[int]) -> bytes:
    return _hash(["uint256[]", "uint256[]"], [list(first), list(second)])


# -- amounts -----------------------------------------------------------------------------------


def benchmark_score(units: int, elapsed: int) -> int:
    """Units per million seconds, from the seconds between a benchmark's seed and its answer."""
    return units * 1_000_000 // max(elapsed, 1)


def weight(score: int, expected: int, accepted: int) -> int:
    """A trainer's weight: benchmark score times reliability over its last `HISTORY` rounds, at
    least 1."""
    return max(1, score * (BPS * (1 + accepted) // (1 + expected)) // BPS)


@dataclass(frozen=True)
class Split:
    """How a round's pool is paid. `cuts`: (node, amount) in order, the proposer's first.

    `trainer_amount`: left after the cuts. `total`: what all parts are parts of. `parts`: of the
    trainers that are paid. `shares`: amount by trainer.
    """

    cuts: tuple[tuple[int, int], ...]
    trainer_amount: int
    total: int
    parts: dict[int, int]
    shares: dict[int, int]

    @property
    def paid(self) -> int:
        """Everything credited."""
        return sum(amount for _, amount in self.cuts) + sum(self.shares.values())


def split(
    reward: int,
    verifier_bps: int,
    aggregator_bps: int,
    proposer: int,
    attesters: Mapping[int, int],
    contributions: Mapping[int, int],
    factors: Mapping[int, int] | None = None,
    scores: Mapping[int, int] | None = None,
    for_trainers: int = 0,
) -> Split:
    """TrainingResults._pay_cuts and RewardPool: the pool of a finalized round.

    Args:
        reward: the whole pool, in 1e-18 ZOO: the reward of a round and what earlier rounds carried.
        attesters: weight by verifier, in the order of attestation.
        contributions: of the nodes that the result names, and the parts of all that is paid.
        factors: of a job that adopted ScoreConsensus: what the cut of each attester counts, in
            1/10,000.
        scores: by node, if scores pay the round: its consensus, or, of the nodes that the result
            names, the newest one before it.
        for_trainers: the part of the pool that no cut is taken of.
    """
    cut_from = reward - for_trainers
    for_verifiers = cut_from * verifier_bps // BPS
    attested = sum(attesters.values())
    own = {node: for_verifiers * stake // attested for node, stake in attesters.items()}
    verifiers = own if factors is None else shared_cuts(own, factors)
    cuts = [(proposer, cut_from * aggregator_bps // BPS), *verifiers.items()]
    left = reward - sum(amount for _, amount in cuts)
    paid = contributions if scores is None else dict(sorted(scores.items()))
    parts = {node: part for node, part in paid.items() if part}
    total = sum(parts.values())
    shares = {node: left * part // total for node, part in parts.items()}
    return Split(tuple(cuts), left, total, parts, shares)


def shared_cuts(cuts: Mapping[int, int], factors: Mapping[int, int]) -> dict[int, int]:
    """RewardPool.start_distribution: those whose factor is not zero share their cuts in proportion
    to cut and factor; the others have none."""
    counted = sum(cut for node, cut in cuts.items() if factors[node])
    weighed = sum(cut * factors[node] for node, cut in cuts.items())
    return {
        node: cut * factors[node] * counted // weighed if weighed else 0
        for node, cut in cuts.items()
    }


def fee_shares(fee: int) -> tuple[int, int]:
    """RedundantTasks._pay: what the two executors of an agreed task get of its fee: the one whose
    lane is AGREED, and the one that opened the result."""
    return fee // 2, fee - fee // 2
