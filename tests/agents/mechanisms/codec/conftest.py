# SPDX-License-Identifier: Apache-2.0
"""Gradients and every codec that loses something, in the settings that jobs use."""

from collections.abc import Mapping

import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.training.model import template
from agents.training.spec import ModelSpec
from tests.agents.mechanisms.codec.digests import LOSSY


def gradient(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, torch.Tensor]:
    """Standard normal numbers of a few scales."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * (0.002 * (place % 3 + 1))
        for place, (name, shape) in enumerate(sorted(shapes.items()))
    }


@pytest.fixture(scope="session")
def demo_shapes() -> dict[str, tuple[int, ...]]:
    """The demo model's tensors, 108,864 numbers."""
    return template(ModelSpec())


@pytest.fixture(params=LOSSY)
def lossy(request):
    """Each codec that loses something."""
    return codecs.get(request.param.partition(" ")[0])(**LOSSY[request.param])
