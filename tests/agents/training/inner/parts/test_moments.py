# SPDX-License-Identifier: Apache-2.0
"""AdamW a chunk at a time gives the bits of AdamW over whole vectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.training.inner.parts import moments as module
from agents.training.inner.parts.moments import FusedMoments, Moments
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


@pytest.mark.parametrize("count", [1, module._ROW - 1, module._ROW, 3 * module._ROW + 5])
def test_a_norm_by_rows_is_that_of_fp64(count: int) -> None:
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(count))
    numbers[::5] *= 1e6
    exact = float(torch.linalg.vector_norm(numbers.double()))
    assert module._norm_in_rows(numbers) == pytest.approx(exact, rel=1e-6)
    numbers[count // 2] = torch.inf
    assert module._norm_in_rows(numbers) == float("inf")


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_fused_form_is_the_same_formula(tiny_spec: SpecBuilder, share: float) -> None:
    """It goes on, half way, in another object from what the first had gathered."""
    hyper = Hyperparameters.of(
        tiny_spec(optimizer={"lr": 0.01, "weight_decay": 0.3, "seq_len": 16}), 0
    )
    generator = torch.Generator().manual_seed(7)
    values, *gradients = (torch.randn(65, generator=generator) for _ in range(6))
    expected = whole(values, gradients, int(share * 65), hyper)
    found, gradient = values.clone(), torch.empty_like(values)
    moments = FusedMoments(found, gradient, int(share * 65))
    for number, given in enumerate(gradients):
        if number == 2:
            gathered = [buffer.clone() for buffer in moments.buffers]
            moments = FusedMoments(found, gradient, int(share * 65))
            for buffer, old in zip(moments.buffers, gathered, strict=True):
                buffer.copy_(old)
            moments.resume(hyper.betas, number)
        gradient.copy_(given)
        moments.step(hyper)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert all(buffer.any() for buffer in moments.buffers)


def test_one_step_by_hand(tiny_spec: SpecBuilder) -> None:
    # The first step is the rate against the gradient's sign, whatever its size; decay comes before.
    spec = tiny_spec(optimizer={"lr": 0.5, "weight_decay": 0.2, "seq_len": 16})
    values, gradient = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([4.0, -0.25, 8.0])
    Moments(values, gradient, 2).step(Hyperparameters.of(spec, 0))
    assert values.tolist() == pytest.approx([0.9 - 0.5, 0.9 + 0.5, 1.5])
