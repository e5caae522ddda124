# SPDX-License-Identifier: Apache-2.0
"""A sync sample opens only what was committed, at places nobody knew when it was."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from eth_utils import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rounds.sync_sample import (
    BLOCK,
    max_samples_bytes,
    open_samples,
    positions,
    read_samples,
    sync_root,
    values_at,
)
from agents.storage.canonical import dumps
from agents.storage.merkle import merkle_root
from agents.training.state import PayloadError
from agents.training.trace import Trace, leaf

SEED = keccak(text="audit")
SHAPES = {"a.weight": (30, 20), "b.bias": (5,), "c.weight": (256,), "d": (257,)}


def state(change: float = 0.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {n: torch.randn(s, generator=generator) + change for n, s in SHAPES.items()}


def test_the_root_by_hand() -> None:
    tensors = {"w": torch.arange(300, dtype=torch.float32), "v": torch.tensor([1.5])}
    numbers = [
        np.array([1.5], "<f4"),
        np.arange(256, dtype="<f4"),
        np.arange(256, 300, dtype="<f4"),
    ]
    leaves = [leaf(0, i, hashlib.sha256(n.tobytes()).digest()) for i, n in enumerate(numbers)]
    assert sync_root(tensors) == merkle_root(leaves)


def test_places_by_hand() -> None:
    word = int.from_bytes(keccak(SEED + b"b.bias" + b"\0" + (1).to_bytes(4, "big")), "big")
    assert positions(SEED, SHAPES, 2)[3] == ("b.bias", word % 5)
    assert [name for name, _ in positions(SEED, SHAPES, 2)] == [n for n in SHAPES for _ in range(2)]
    assert positions(SEED, SHAPES, 8) != positions(keccak(SEED), SHAPES, 8)


@given(st.binary(min_size=32, max_size=32), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_a_sample_gives_the_values_under_the_root(seed: bytes, per_tensor: int) -> None:
    mine = state()
    raw = open_samples(mine, seed, per_tensor)
    assert len(raw) <= max_samples_bytes(SHAPES, per_tensor)
    read = read_samples(raw, sync_root(mine), SHAPES, seed, per_tensor)
    assert read.dtype == np.float32
    assert np.array_equal(read, values_at(mine, seed, per_tensor))
    expected = [float(mine[n].reshape(-1)[i]) for n, i in positions(seed, SHAPES, per_tensor)]
    assert read.tolist() == expected


@pytest.mark.parametrize(
    ("committed", "seed", "words"),
    [(state(0.5), SEED, "not under the node's root"), (state(), keccak(text="another"), None)],
    ids=["another model", "another seed"],
)
def test_a_sample_of_another_model_or_seed_is_refused(
    committed: dict[str, torch.Tensor], seed: bytes, words: str | None
) -> None:
    with pytest.raises(PayloadError, match=words):
        read_samples(open_samples(state(), seed, 2), sync_root(committed), SHAPES, SEED, 2)


def test_one_changed_value_is_noticed() -> None:
    mine = state()
    fields = json.loads(open_samples(mine, SEED, 2))
    shown = fields["blocks"][0]["values"]
    fields["blocks"][0]["values"] = ("0" if shown[0] != "0" else "1") + shown[1:]
    with pytest.raises(PayloadError, match="not under the node's root"):
        read_samples(dumps(fields), sync_root(mine), SHAPES, SEED, 2)


def test_no_trace_passes_for_a_tree_of_parameters() -> None:
    tensors = {"w": torch.zeros(BLOCK)}
    digest = hashlib.sha256(bytes(4 * BLOCK)).digest()
    assert sync_root(tensors) == Trace(0, (digest,)).root()
    assert all(sync_root(tensors) != Trace(node, (digest,)).root() for node in range(1, 5))


def test_values_that_are_not_finite_are_refused() -> None:
    broken = {name: torch.full(shape, float("nan")) for name, shape in SHAPES.items()}
    with pytest.raises(PayloadError, match="NaN or infinity"):
        read_samples(open_samples(broken, SEED, 1), sync_root(broken), SHAPES, SEED, 1)


def _good() -> dict[str, object]:
    fields: dict[str, object] = json.loads(open_samples(state(), SEED, 2))
    return fields


def _with_block(**change: object) -> bytes:
    fields = json.loads(open_samples(state(), SEED, 2))
    fields["blocks"][1] |= change
    return dumps(fields)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not canonical JSON"),
        (b"[]", "exactly the keys"),
        (b'{"version":1,"blocks":[] }', "not canonical JSON"),
        (dumps({"version": 1, "blocks": []}), "must hold"),
        (dumps(_good() | {"version": 2}), "not version 1"),
        (dumps(_good() | {"version": True}), "not version 1"),
        (dumps(_good() | {"more": 1}), "exactly the keys"),
        (dumps({"version": 1, "blocks": [1] * len(_good()["blocks"])}), "exactly values"),  # type: ignore[arg-type]
        (_with_block(values="0g"), "hexadecimal"),
        (_with_block(values="00"), "has 1 bytes"),
        (_with_block(values=7), "hexadecimal"),
        (_with_block(proof="00"), "not a list"),
        (_with_block(proof=[]), "not under the node's root"),
        (_with_block(proof=["00"]), "not under the node's root"),
        (b" " * (max_samples_bytes(SHAPES, 2) + 1), "at most"),
    ],
)
def test_a_strangers_bytes_raise_only_payload_errors(raw: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        read_samples(raw, sync_root(state()), SHAPES, SEED, 2)


@given(st.binary(max_size=200))
def test_noise_raises_only_payload_errors(raw: bytes) -> None:
    with pytest.raises(PayloadError):
        read_samples(raw, sync_root(state()), SHAPES, SEED, 2)
