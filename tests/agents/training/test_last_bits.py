# SPDX-License-Identifier: Apache-2.0
"""Weights that are moved in their last bits."""

from __future__ import annotations

import torch

from agents.training import last_bits

STATE = {"one": torch.linspace(0.5, 2.0, 1000).reshape(200, 5), "two": torch.ones(7)}
SEED = bytes(range(32))


def test_each_weight_moves_by_up_to_the_share_either_way() -> None:
    found = last_bits.moved(STATE, SEED, 2.0**-10)
    assert found.keys() == STATE.keys()
    moves = torch.cat([(found[name] / STATE[name] - 1).flatten() for name in sorted(STATE)])
    assert moves.abs().max() <= 2.0**-10 * 1.001
    assert moves.min() < -(2.0**-11) and moves.max() > 2.0**-11
    assert abs(float(moves.mean())) < 2.0**-14


def test_by_default_it_is_the_last_bits_of_fp32() -> None:
    found = last_bits.moved(STATE, SEED)
    steps = (found["one"].view(torch.int32) - STATE["one"].view(torch.int32)).abs()
    assert 1 <= int(steps.max()) <= 4


def test_what_is_too_large_to_be_moved_stays() -> None:
    """Else a state with such numbers would be apart from itself by more than any distance."""
    most = {"w": torch.full((200,), torch.finfo(torch.float32).max)}
    found = last_bits.moved(most, SEED)["w"]
    assert bool(torch.isfinite(found).all()) and bool((found == most["w"]).any())


def test_everybody_draws_the_same_from_one_seed() -> None:
    here, there = last_bits.moved(STATE, SEED), last_bits.moved(dict(reversed(STATE.items())), SEED)
    other = last_bits.moved(STATE, bytes(32))
    assert all(torch.equal(here[name], there[name]) for name in STATE)
    assert not torch.equal(here["one"], other["one"])
