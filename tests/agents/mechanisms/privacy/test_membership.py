# SPDX-License-Identifier: Apache-2.0
"""The privacy test of ZIP-400, with power: it accepts the mechanisms and catches broken ones."""

import numpy as np
import pytest
import torch

from agents.mechanisms import privacy
from agents.mechanisms.privacy.parts.clipping import clip, norm
from agents.mechanisms.privacy.parts.noise import noised
from tests.measure.studies.membership import (
    lower_bound,
    neighbours,
    node_bound,
    sampled_bound,
    sampled_claim,
)
from tests.stage.memory.seeded_noise import Seeded

EPSILON = 2.0


def test_neighbours_are_the_worst_case_after_clipping():
    one, two = (clip(update, 0.5) for update in neighbours())
    gap = norm({name: one[name] - two[name] for name in one})
    assert gap == pytest.approx(1.0, rel=1e-5)  # 2C


def test_claim_holds_and_the_test_comes_near_it():
    assert 0.6 * EPSILON < node_bound(EPSILON, 1.0) < EPSILON


def test_noise_off_is_caught():
    assert node_bound(EPSILON, 0.0) > 4 * EPSILON


def test_noise_for_sensitivity_c_instead_of_2c_is_caught():
    assert node_bound(EPSILON, 0.5) > 1.3 * EPSILON


def test_the_draws_are_what_the_mechanism_releases():
    """`node_scores` tiles the clipped update; `release` of one update gives the same values."""
    mechanism = privacy.get("gaussian")(clip=0.5, noise_multiplier=1.5)
    update, _ = neighbours()
    released = mechanism.release(update, Seeded(3))
    clipped = clip(update, 0.5)
    rng = Seeded(3)
    for name in sorted(update):
        values = clipped[name].reshape(-1).numpy()
        again = noised(values, 1.5 * 1.0, rng)
        assert np.array_equal(released[name].reshape(-1).numpy(), again)


def test_secret_sampling_keeps_its_claim_and_public_batches_break_it():
    claim = sampled_claim(0.1, 1.0, 10)
    assert 0.4 * claim < sampled_bound(0.1, 1.0, 10) < claim
    assert sampled_bound(1.0, 1.0, 10) > 2 * claim
    assert sampled_bound(1.0, 1.0, 10) < sampled_claim(1.0, 1.0, 10)


def test_equal_distributions_show_nothing():
    draws = torch.randn(2, 50_000, generator=torch.Generator().manual_seed(0)).numpy()
    assert lower_bound(draws[0], draws[1]) < 0.05
