# SPDX-License-Identifier: Apache-2.0
"""Nothing that a codec is given makes what it says, or keeps, longer than its stretch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import Codec, StretchCodec

SHAPES = {"a": (700,), "b": (40, 70), "c": (3,)}
SEED = bytes(range(32))
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("sparse", {}),
    ("sparse", {"gain": 4.0, "per_chunk": 2000, "decay": 0.9}),
    ("sparse", {"gain": 0.1, "value_bits": 1, "block": 16}),
    ("cells", {"cell": 16, "gain": 3.0}),
    ("cells", {"cell": 4, "fine": "a", "share": 0.3}),
    ("directions", {"cell": 32, "directions": 256, "gain": 1.5, "decay": 1.0}),
    ("demo", {"chunk": 16, "per_chunk": 4}),
    ("demo", {"chunk": 16, "per_chunk": 256, "value_bits": 2}),
    ("demo", {"chunk": 16, "per_chunk": 100, "value_bits": 1, "decay": 0.5}),
    ("demo", {"chunk": 64, "per_chunk": 1000, "value_bits": 4}),
]


def numbers(kind: str, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    flat = torch.randn(math.prod(shape), generator=source)
    if kind == "few":
        flat *= torch.rand(flat.shape, generator=source) < 0.02
    elif kind == "signs":
        flat = flat.sign()
    elif kind == "falling":
        flat = 10.0 ** (-torch.arange(len(flat)).float() * 20 / len(flat)) * flat.sign()
    elif kind == "one":
        flat = torch.full(flat.shape, 1e-3)
        flat[0] = 1.0
    return flat.reshape(shape)


def norm(tensor: Tensor) -> float:
    return float(tensor.double().norm())


@given(
    st.sampled_from(OPTIONS),
    st.lists(st.sampled_from(["noise", "few", "signs", "falling", "one"]), min_size=4, max_size=4),
    st.integers(0, 2**32),
    st.sampled_from([1e-12, 1e-3, 1.0, 1e6]),
    st.sampled_from([0.0, 1e-3, 1.0, -1.0]),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_longer(
    option: tuple[str, dict[str, Any]], kinds: list[str], seed: int, scale: float, owing: float
) -> None:
    name, options = option
    codec: Codec = codecs.get(name)(**options)
    assert isinstance(codec, StretchCodec)
    source = torch.Generator().manual_seed(seed)
    given = {
        n: scale * numbers(k, s, source) for k, (n, s) in zip(kinds, SHAPES.items(), strict=False)
    }
    owed = {n: owing * scale * numbers(kinds[3], s, source) for n, s in SHAPES.items()}
    both = {n: given[n] + owed[n] for n in SHAPES}
    said = codec.decode(codec.encode(given, owed, SEED), SHAPES, SEED)
    kept = codec.remember(given, owed, said)
    assert kept is not None
    for part in SHAPES:
        tiny = 1e-6 * norm(both[part]) + 1e-36
        assert norm(said[part]) <= codec.stretch.said * norm(both[part]) + tiny
        assert norm(kept[part]) <= codec.stretch.kept * norm(both[part]) + tiny


@pytest.mark.parametrize("name", ["polytope", "semantic"])
def test_one_that_turns_all_tensors_together_bounds_none(name: str) -> None:
    assert not isinstance(codecs.get(name)(), StretchCodec)
