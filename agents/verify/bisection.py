# SPDX-License-Identifier: Apache-2.0
"""Narrows a disagreement over a trace to one step; that step is the evidence.

Two traces of one task start from the same state. A step is wrong if the state before it is agreed
and the state after it is not. Binary search keeps "agreed here, differs there" true while it
narrows, so it always ends at such a step, after log2(H) comparisons. It is the *first* one if
traces that diverged stay diverged, which training does in practice; where the last hashes agree
again, that doesn't hold and the hashes are compared one by one.

The evidence holds both hashes of the claimed trace around the step with their Merkle proofs under
the `trace_root` the node itself put on chain, so nobody can be framed with hashes it never
committed to. What the step should have given is confirmed by whoever judges, by their own replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.storage.canonical import dumps, loads
from agents.storage.merkle import merkle_proof, verify_proof
from agents.training.state import PayloadError
from agents.training.trace import MAX_STEPS, Trace, leaf

MAX_EVIDENCE_BYTES = 16 * 1024
_KEYS = (
    "version",
    "node",
    "index",
    "claimed",
    "claimed_proof",
    "agreed",
    "agreed_proof",
    "expected",
)


@dataclass(frozen=True)
class Evidence:
    """Hash `index` of `node`'s trace is `claimed`; replay gives `expected` (32 bytes each).

    `agreed` is hash `index - 1`, None when the start state itself (index 0) is wrong. Proofs are
    those of `agents.storage.merkle.merkle_proof`.
    """

    node: int
    index: int
    claimed: bytes
    claimed_proof: tuple[bytes, ...]
    agreed: bytes | None
    agreed_proof: tuple[bytes, ...]
    expected: bytes

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dumps(
            {
                "version": 1,
                "node": self.node,
                "index": self.index,
                "claimed": self.claimed.hex(),
                "claimed_proof": [sibling.hex() for sibling in self.claimed_proof],
                "agreed": None if self.agreed is None else self.agreed.hex(),
                "agreed_proof": [sibling.hex() for sibling in self.agreed_proof],
                "expected": self.expected.hex(),
            }
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> Evidence:
        """Read a stranger's evidence; PayloadError if it is too long or malformed."""
        if len(raw) > MAX_EVIDENCE_BYTES:
            raise PayloadError(f"The evidence has {len(raw)} bytes; at most {MAX_EVIDENCE_BYTES}.")
        try:
            fields = loads(raw)
        except ValueError as error:
            raise PayloadError(f"The evidence is not canonical JSON: {error}") from error
        if not isinstance(fields, dict) or set(fields) != set(_KEYS) or fields["version"] != 1:
            raise PayloadError(
                f"The evidence needs version 1 and exactly the keys {', '.join(_KEYS)}."
            )
        agreed = fields["agreed"]
        return cls(
            _number(fields["node"], 2**256),
            _number(fields["index"], MAX_STEPS + 2),
            _digest(fields["claimed"]),
            _digests(fields["claimed_proof"]),
            None if agreed is None else _digest(agreed),
            _digests(fields["agreed_proof"]),
            _digest(fields["expected"]),
        )


def first_wrong_step(own: Sequence[bytes], claimed: Sequence[bytes]) -> int | None:
    """Index of a hash that differs while the one before agrees (0: the start state); None if none.

    See the module for when it is the first. ValueError if the traces differ in length: such a trace
    is refused before (`Trace.from_bytes`).
    """
    if len(own) != len(claimed):
        raise ValueError(f"A trace of {len(claimed)} hashes can't be compared with {len(own)}.")
    if not own:
        return None
    if own[0] != claimed[0]:
        return 0
    agreed, wrong = 0, len(own) - 1
    if own[wrong] == claimed[wrong]:
        pairs = zip(own, claimed, strict=True)
        return next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    while wrong - agreed > 1:
        middle = (agreed + wrong) // 2
        if own[middle] == claimed[middle]:
            agreed = middle
        else:
            wrong = middle
    return wrong


def find_evidence(own: Trace, claimed: Trace) -> Evidence | None:
    """Evidence that `claimed`, a published trace, isn't the replayed trace `own`; None if it is.

    ValueError if the traces are of different nodes or lengths.
    """
    if own.node != claimed.node:
        raise ValueError(
            f"A trace of node {claimed.node} can't be judged by one of node {own.node}."
        )
    index = first_wrong_step(own.hashes, claimed.hashes)
    if index is None:
        return None
    leaves = claimed.leaves()
    return Evidence(
        node=claimed.node,
        index=index,
        claimed=claimed.hashes[index],
        claimed_proof=tuple(merkle_proof(leaves, index)),
        agreed=claimed.hashes[index - 1] if index else None,
        agreed_proof=tuple(merkle_proof(leaves, index - 1)) if index else (),
        expected=own.hashes[index],
    )


def verify_evidence(evidence: Evidence, trace_root: bytes, own: Trace) -> str | None:
    """Why the evidence doesn't hold, as a sentence; None if it does.

    `trace_root`: the node's, from the chain. `own`: the judge's own replay of the node's task; pass
    one made in the determinism class of the node.
    """
    count = len(own.hashes)
    if evidence.node != own.node:
        return f"The evidence is about node {evidence.node}, not {own.node}."
    if not evidence.index < count:
        return f"Hash {evidence.index} is not among the {count} of the task."
    if evidence.claimed == evidence.expected:
        return "The claimed and the expected hash are the same."
    if (evidence.agreed is None) != (evidence.index == 0):
        return "A hash before the wrong one is needed, except at the start."
    if not _proven(
        evidence.node, evidence.index, evidence.claimed, evidence.claimed_proof, trace_root, count
    ):
        return "The claimed hash is not in the trace that the node committed to."
    if evidence.agreed is not None:
        before = evidence.index - 1
        if not _proven(
            evidence.node, before, evidence.agreed, evidence.agreed_proof, trace_root, count
        ):
            return "The agreed hash is not in the trace that the node committed to."
        if evidence.agreed != own.hashes[before]:
            return "Replay doesn't agree with the hash before the wrong one."
    if evidence.expected != own.hashes[evidence.index]:
        return "Replay doesn't give the hash that the evidence expects."
    return None


def _proven(
    node: int, index: int, digest: bytes, proof: Sequence[bytes], root: bytes, count: int
) -> bool:
    return verify_proof(root, count, index, leaf(node, index, digest), proof)


def _number(value: object, limit: int) -> int:
    if type(value) is int and 0 <= value < limit:
        return value
    raise PayloadError("A number of the evidence is out of range.")


def _digest(value: object) -> bytes:
    if isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef"):
        return bytes.fromhex(value)
    raise PayloadError("A hash of the evidence must be 64 lower-case hexadecimal digits.")


def _digests(value: object) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) > 64:
        raise PayloadError("A Merkle proof of the evidence must be a list of at most 64 hashes.")
    return tuple(_digest(item) for item in value)
