# SPDX-License-Identifier: Apache-2.0
"""What the contracts compute, computed again from their definitions.

Rule: each function is one formula of one contract, written from its NatSpec and source with no
call to the chain, so an audit agrees with a contract only if both are right. Amounts are in 1e-18
ZOO, digests 32 bytes, integers as the contract's unsigned ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eth_abi.abi import encode
from eth_utils.crypto import keccak

COMMIT_DOMAIN = keccak(text="menagerie.TrainingRounds.commit.v1")
SCORE_DOMAIN = keccak(text="menagerie.ScoreConsensus.commit.v1")
BPS = 10_000
SCALE = 65_535  # 1.0 of a score
HISTORY = 8  # rounds that count towards reliability
STRIKES_TO_BAN = 3
RING = 16  # stake additions that a node is remembered for


def commitment(
    chain_id: int,
    rounds: str,
    job_id: int,
    round_id: int,
    node_id: int,
    operator: str,
    input_root: bytes,
    content: bytes,
    trace_root: bytes,
    salt: bytes,
) -> bytes:
    """TrainingRounds._commitment."""
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    values = [COMMIT_DOMAIN, chain_id, rounds, job_id, round_id, node_id, operator]
    return keccak(
        encode([*kinds, *["bytes32"] * 4], [*values, input_root, content, trace_root, salt])
    )


def opened(content: bytes, trace_root: bytes) -> bytes:
    """What TrainingRounds keeps in place of a commitment once it is revealed."""
    return keccak(encode(["bytes32", "bytes32"], [content, trace_root]))


def round_key(job_id: int, round_id: int) -> bytes:
    """TrainingRounds._key: names a round, and its seed."""
    return keccak(encode(["uint256", "uint256"], [job_id, round_id]))


def audit_key(key: bytes) -> bytes:
    """TrainingRounds._audit_key: names the audit seed of the round of `key`."""
    return keccak(encode(["bytes32"], [key]))


def seed(value: bytes, key: bytes, chain_id: int, contract: str) -> bytes:
    """modules/randomness: the seed of `key` from its block's hash, or its source's value."""
    return keccak(
        encode(["bytes32", "bytes32", "uint256", "address"], [value, key, chain_id, contract])
    )


def lists_hash(first: Sequence[int], second: Sequence[int]) -> bytes:
    """keccak256(abi_encode(two lists)): of a snapshot, and of contributions (the scores root)."""
    return keccak(encode(["uint256[]", "uint256[]"], [list(first), list(second)]))


def contributors_root(nodes: Sequence[int]) -> bytes:
    """keccak256(abi_encode(nodes))."""
    return keccak(encode(["uint256[]"], [list(nodes)]))


def result_hash(
    job_id: int,
    round_id: int,
    attempt: int,
    model: bytes,
    update: bytes,
    report: bytes,
    contributions: bytes,
) -> bytes:
    """TrainingRounds.propose_result: names a proposed result. `attempt` counts from 1."""
    return keccak(
        encode(
            ["uint256"] * 3 + ["bytes32"] * 4,
            [job_id, round_id, attempt, model, update, report, contributions],
        )
    )


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
    return keccak(encode(kinds, [*values, reward, timestamp]))


def report_id(job_id: int, round_id: int, node_id: int, violation: int) -> bytes:
    """ViolationReports._report_id."""
    return keccak(encode(["uint256"] * 4, [job_id, round_id, node_id, violation]))


def score(units: int, elapsed: int) -> int:
    """NodeBenchmarks._settle: units per million seconds."""
    return units * 1_000_000 // max(elapsed, 1)


def weight(score: int, expected: int, accepted: int) -> int:
    """A trainer's weight: benchmark score times reliability over its last 8 rounds, at least 1."""
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
) -> Split:
    """TrainingRounds._pay_cuts and RewardPool: the pool of a finalized round.

    Args:
        attesters: weight by verifier, in the order of attestation.
        contributions: of the nodes that are paid, without the invalid ones.
        factors: of a job that adopted ScoreConsensus: the part of its cut that each attester
            earns, in 1/10,000.
        scores: of a scored round: the consensus by node, which stands for the contributions of
            those that have one. Its sum, over all nodes, is the total.
    """
    for_verifiers = reward * verifier_bps // BPS
    attested = sum(attesters.values())
    cuts = [(proposer, reward * aggregator_bps // BPS)]
    for node, stake in attesters.items():
        cut = for_verifiers * stake // attested
        cuts.append((node, cut if factors is None else cut * factors[node] // BPS))
    left = reward - sum(amount for _, amount in cuts)
    parts = {node: part for node, part in contributions.items() if part}
    total = sum(parts.values())
    if scores is not None:
        parts = {node: scores.get(node, 0) for node in parts}
        total = sum(scores.values())
    shares = {node: left * part // total for node, part in parts.items()}
    return Split(tuple(cuts), left, total, parts, shares)


def scores_digest(
    chain_id: int,
    contract: str,
    job_id: int,
    round_id: int,
    verifier: int,
    operator: str,
    scores: Sequence[int],
    record: bytes,
    salt: bytes,
) -> bytes:
    """ScoreConsensus._digest: the commitment to a vector of scores."""
    kinds = ["bytes32", "uint256", "address", "uint256", "uint256", "uint256", "address"]
    values = [SCORE_DOMAIN, chain_id, contract, job_id, round_id, verifier, operator]
    return keccak(
        encode([*kinds, "uint256[]", "bytes32", "bytes32"], [*values, list(scores), record, salt])
    )


def consensus(rows: Sequence[tuple[int, Sequence[int]]], total: int, nodes: int) -> list[int]:
    """ScoreConsensus.close_scoring: for each node the largest score that half of all stake gave it.

    `rows`: (stake, scores) of the verifiers that revealed. `total`: the stake of all of them,
    revealed or not.
    """
    found = []
    for place in range(nodes):
        values = {0} | {scores[place] for _, scores in rows}
        found.append(
            max(
                value
                for value in values
                if not value
                or 2 * sum(stake for stake, scores in rows if scores[place] >= value) >= total
            )
        )
    return found


def agreement(scores: Sequence[int], agreed: Sequence[int]) -> int:
    """ScoreConsensus.close_scoring: how far a vector is the consensus `agreed`, in 1/10,000."""
    if not any(scores):
        return 0
    common = sum(map(min, scores, agreed))
    return BPS * common // max(sum(scores), sum(agreed))


def trust(before: int | None, newest: int) -> int:
    """ScoreConsensus._move_trust: trust after a scored round; `before` None: its first."""
    return newest if before is None else (7 * before + 3 * newest) // 10


def cut_factor(trust: int, best: int) -> int:
    """ScoreConsensus.cut_factors, of a verifier that revealed in a scored round."""
    return BPS * trust // best if best else BPS


@dataclass(frozen=True)
class Row:
    """A row of the slashing table, as contracts/modules/penalties.vy keeps it."""

    bps: int
    escalation_bps: int
    suspension: int
    strike: bool
    ban: bool
    reporter_bps: int

    def escalated(self, earlier: int) -> int:
        """The share taken, in 1/10,000, after that many earlier offences."""
        return min(BPS, self.bps + self.escalation_bps * earlier)


def slash_amount(bonded: int, added_since: int, bps: int) -> int:
    """NodeRegistry._take: a share of what was bonded at the offence, rounded up."""
    base = bonded - min(bonded, added_since)
    return (base * bps + BPS - 1) // BPS
