# SPDX-License-Identifier: Apache-2.0
"""What an inner optimizer gathers can be taken out and put in again without a bit of difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from agents.training.flat import FlatModel
from agents.training.inner_state import put, shapes_of, taken
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.optimizers import chosen
from agents.training.spec import Hyperparameters, ModelSpec
from agents.training.state import PayloadError, State, load_state, save_state
from tests.stage.memory.tiny_specs import tiny_model

SEED = bytes(32)
MODEL = ModelSpec(**tiny_model(16, 24, 16))
HYPER = Hyperparameters(4e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32", keeps_state=True)


def batches(count: int) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(7)
    return [torch.randint(0, 256, (2, 17), generator=source) for _ in range(count)]


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize("inner", ["adamw", "muon"])
def test_steps_after_the_state_is_put_back_are_those_without_a_break(inner: str) -> None:
    """Four steps in one go, and two and two with the state saved as a file in between."""
    hyper, data = replace(HYPER, inner=inner), batches(4)
    start = init_state(MODEL)
    whole = train_local(FlatModel(MODEL), start, data, hyper, SEED)
    first = train_local(FlatModel(MODEL), start, data[:2], hyper, SEED)
    assert first.inner is not None
    shapes = {name: tuple(tensor.shape) for name, tensor in first.inner.items()}
    kept = load_state(save_state(first.inner), shapes)
    rest = train_local(FlatModel(MODEL), first.state, data[2:], hyper, SEED, inner=kept)
    assert same(rest.state, whole.state)
    assert rest.inner is not None and whole.inner is not None and same(rest.inner, whole.inner)
    fresh = train_local(FlatModel(MODEL), first.state, data[2:], hyper, SEED)
    assert not same(fresh.state, whole.state)


def test_nothing_is_taken_out_where_every_round_starts_from_zero() -> None:
    hyper = replace(HYPER, keeps_state=False)
    result = train_local(FlatModel(MODEL), init_state(MODEL), batches(1), hyper, SEED)
    assert result.inner is None


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 1_000_000])
def test_the_number_of_steps_survives(count: int) -> None:
    net = FlatModel(MODEL)
    steps = chosen("adamw", {}).start(net, HYPER, 1)
    assert put(steps, taken(steps, count)) == count


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"first": None}, "missing"),
        ({"more": torch.zeros(1)}, "unexpected"),
        ({"second": torch.zeros(3)}, "expected float32"),
        ({"steps": torch.tensor([0.0, float("nan")])}, "NaN"),
        ({"steps": torch.tensor([0.0, 4096.0])}, "4096"),
        ({"steps": torch.tensor([0.0, -1.0])}, "-1"),
        ({"steps": torch.tensor([0.5, 0.0])}, "0.5"),
        ({"steps": torch.tensor([-1.0, 0.0])}, "-1"),
        ({"steps": torch.tensor([1e30, 0.0])}, "1e"),
    ],
)
def test_a_state_that_is_none_of_this_optimizer_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    net = FlatModel(MODEL)
    steps = chosen("adamw", {}).start(net, HYPER, 1)
    state = {**taken(steps, 3), **changes}
    state = {name: tensor for name, tensor in state.items() if tensor is not None}
    with pytest.raises(PayloadError, match=reason):
        put(steps, state)
    assert shapes_of(steps)["steps"] == (2,)
