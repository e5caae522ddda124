# SPDX-License-Identifier: Apache-2.0
"""The rule: a proof of computation must at least be possible; being possible proves nothing.

The proof beside a payload states the step hashes, the gradient hash and the compute time. These
checks need no re-execution. A proof that fails one is a reason to audit the node (the time checks,
since a clock or a benchmark can be off) or contradicts the chain outright (the hash checks).

Lower bound of the time: a node whose verified benchmark is `score` millionths of a unit per second
did `score / 10^6 * FLOPS_PER_UNIT` operations per second. Training may use the hardware far better
than the benchmark does (fp32, small matrices, one after the other, timed in whole blocks), so a
claim is only refused when it is `SPEED_MARGIN` times faster than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from agents.nodes.benchmark import FLOPS_PER_UNIT
from agents.rounds.proof import ProofOfComputation
from agents.training.trace import Trace

SPEED_MARGIN = 2000


@dataclass(frozen=True)
class Expected:
    """What is known about a node's round without its help.

    `task`: hash of its task, as the proof names it. `steps`: H, its batches. `hashes`: length of
    its trace. `start_hash`: model hash at round open. `payload_hash`: model hash of the revealed
    pseudo-gradient, None where a lossy codec makes it another than the one the trace ends in.
    `trace_root`: from the reveal. `shortest`, `longest`: bounds of the compute time in seconds.
    """

    task: bytes
    steps: int
    hashes: int
    start_hash: bytes
    payload_hash: bytes | None
    trace_root: bytes
    shortest: float
    longest: float


@dataclass(frozen=True)
class Problem:
    """Something wrong with a proof. `contradiction`: it can't be a clock or a slow benchmark."""

    contradiction: bool
    reason: str


def training_flops(parameters: int, tokens: int) -> int:
    """Operations of one pass over `tokens` tokens, forward and backward: 6 * parameters * tokens.

    The usual estimate for dense decoders (Kaplan et al., "Scaling laws for neural language
    models").
    """
    return 6 * parameters * tokens


def shortest_seconds(flops: int, score: int, margin: int = SPEED_MARGIN) -> float:
    """Least believable time for `flops` operations at a verified `score`; 0 if that is 0."""
    if score <= 0:
        return 0.0
    return flops / (score / 1e6 * FLOPS_PER_UNIT * margin)


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
        f"{seconds} s of computing is less than the {expected.shortest:.3g} s possible.": (
            seconds < expected.shortest
        ),
        f"{seconds} s of computing don't fit in the {expected.longest:.3g} s it had.": (
            seconds > expected.longest
        ),
    }
    return [Problem(True, reason) for reason, wrong in contradictions.items() if wrong] + [
        Problem(False, reason) for reason, wrong in doubts.items() if wrong
    ]
