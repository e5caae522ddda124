# SPDX-License-Identifier: Apache-2.0
"""The outer step is torch's Nesterov SGD on old - merged, and leaves lost shards alone."""

from __future__ import annotations

import pytest
import torch

from agents.pipeline.outer import Outer


def test_three_steps_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(1000, generator=generator)
    merges = [start + 0.1 * torch.randn(1000, generator=generator) for _ in range(3)]
    theirs = torch.nn.Parameter(start.clone())
    sgd = torch.optim.SGD([theirs], lr=0.7, momentum=0.9, nesterov=True)
    ours, velocity = start, torch.zeros(1000)
    for merged in merges:
        theirs.grad = theirs.detach() - merged
        sgd.step()
        ours, velocity = Outer(0.7, 0.9).step(ours, merged, velocity)
    assert torch.allclose(ours, theirs.detach(), rtol=1e-6, atol=1e-6)


def test_by_hand_and_a_lost_shard_keeps_weights_and_velocity() -> None:
    old, merged = torch.tensor([4.0, 4.0]), torch.tensor([2.0, 2.0])
    new, velocity = Outer(0.5, 0.5).step(old, merged, torch.tensor([4.0, 4.0]), [(1, 2)])
    # g = 2, v = 0.5 * 4 + 2 = 4, step 0.5 * (2 + 0.5 * 4) = 2.
    assert new.tolist() == [2.0, 4.0]
    assert velocity.tolist() == [4.0, 4.0]
    assert old.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    "merged", [torch.zeros(2), torch.zeros(3, dtype=torch.float64), torch.full((3,), torch.nan)]
)
def test_what_can_not_be_stepped_is_refused(merged: torch.Tensor) -> None:
    with pytest.raises(ValueError):
        Outer().step(torch.zeros(3), merged, torch.zeros(3))


@pytest.mark.parametrize("options", [(-0.1, 0.9), (0.7, 1.0)])
def test_options_out_of_range_are_refused(options) -> None:
    with pytest.raises(ValueError):
        Outer(*options)
