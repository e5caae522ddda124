# SPDX-License-Identifier: Apache-2.0
"""AdamW a chunk at a time gives the bits of AdamW over whole vectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.training.inner.parts import moments as module
from agents.training.inner.parts.moments import Moments
from agents.training.spec import Hyperparameters, JobSpec

SpecBuilder = Callable[..., JobSpec]


def whole(values: Tensor, gradients: list[Tensor], decayed: int, hyper: Hyperparameters) -> Tensor:
    """The published lines over whole vectors, each with a result of its own."""
    values = values.clone()
    first, second = torch.zeros_like(values), torch.zeros_like(values)
    power1 = power2 = 1.0
    beta1, beta2 = hyper.betas
    for gradient in gradients:
        power1, power2 = power1 * beta1, power2 * beta2
        first.mul_(beta1).add_(gradient * (1.0 - beta1))
        second.mul_(beta2).add_(gradient.square() * (1.0 - beta2))
        values[:decayed].mul_(1.0 - hyper.lr * hyper.weight_decay)
        denominator = (second / (1.0 - power2)).sqrt_().add_(hyper.eps)
        values.sub_((first / denominator).mul_(hyper.lr / (1.0 - power1)))
    return values


@pytest.mark.parametrize("chunk", [16, 64, 1 << 17])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_chunks_have_the_bits_of_whole_vectors(
    tiny_spec: SpecBuilder, monkeypatch: pytest.MonkeyPatch, chunk: int, count: int, share: float
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    hyper = Hyperparameters.of(
        tiny_spec(optimizer={"lr": 0.01, "weight_decay": 0.3, "seq_len": 16}), 0
    )
    generator = torch.Generator().manual_seed(count)
    values, *gradients = (torch.randn(count, generator=generator) for _ in range(6))
    gradients[1][::3] = 0.0
    gradients[2] *= 1e-20  # squares that vanish
    expected = whole(values, gradients, int(share * count), hyper)
    found, gradient = values.clone(), torch.empty_like(values)
    moments = Moments(found, gradient, int(share * count))
    for given in gradients:
        gradient.copy_(given)
        moments.step(hyper)
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


def test_one_step_by_hand(tiny_spec: SpecBuilder) -> None:
    # The first step is the rate against the gradient's sign, whatever its size; decay comes before.
    spec = tiny_spec(optimizer={"lr": 0.5, "weight_decay": 0.2, "seq_len": 16})
    values, gradient = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([4.0, -0.25, 8.0])
    Moments(values, gradient, 2).step(Hyperparameters.of(spec, 0))
    assert values.tolist() == pytest.approx([0.9 - 0.5, 0.9 + 0.5, 1.5])
