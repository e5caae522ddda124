# SPDX-License-Identifier: Apache-2.0
"""The flat vectors of a model, and what is left of them without some tensors."""

from __future__ import annotations

import pytest

from agents.training.flat import FlatModel
from agents.training.spec import ModelSpec

# A tensor fills 16 numbers, key_value and gate_up 32; matrices first, then vectors, each by name.
SMALL = ModelSpec(
    vocab_size=4, d_model=4, n_layers=1, n_heads=1, n_kv_heads=1, d_ff=4, max_seq_len=8
)


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        ((), [(0, 176)]),
        (("blocks.0.down.weight",), [(16, 176)]),
        (("blocks.0.key_value.weight", "norm.weight"), [(0, 48), (80, 160)]),
        (("blocks.0.gate_up.weight", "blocks.0.key_value.weight"), [(0, 16), (80, 176)]),
    ],
)
def test_runs_without_tensors_by_hand(names: tuple[str, ...], runs: list[tuple[int, int]]) -> None:
    assert FlatModel(SMALL).without(names) == runs
