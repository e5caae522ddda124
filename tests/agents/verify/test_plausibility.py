# SPDX-License-Identifier: Apache-2.0
"""A proof of computation that can't be true is told from one that is merely odd."""

from dataclasses import replace

import pytest

from agents.rounds.proof import ProofOfComputation
from agents.training.trace import Trace
from agents.verify import plausibility

HASHES = tuple(bytes([index]) * 32 for index in range(5))
TRACE = Trace(4, HASHES)
EXPECTED = plausibility.Expected(
    task=b"\xaa" * 32,
    steps=3,
    hashes=5,
    start_hash=HASHES[0],
    payload_hash=HASHES[4],
    trace_root=TRACE.root(),
    longest=60.0,
)
STATED = ProofOfComputation(
    node=4,
    task="aa" * 32,
    gradient_hash=HASHES[4].hex(),
    trace_root=TRACE.root().hex(),
    trace="b" + "a" * 58,
    steps=3,
    compute_time_ms=2500,
    determinism_class="x86-64 avx2 threads 1",
)


def problems(stated=STATED, trace=TRACE, expected=EXPECTED) -> list[plausibility.Problem]:
    return plausibility.check(stated, trace, expected)


def test_honest_proof_is_plausible():
    assert problems() == []


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"node": 5}, "of another node"),
        ({"task": "ab" * 32}, "of another task"),
        ({"steps": 2}, "another number of steps"),
        ({"gradient_hash": "00" * 32}, "another gradient hash"),
        ({"trace_root": "00" * 32}, "another trace root"),
    ],
)
def test_false_statements_contradict(change, part):
    (found,) = problems(STATED.model_copy(update=change))
    assert found.contradiction and part in found.reason


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"hashes": 6}, "5 hashes; 6 are needed"),
        ({"start_hash": b"\x33" * 32}, "doesn't start from the round's model"),
        ({"payload_hash": b"\x33" * 32}, "doesn't end in the revealed pseudo-gradient"),
        ({"trace_root": b"\x33" * 32}, "doesn't have the root of the reveal"),
    ],
)
def test_false_traces_contradict(change, part):
    found = problems(expected=replace(EXPECTED, **change))
    assert all(problem.contradiction for problem in found)
    assert any(part in problem.reason for problem in found)


def test_empty_trace_is_a_problem_not_a_crash():
    assert any("0 hashes" in problem.reason for problem in problems(trace=Trace(4, ())))


def test_a_time_that_does_not_fit_only_raises_doubt():
    (found,) = problems(STATED.model_copy(update={"compute_time_ms": 60_001}))
    assert not found.contradiction and "don't fit in the 60 s" in found.reason
    assert problems(STATED.model_copy(update={"compute_time_ms": 60_000})) == []


def test_unchanged_step_raises_doubt():
    stuck = Trace(4, (HASHES[0], HASHES[0], *HASHES[2:]))
    stated = STATED.model_copy(update={"trace_root": stuck.root().hex()})
    (found,) = problems(stated, stuck, replace(EXPECTED, trace_root=stuck.root()))
    assert not found.contradiction and "left the model unchanged" in found.reason
