# SPDX-License-Identifier: Apache-2.0
"""Payloads and proofs of strangers: each fault becomes a sentence, a lost store an exception."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.jobs.job import JobContext
from agents.rounds.payload import max_payload_bytes
from agents.rounds.submissions import fetch, fetch_proof
from agents.storage.cid import cid_from_digest, cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import StoreUnavailable
from tests.stage.memory.honest_round import HonestRound


def object_file(store: EmbeddedStore, digest: bytes) -> Path:
    return next((store.root / "objects").glob(f"*/{digest.hex()}.*"))


@pytest.fixture
def own_store(tiny: HonestRound, tmp_path: Path) -> HonestRound:
    """The round with a store of its own, to be damaged."""
    return replace(tiny, store=EmbeddedStore(tmp_path / "own"))


def test_an_honest_payload_is_read_bit_for_bit(tiny: HonestRound) -> None:
    found = tiny.submit(3)
    assert found.reason == "" and not found.unavailable
    for name, tensor in tiny.works[3].gradient.items():
        assert torch.equal(found.gradient[name], tensor)


def test_a_payload_that_nobody_stored_is_unavailable_not_bad(own_store: HonestRound) -> None:
    reveal = replace(own_store.reveal(3), content=b"\7" * 32)
    found = fetch(reveal, own_store.job, own_store.store)
    assert found.gradient is None and found.unavailable


@pytest.mark.parametrize(
    "damage", [lambda raw: b"x" + raw[1:], lambda raw: raw[:-1]], ids=["corrupt", "truncated"]
)
def test_a_damaged_copy_is_unavailable_not_bad(own_store: HonestRound, damage: Any) -> None:
    reveal = own_store.reveal(3)
    path = object_file(own_store.store, reveal.content)
    path.chmod(0o644)
    path.write_bytes(damage(path.read_bytes()))
    found = fetch(reveal, own_store.job, own_store.store)
    assert found.gradient is None and found.unavailable  # the bytes are not the node's


def test_a_store_that_is_down_is_nobodys_fault(own_store: HonestRound) -> None:
    reveal = own_store.reveal(3)
    path = object_file(own_store.store, reveal.content)
    path.unlink()
    path.symlink_to(path)  # opening it is an error of the disk, not a missing file
    with pytest.raises(StoreUnavailable):
        fetch(reveal, own_store.job, own_store.store)


@pytest.mark.parametrize("extra", [1, 300_000])
def test_a_payload_that_is_too_large_is_the_nodes_fault(tiny: HonestRound, extra: int) -> None:
    limit = max_payload_bytes(tiny.job.codec, tiny.job.shapes)
    found = fetch(tiny.reveal(3, bytes(limit + extra)), tiny.job, tiny.store)
    assert found.gradient is None and not found.unavailable
    assert found.reason.startswith("too large: ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_a_payload_with_numbers_that_are_none_is_bad(tiny: HonestRound, value: float) -> None:
    gradient = {name: tensor.clone() for name, tensor in tiny.works[3].gradient.items()}
    next(iter(gradient.values())).view(-1)[1] = value
    found = tiny.submit(3, gradient)
    assert found.gradient is None and not found.unavailable
    assert found.reason.startswith("bad payload: ")


def test_payloads_with_missing_or_foreign_tensors_are_bad(tiny: HonestRound) -> None:
    gradient = dict(tiny.works[3].gradient)
    name, tensor = gradient.popitem()
    assert tiny.submit(3, gradient).gradient is None
    assert tiny.submit(3, {**gradient, name: tensor.reshape(-1)[:-1]}).gradient is None
    assert tiny.submit(3, {**gradient, name + "x": tensor}).gradient is None


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(raw=st.binary(max_size=400), cut=st.integers(0, 400), mutate=st.booleans())
def test_any_bytes_become_a_sentence(tiny: HonestRound, raw: bytes, cut: int, mutate: bool) -> None:
    honest = tiny.works[3].payload
    payload = honest[:cut] + raw + honest[cut + len(raw) :] if mutate else raw
    found = fetch(tiny.reveal(3, payload), tiny.job, tiny.store)
    assert (found.gradient is None) == bool(found.reason)
    assert len(found.reason) <= 300


# -- where the job lists determinism classes -------------------------------------------------------

ABACUS = {"determinism_class": "torch=0;device=abacus"}


@pytest.fixture
def listing(tiny: HonestRound) -> HonestRound:
    """The job with a list: the class of this machine."""
    own = tiny.works[3].proof.determinism_class
    spec = tiny.job.spec.model_copy(update={"classes": (own,)})
    return replace(tiny, job=JobContext(spec, tiny.store))


def test_a_listed_class_is_read_with_the_payload(listing: HonestRound) -> None:
    found = listing.submit(3)
    assert found.gradient is not None and found.reason == ""
    assert (found.determinism_class,) == listing.job.spec.classes
    assert listing.compute(listing.honest()).rests_on == tuple(
        listing.reveal(node).proof for node in sorted(listing.works)
    )


def test_a_class_that_is_not_listed_is_the_nodes_fault(
    tiny: HonestRound, listing: HonestRound
) -> None:
    found = fetch(listing.reveal(3, **ABACUS), listing.job, listing.store)
    assert found.gradient is None and not found.unavailable
    assert found.reason.startswith("bad proof: its proof states the determinism class")
    anywhere = fetch(tiny.reveal(3, **ABACUS), tiny.job, tiny.store)
    assert anywhere.gradient is not None and anywhere.determinism_class == ""
    assert tiny.compute([anywhere]).rests_on == ()


@pytest.mark.parametrize("raw", [b"", b"{}", b"x" * 70_000])
def test_a_proof_that_can_t_be_read_is_the_nodes_fault_there(
    listing: HonestRound, raw: bytes
) -> None:
    proof = digest_of(listing.store.put_bytes(raw))
    found = fetch(replace(listing.reveal(3), proof=proof), listing.job, listing.store)
    assert found.gradient is None and found.reason.startswith(("bad proof: ", "too large: "))


def test_a_proof_that_nobody_stored_is_unavailable_there(
    tiny: HonestRound, listing: HonestRound
) -> None:
    lost = replace(listing.reveal(3), proof=b"\7" * 32)
    found = fetch(lost, listing.job, listing.store)
    assert found.gradient is None and found.unavailable
    assert fetch(lost, tiny.job, tiny.store).gradient is not None


# -- proofs and traces -----------------------------------------------------------------------------


def test_an_honest_proof_and_its_trace(tiny: HonestRound) -> None:
    found = fetch_proof(tiny.reveal(3), tiny.works[3].proof.steps, tiny.store)
    assert not isinstance(found, str)
    proof, trace = found
    assert proof == tiny.works[3].proof
    assert trace.root() == tiny.works[3].trace_root


@pytest.mark.parametrize("raw", [b"", b"{}", b"\0" * 100, b"[" * 10_000, b"x" * 70_000])
def test_an_unusable_proof_is_a_sentence(tiny: HonestRound, raw: bytes) -> None:
    proof = digest_of(tiny.store.put_bytes(raw))
    found = fetch_proof(replace(tiny.reveal(3), proof=proof), 2, tiny.store)
    assert isinstance(found, str) and found.startswith("no usable proof of computation: ")


def test_a_missing_proof_or_trace_is_a_sentence(tiny: HonestRound) -> None:
    assert isinstance(fetch_proof(replace(tiny.reveal(3), proof=b"\7" * 32), 2, tiny.store), str)
    lost = tiny.reveal(3, trace=cid_of_bytes(b"never stored"))
    assert isinstance(fetch_proof(lost, 2, tiny.store), str)


def test_a_trace_of_another_length_or_node_is_a_sentence(tiny: HonestRound) -> None:
    steps = tiny.works[3].proof.steps
    assert isinstance(fetch_proof(tiny.reveal(3), steps + 1, tiny.store), str)
    foreign = tiny.reveal(3, trace=tiny.works[5].proof.trace)
    tiny.reveal(5)
    assert "node 3" in fetch_proof(foreign, steps, tiny.store)


def test_the_digest_on_chain_is_that_of_the_payloads_cid(tiny: HonestRound) -> None:
    reveal = tiny.reveal(3)
    payload = tiny.works[3].payload
    assert tiny.store.get(cid_from_digest(reveal.content), 1 << 20) == payload
