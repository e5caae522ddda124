# SPDX-License-Identifier: Apache-2.0
"""A trace binds its node; traces and proofs of computation are read strictly."""

from __future__ import annotations

import json

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from agents.rounds.proof import ProofOfComputation
from agents.training.state import PayloadError
from agents.training.trace import Trace, leaf, max_trace_bytes

HASHES = tuple(keccak(bytes([i])) for i in range(5))


def test_leaf_by_hand() -> None:
    body = b"\0" + bytes(31) + b"\7" + bytes(31) + b"\2" + HASHES[0]
    assert leaf(7, 2, HASHES[0]) == keccak(keccak(body))


def test_trace_root_binds_the_node() -> None:
    assert Trace(1, HASHES).root() != Trace(2, HASHES).root()
    assert Trace(1, HASHES).steps == 3


def test_trace_round_trip() -> None:
    trace = Trace(3, HASHES)
    assert Trace.from_bytes(trace.to_bytes(), 3, 3) == trace
    assert len(Trace(2**255, HASHES).to_bytes()) <= max_trace_bytes(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node": 4}, "node 3"),
        ({"node": True}, "node 3"),
        ({"version": 2}, "version 1"),
        ({"hashes": ["00" * 32] * 4}, "5 hashes for 3 steps"),
        ({"hashes": ["00" * 32] * 4 + ["0g" * 32]}, "hexadecimal"),
        ({"hashes": ["00" * 32] * 4 + [1]}, "hexadecimal"),
        ({"hashes": ["00" * 32] * 4 + ["AB" * 32]}, "lower-case"),
        ({"more": 1}, "exactly the keys"),
    ],
)
def test_bad_traces(change: dict[str, object], message: str) -> None:
    fields = json.loads(Trace(3, HASHES).to_bytes()) | change
    raw = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(PayloadError, match=message):
        Trace.from_bytes(raw, 3, 3)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_raise_only_payload_errors(raw: bytes) -> None:
    with pytest.raises(PayloadError):
        Trace.from_bytes(raw, 1, 1)
    with pytest.raises(PayloadError):
        ProofOfComputation.from_bytes(raw)


def test_too_long_trace_is_not_parsed() -> None:
    with pytest.raises(PayloadError, match="at most"):
        Trace.from_bytes(b"[" * (max_trace_bytes(1) + 1), 1, 1)


PROOF = ProofOfComputation(
    node=3, task="0" * 64, gradient_hash="1" * 64, trace_root="2" * 64, trace="b" + "a" * 58,
    steps=12, compute_time_ms=250, determinism_class="torch=2;device=cpu",
)  # fmt: skip


def test_proof_round_trip() -> None:
    assert ProofOfComputation.from_bytes(PROOF.to_bytes()) == PROOF


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", -1), ("steps", True), ("compute_time_ms", 1.5), ("compute_time_ms", "1"),
        ("task", "0x"), ("gradient_hash", "A" * 64), ("determinism_class", "a\x1b[2J"),
        ("tee_attestation", "0"), ("tee_kind", "Os.system"), ("node", 0), ("extra", 1),
        ("dataset", "trust me"), ("trace", "../x"), ("losses", [[1, -1]]), ("losses", [[1, 1.5]]),
        ("losses", [[1, 10**12 + 1]]), ("losses", [[2, 1], [1, 1]]), ("losses", [[1, 1], [1, 2]]),
        ("losses", [[i, 1] for i in range(65_537)]),
    ],
)  # fmt: skip
def test_bad_proofs_name_the_field(field: str, value: object) -> None:
    fields = json.loads(PROOF.to_bytes()) | {field: value}
    raw = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(PayloadError, match=field):
        ProofOfComputation.from_bytes(raw, 65_537)


def test_losses_are_read_again_and_left_out_where_there_are_none() -> None:
    assert b"losses" not in PROOF.to_bytes()
    longest = tuple((2**63 - 1 - 20_000 + i, 10**12) for i in range(20_000))
    stated = PROOF.model_copy(update={"losses": longest})
    assert ProofOfComputation.from_bytes(stated.to_bytes(), len(longest)) == stated
    with pytest.raises(PayloadError, match="at most"):
        ProofOfComputation.from_bytes(stated.to_bytes())


def test_a_proof_carries_an_attestation_as_it_is() -> None:
    carried = PROOF.model_copy(update={"tee_kind": "demo_enclave", "tee_attestation": "beef"})
    assert ProofOfComputation.from_bytes(carried.to_bytes()) == carried


def test_a_proof_of_an_older_node_is_read() -> None:
    """It states three things more, which nobody read."""
    older = {"device": "some cpu x2", "utilisation": 0.5, "utilisation_source": "cpu"}
    fields = json.loads(PROOF.to_bytes()) | older
    raw = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    assert ProofOfComputation.from_bytes(raw) == PROOF
