# SPDX-License-Identifier: Apache-2.0
"""The outer step is torch's Nesterov SGD, and leaves alone what no merge moved."""

from __future__ import annotations

import pytest
import torch

from agents.training.outer import Outer


def test_three_steps_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(1000, generator=generator)
    changes = [0.1 * torch.randn(1000, generator=generator) for _ in range(3)]
    theirs = torch.nn.Parameter(start.clone())
    sgd = torch.optim.SGD([theirs], lr=0.7, momentum=0.9, nesterov=True)
    ours, velocity = start, torch.zeros(1000)
    for change in changes:
        theirs.grad = change
        sgd.step()
        ours, velocity = Outer(0.7, 0.9).step(ours, change, velocity)
    assert torch.allclose(ours, theirs.detach(), rtol=1e-6, atol=1e-6)


def test_by_hand_and_what_was_not_moved_keeps_weight_and_velocity() -> None:
    old, change = torch.tensor([4.0, 4.0]), torch.tensor([2.0, 0.0])
    new, velocity = Outer(0.5, 0.5).step(old, change, torch.tensor([4.0, 4.0]))
    # g = 2, v = 0.5 * 4 + 2 = 4, step 0.5 * (2 + 0.5 * 4) = 2.
    assert new.tolist() == [2.0, 4.0]
    assert velocity.tolist() == [4.0, 4.0]
    assert old.tolist() == [4.0, 4.0]


def test_a_tensor_without_dimensions_stays_one() -> None:
    new, velocity = Outer(1.0, 0.5).step(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.0))
    assert new.shape == velocity.shape == ()


@pytest.mark.parametrize(
    "change", [torch.zeros(2), torch.zeros(3, dtype=torch.float64), torch.full((3,), torch.nan)]
)
def test_what_can_not_be_stepped_is_refused(change: torch.Tensor) -> None:
    with pytest.raises(ValueError):
        Outer().step(torch.zeros(3), change, torch.zeros(3))


def test_numbers_that_leave_fp32_are_refused() -> None:
    huge = torch.full((1,), 3e38)
    with pytest.raises(ValueError, match="not finite"):
        Outer(1.0, 0.9).step(-huge, huge, torch.zeros(1))


@pytest.mark.parametrize("options", [(-0.1, 0.9), (0.7, 1.0)])
def test_options_out_of_range_are_refused(options: tuple[float, float]) -> None:
    with pytest.raises(ValueError):
        Outer(*options)
