# SPDX-License-Identifier: Apache-2.0
"""How near a payload is to the codec's own: never farther than the update that was sent, and far
for anything else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import EdgedCodec
from agents.training.norms import norm

SEED = b"\5" * 32
SHAPES = {"a": (96, 130), "b": (70,), "c": (8, 8)}
LOSSY: list[tuple[str, dict[str, Any]]] = [
    ("semantic", {"ratio": 100, "clip": 6}),
    (
        "semantic",
        {"ratio": 20, "clip": 0.5, "decoder": "shrunk", "error_feedback": True, "memory_rounds": 4},
    ),
    ("polytope", {}),
    ("cells", {"cell": 16, "fine": "b,c", "fine_share": 0.5}),
    ("cells", {"cell": 4, "share": 0.3, "gain": 2.0}),
    ("directions", {"cell": 16, "directions": 64, "fine": "c", "fine_share": 0.5}),
    ("directions", {"share": 0.5, "gain": 2.0}),
    ("sparse", {}),
    ("sparse", {"value_bits": 1}),
    ("demo", {}),
    ("demo", {"value_bits": 3}),
    ("demo", {"value_bits": 1}),
]
State = dict[str, torch.Tensor]


def drawn(seed: int, size: float = 0.01) -> State:
    source = torch.Generator().manual_seed(seed)
    return {
        name: size
        * torch.randn(shape, generator=source)
        * torch.exp(torch.randn(shape, generator=source))
        for name, shape in SHAPES.items()
    }


@pytest.mark.parametrize(("name", "options"), LOSSY)
def test_a_payload_is_never_farther_than_the_update_behind_it(
    name: str, options: dict[str, Any]
) -> None:
    """For updates from a rounding to a tenth away, and 0 for the codec's own payload."""
    codec = codecs.get(name)(**options)
    assert isinstance(codec, EdgedCodec)
    for seed in range(4):
        own, memory = drawn(seed), drawn(seed + 50, 0.005) if codec.has_memory else None
        assert codec.least_change(own, memory, codec.encode(own, memory, SEED), SEED) < 1e-12
        for far in (1e-6, 1e-4, 1e-3, 1e-2, 1e-1):
            step = drawn(seed + 100)
            share = far * norm(own) / norm(step)
            other = {key: own[key] + share * step[key] for key in own}
            away = norm({key: other[key] - own[key] for key in own})
            sent = codec.encode(other, memory, SEED)
            found = codec.least_change(own, memory, sent, SEED)
            assert found <= away * (1 + 1e-6) + 1e-9, f"{found} > {away}"


@pytest.mark.parametrize(("name", "options"), LOSSY)
def test_other_work_is_far_away(name: str, options: dict[str, Any]) -> None:
    """Somebody else's update, nothing at all, and, but where error feedback hides it, half."""
    codec = codecs.get(name)(**options)
    own, memory = drawn(1), drawn(51, 0.005) if codec.has_memory else None
    assert isinstance(codec, EdgedCodec)
    for other in (drawn(7), {key: torch.zeros_like(t) for key, t in own.items()}):
        sent = codec.encode(other, memory, SEED)
        assert codec.least_change(own, memory, sent, SEED) > 0.05 * norm(own)
    half = codec.encode({key: t / 2 for key, t in own.items()}, memory, SEED)
    assert codec.least_change(own, memory, half, SEED) > 0.005 * norm(own)
