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
BPS = 10_000
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
    """NodeRegistry._settle_benchmark: units per million seconds."""
    return units * 1_000_000 // max(elapsed, 1)


def weight(score: int, expected: int, accepted: int) -> int:
    """A trainer's weight: benchmark score times reliability over its last 8 rounds, at least 1."""
    return max(1, score * (BPS * (1 + accepted) // (1 + expected)) // BPS)


@dataclass(frozen=True)
class Split:
    """How a round's pool is paid. `cuts`: (node, amount) in order, the proposer's first.

    `trainer_amount`: left after the cuts. `shares`: amount by trainer.
    """

    cuts: tuple[tuple[int, int], ...]
    trainer_amount: int
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
) -> Split:
    """TrainingRounds._pay_cuts and RewardPool: the pool of a finalized round.

    Args:
        attesters: weight by verifier, in the order of attestation.
        contributions: of the nodes that are paid, without the invalid ones.
    """
    for_verifiers = reward * verifier_bps // BPS
    attested = sum(attesters.values())
    cuts = [(proposer, reward * aggregator_bps // BPS)]
    cuts += [(node, for_verifiers * stake // attested) for node, stake in attesters.items()]
    left = reward - sum(amount for _, amount in cuts)
    total = sum(contributions.values())
    shares = {node: left * part // total for node, part in contributions.items() if part}
    return Split(tuple(cuts), left, shares)


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
