# SPDX-License-Identifier: Apache-2.0
"""A part that is done twice: the same bits, errors where it could not be, and no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from agents.training.recompute import recomputed

COUNTED = """
import sys, torch
from torch import nn
from agents.training.recompute import recomputed
layer = nn.Linear(2, 2)
recomputed(layer, torch.ones(1, 2)).sum().backward()
print(layer.weight.grad.tolist(), "torch._dynamo" in sys.modules)
"""


class Layer(nn.Linear):
    """x -> gelu(W x + b), counting."""

    times = 0

    def forward(self, x: Tensor) -> Tensor:
        self.times += 1
        return functional.gelu(super().forward(x))


@pytest.fixture
def layer() -> Layer:
    torch.manual_seed(0)
    return Layer(5, 3)


def x_of(wants_gradient: bool = True) -> Tensor:
    return torch.linspace(-1, 1, 20).reshape(4, 5).requires_grad_(wants_gradient)


def gradients(y: Tensor, *of: Tensor) -> list[list[float]]:
    (y * torch.arange(3.0)).sum().backward()
    found = [one.grad for one in of]
    for one in of:
        one.grad = None
    assert all(one is not None for one in found)
    return [one.flatten().tolist() for one in found if one is not None]


@pytest.mark.parametrize("mixed", [False, True])
def test_recomputed__the_same_bits_with_mixed_numbers_too(layer: Layer, mixed: bool) -> None:
    def forward(twice: bool) -> tuple[Tensor, Tensor]:
        x = x_of()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            return x, recomputed(layer, x) if twice else layer(x)

    (x, y), (kept_x, kept_y) = forward(True), forward(False)
    assert y.dtype == kept_y.dtype == (torch.bfloat16 if mixed else torch.float32)
    assert torch.equal(y, kept_y)
    found = gradients(y, x, layer.weight, layer.bias)
    assert found == gradients(kept_y, kept_x, layer.weight, layer.bias)
    assert layer.times == 3


def test_recomputed__parameters_learn_where_x_has_no_gradient(layer: Layer) -> None:
    x = x_of(wants_gradient=False)
    found = gradients(recomputed(layer, x), layer.weight)
    assert found == gradients(layer(x), layer.weight) and x.grad is None


def test_recomputed__a_frozen_parameter_gets_none(layer: Layer) -> None:
    layer.bias.requires_grad_(False)
    x = x_of()
    found = gradients(recomputed(layer, x), x, layer.weight)
    kept = x_of()
    assert found == gradients(layer(kept), kept, layer.weight) and layer.bias.grad is None


def test_recomputed__a_tensor_used_twice_sums_its_gradients_in_the_same_order() -> None:
    def part(x: Tensor) -> Tensor:
        return x.sin() + x * x.exp()

    def summed(twice: bool) -> list[float]:
        x = x_of()
        inner = x * 1.7
        y = recomputed(part, inner) if twice else part(inner)
        return gradients((y * inner.cos() + inner)[:, :3], x)[0]

    assert summed(True) == summed(False)


def test_recomputed__what_is_not_needed_again_is_not_done_again() -> None:
    done: list[str] = []

    def part(x: Tensor) -> Tensor:
        done.append("squared")
        squared = x * x
        done.append("sum")
        return squared.sum(1, keepdim=True).expand(4, 3)

    y = recomputed(part, kept := x_of())
    gradients(y, kept)
    assert done == ["squared", "sum", "squared"]


def test_recomputed__loads_no_compiler() -> None:
    """A miner's first sample waits for it, and its neighbours for the miner."""
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    assert done.stdout.split() == ["[[1.0,", "1.0],", "[1.0,", "1.0]]", "False"], done.stderr
