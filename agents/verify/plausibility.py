# SPDX-License-Identifier: Apache-2.0
"""The rule: a proof of computation must at least be possible; being possible proves nothing.

The proof beside a payload states the step hashes, the gradient hash and the compute time. These
checks need no re-execution. A proof that fails one is a reason to re-execute the node's work (a
time that doesn't fit in the round, since a clock can be off) or contradicts the chain outright (the
hash checks).

There is no lower bound of the time. It is the node's own word, so who did nothing states a time
that passes. And a verified benchmark doesn't bound it: the benchmark times small integer products,
and how much faster a machine trains depends on the machine and the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from agents.rounds.proof import ProofOfComputation
from agents.training.trace import Trace


@dataclass(frozen=True)
class Expected:
    """What is known about a node's round without its help.

    `task`: hash of its task, as the proof names it. `steps`: H, its batches. `hashes`: length of
    its trace. `start_hash`: model hash at round open. `payload_hash`: model hash of the revealed
    pseudo-gradient, None where a lossy codec makes it another than the one the trace ends in.
    `trace_root`: from the reveal. `longest`: the most time that it had to compute, in seconds.
    """

    task: bytes
    steps: int
    hashes: int
    start_hash: bytes
    payload_hash: bytes | None
    trace_root: bytes
    longest: float


@dataclass(frozen=True)
class Problem:
    """Something wrong with a proof. `contradiction`: it can't be a clock."""

    contradiction: bool
    reason: str


def check(proof: ProofOfComputation, trace: Trace, expected: Expected) -> list[Problem]:
    """Problems of a proof and its trace, contradictions first; none means plausible."""
    hashes = trace.hashes
    contradictions = {
        "The proof is of another node than the trace.": proof.node != trace.node,
        "The proof is of another task.": proof.task != expected.task.hex(),
        "The proof states another number of steps than the task has.": proof.steps
        != expected.steps,
        f"The trace has {len(hashes)} hashes; {expected.hashes} are needed.": (
            len(hashes) != expected.hashes
        ),
        "The trace doesn't start from the round's model.": hashes[:1] != (expected.start_hash,),
        "The trace doesn't end in the revealed pseudo-gradient.": (
            expected.payload_hash is not None and hashes[-1:] != (expected.payload_hash,)
        ),
        "The proof states another gradient hash than its trace ends in.": (
            [proof.gradient_hash] != [mark.hex() for mark in hashes[-1:]]
        ),
        "The proof states another trace root than the reveal.": (
            proof.trace_root != expected.trace_root.hex()
        ),
        "The trace doesn't have the root of the reveal.": (
            not hashes or trace.root() != expected.trace_root
        ),
    }
    seconds = proof.compute_time_ms / 1000
    doubts = {
        "A training step left the model unchanged.": any(
            one == other for one, other in pairwise(hashes)
        ),
        f"{seconds} s of computing don't fit in the {expected.longest:.3g} s it had.": (
            seconds > expected.longest
        ),
    }
    return [Problem(True, reason) for reason, wrong in contradictions.items() if wrong] + [
        Problem(False, reason) for reason, wrong in doubts.items() if wrong
    ]
