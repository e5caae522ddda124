# SPDX-License-Identifier: Apache-2.0
"""The bound on a gradient's norm: of all numbers together, without a copy of them in fp64."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from agents.training.inner.parts.moments import CHUNK, clip_norm


def gradient(count: int) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("count", [1, CHUNK, 2 * CHUNK + 3])
def test_a_gradient_beyond_the_bound_is_scaled_to_it_and_another_is_left(count: int) -> None:
    before = gradient(count)
    norm = float(before.double().norm())
    clipped, left = before.clone(), before.clone()
    clip_norm(clipped, norm / 2)
    torch.testing.assert_close(clipped, before / 2)
    clip_norm(left, norm * 1.001)
    assert left.equal(before)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_in_any_chunk_is_refused(value: float) -> None:
    wrong = gradient(3 * CHUNK)
    wrong[-1] = value
    with pytest.raises(FloatingPointError, match="not finite"):
        clip_norm(wrong, 1.0)


def test_it_takes_memory_for_a_chunk_and_not_for_the_gradient() -> None:
    values = gradient(16 * CHUNK)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        clip_norm(values, 1.0)
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    given = [event.nbytes() for event in events if event.nbytes() > 0]
    assert given and max(given) <= 8 * CHUNK
