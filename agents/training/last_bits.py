# SPDX-License-Identifier: Apache-2.0
"""The same weights, other than in their last bits: what another machine might have rounded to."""

from __future__ import annotations

import torch

from agents.training.state import State

SHARE = 2.0**-22  # of a weight, which is fp32 in every job


def moved(state: State, seed: bytes, share: float = SHARE) -> State:
    """The same numbers, each larger or smaller by up to this share of itself; one that is too large
    for that stays. Everybody draws the same from a seed, of which the first 8 bytes count."""
    source = torch.Generator().manual_seed(int.from_bytes(seed[:8]) >> 1)
    drawn = {name: torch.rand(state[name].shape, generator=source) for name in sorted(state)}
    found = {}
    for name, tensor in state.items():
        other = tensor * (1 + share * (2 * drawn[name].to(tensor.device) - 1))
        found[name] = torch.where(torch.isfinite(other), other, tensor)
    return found
