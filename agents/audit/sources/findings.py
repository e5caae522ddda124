# SPDX-License-Identifier: Apache-2.0
"""What an audit says: checks with their differences, per round, and as JSON.

Rule: a check that was not made is never shown as made. A difference is a full sentence; a remark
is something a reader should know that breaks no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHECKS: Mapping[str, str] = {
    "logs": "events and times, from the receipts and headers of their blocks",
    "job": "the job's terms, spec, genesis model and data",
    "opening": "snapshot, weights, reserved pool, phases and deadlines",
    "seeds": "the seeds follow from their blocks",
    "assignments": "every node's batches, from the seed",
    "commitments": "every reveal opens its commitment to its own input",
    "artefacts": "payloads, proofs, traces and reports have the bytes that the chain names",
    "merge": "the merge and every score, computed again",
    "model": "the update applied, the model's hash",
    "votes": "who proposed and attested, and that it was enough",
    "scores": "committed score vectors, their median, trust",
    "ratings": "validators' records: draw, checks, ratings, vector",
    "losses": "every LossScore, measured again",
    "ledger": "roots, entry and hash chain of the ledger",
    "payouts": "cuts and shares, to the last unit",
    "slashes": "by the slashing table, each for a cause on chain",
    "privacy": "what each node's commitments cost it of its budget",
    "training": "every node's training, done again",
    "benchmarks": "attempts, verdicts and scores, and the work behind them",
    "tasks": "redundant tasks: draws, answers, verdicts, fees and seats",
    "results": "every redundant task's result, computed again",
    "balances": "escrow, pending, claimed and staked amounts",
}


@dataclass(frozen=True)
class Difference:
    """One thing that doesn't hold. `round_id` 0 means the job as a whole."""

    round_id: int
    check: str
    subject: str
    sentence: str

    def __str__(self) -> str:
        where = f"round {self.round_id}" if self.round_id else "job"
        return f"{where}, {self.subject}: {self.sentence}"


@dataclass
class Part:
    """A round, or (`round_id` 0) the job as a whole: how much was compared, and what differs.

    `counts`: comparisons made by check. `status`: what became of the round.
    """

    round_id: int
    status: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether everything compared agrees."""
        return not self.differences

    def differing(self, check: str) -> list[Difference]:
        """The differences of one check."""
        return [d for d in self.differences if d.check == check]

    def differ(self, check: str, subject: str, sentence: str) -> None:
        """Note a difference, once."""
        self.counts.setdefault(check, 0)
        found = Difference(self.round_id, check, subject, sentence)
        if found not in self.differences:
            self.differences.append(found)

    def hold(self, check: str, ok: bool, subject: str, sentence: str) -> bool:
        """Count a comparison; note the sentence unless it is `ok`."""
        self.counts[check] = self.counts.get(check, 0) + 1
        if not ok:
            self.differ(check, subject, sentence)
        return ok

    def same(self, check: str, subject: str, what: str, found: Any, wanted: Any) -> bool:
        """Compare a value found with what it should be."""
        one, other = _plain(found), _plain(wanted)
        if one == other:  # most are, and need no sentence
            return self.hold(check, True, subject, "")
        sentence = f"{what} is {_show(one)}, it should be {_show(other)}."
        return self.hold(check, False, subject, sentence)

    def remark(self, sentence: str) -> None:
        """Note something that breaks no rule."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "round": self.round_id,
            "status": self.status,
            "holds": self.holds,
            "checks": {
                name: {"compared": count, "holds": not self.differing(name)}
                for name, count in self.counts.items()
            },
            "differences": [
                {"check": d.check, "subject": d.subject, "sentence": d.sentence}
                for d in self.differences
            ],
            "remarks": list(self.remarks),
            "figures": dict(self.figures),
        }


@dataclass
class Audit:
    """A whole audit. `block`: the chain's head that it speaks of."""

    job_id: int
    chain_id: int
    block: int
    block_hash: str
    deep: bool
    job: Part = field(default_factory=lambda: Part(0))
    rounds: list[Part] = field(default_factory=list)

    @property
    def parts(self) -> list[Part]:
        """The rounds in order, then the job."""
        return [*self.rounds, self.job]

    @property
    def differences(self) -> list[Difference]:
        """All differences."""
        return [d for part in self.parts for d in part.differences]

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return all(part.holds for part in self.parts)

    @property
    def compared(self) -> int:
        """How many comparisons were made."""
        return sum(sum(part.counts.values()) for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable result."""
        return {
            "version": 1,
            "job": self.job_id,
            "chain_id": self.chain_id,
            "block": self.block,
            "block_hash": self.block_hash,
            "deep": self.deep,
            "holds": self.holds,
            "compared": self.compared,
            "parts": [part.to_json() for part in self.parts],
        }


def _plain(value: Any) -> Any:
    """Values of equal meaning compare equal: bytes-like as bytes, any sequence as a tuple."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(_show(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_show(k)}: {_show(v)}" for k, v in value.items()) + "}"
    return str(value)
