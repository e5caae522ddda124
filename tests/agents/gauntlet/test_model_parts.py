# SPDX-License-Identifier: Apache-2.0
"""The parts of a model: its ends, and the matrices between them."""

from __future__ import annotations

import pytest

from agents.gauntlet.model_parts import model_parts
from agents.training.model import build_model
from agents.training.spec import ModelSpec
from tests.stage.memory.tiny_specs import tiny_model


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_is_in_one_part(tied: bool) -> None:
    spec = ModelSpec(**tiny_model(16, 32, 16, layers=2), tie_embeddings=tied)
    model = build_model(spec)
    names = [name for name, _ in model.named_parameters()]
    ends, between = model_parts("llama", model, names)
    assert sorted((*ends, *between)) == sorted(names)
    assert "embedding.weight" in ends and "norm.weight" in ends
    assert ("head.weight" in ends) == (not tied)
    assert {"blocks.0.query.weight", "blocks.1.down.weight"} <= set(between)


def test_a_part_without_weights_is_left_out() -> None:
    model = build_model(ModelSpec(**tiny_model(16, 32, 16)))
    assert model_parts("llama", model, ["norm.weight"]) == (("norm.weight",),)
    assert model_parts("llama", model, ["blocks.0.down.weight"]) == (("blocks.0.down.weight",),)
