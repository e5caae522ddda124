# SPDX-License-Identifier: Apache-2.0
"""Local noise against robust merging: the estimate is that of real vectors, and it counts."""

import numpy as np
import pytest

from agents.mechanisms.privacy.parts import analytic
from agents.mechanisms.privacy.parts.blinding import Blinded, check_blinding, estimate, multi_krum


def simulated(d: int, sigma: float, n: int, f: int, silent: bool, trials: int = 150) -> float:
    """Poisoners' share with real vectors instead of Gram matrices."""
    rng = np.random.default_rng(0)
    total = 0
    for _ in range(trials):
        common = rng.standard_normal(d)
        rows = np.sqrt(0.5) * common / np.linalg.norm(common) + np.zeros((n, d))
        for row in rows[f:]:
            own = rng.standard_normal(d)
            own -= (own @ common) / (common @ common) * common
            row += np.sqrt(0.5) * own / np.linalg.norm(own)
        mean = rows[f:].mean(axis=0)
        rows[:f] = -mean / np.linalg.norm(mean)
        rows[f if silent else 0 :] += sigma * rng.standard_normal((n - f if silent else n, d))
        total += int((multi_krum(rows @ rows.T, f, n - f - 2) < f).sum())
    return total / (trials * (n - f - 2))


@pytest.mark.parametrize(("d", "sigma"), [(2000, 0.0), (2000, 0.06), (2000, 0.65), (15, 0.3)])
@pytest.mark.parametrize("silent", [False, True])
def test_estimate_agrees_with_real_vectors(d, sigma, silent):
    found = estimate(d, sigma, 1.0, 10, 3, silent=silent)
    assert found.selected == pytest.approx(simulated(d, sigma, 10, 3, silent), abs=0.06)


def test_at_epsilon_eight_poisoners_are_selected_by_chance():
    """ZIP-400's setting: 10 nodes, 3 sign flippers, epsilon 8 in a single round, 256 dimensions."""
    sigma = analytic.multiplier_for(8.0, 1e-6, 1)  # 0.65, even at ZIP-400's sensitivity of 1
    found = estimate(256, sigma, 1.0, 10, 3)
    assert found.selected == pytest.approx(found.chance, abs=0.05)
    assert found.cosine < 0.15
    clean = estimate(256, 0.0, 1.0, 10, 3)
    assert clean.selected == 0.0 and clean.cosine > 0.9


def test_poisoners_without_noise_are_preferred():
    found = estimate(10**6, 1.3, 1.0, 10, 3, silent=True)
    assert found.selected == pytest.approx(3 / 5)
    assert found.cosine < 0


def test_projecting_the_noised_update_blinds_further():
    sigma = 0.05
    whole = estimate(10_000, sigma, 1.0, 10, 3)
    kept = estimate(10_000, sigma, 1.0, 10, 3, projected=100)
    assert whole.selected < 0.1 and kept.selected > 0.25
    assert kept == estimate(100, 10 * sigma, 1.0, 10, 3)
    assert estimate(100, sigma, 1.0, 10, 3, projected=200) == estimate(100, sigma, 1.0, 10, 3)


def test_scale_does_not_matter():
    assert estimate(500, 0.2, 1.0, 10, 3) == estimate(500, 20.0, 100.0, 10, 3)


def test_blinding_noise_is_refused_with_the_figures_or_accepted_with_a_warning():
    with pytest.raises(Blinded, match=r"60 % of the selected, chance is 30 %.*aggregate"):
        check_blinding(10**6, 1.3, 1.0, 10)
    warning = check_blinding(10**6, 1.3, 1.0, 10, accept=True)
    assert warning is not None and "chance is 30 %" in warning


def test_mild_noise_is_accepted():
    assert check_blinding(256, 0.003, 1.0, 10) is None
    assert check_blinding(10**6, 0.0, 1.0, 10) is None


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_too_few_nodes_to_have_poisoners(nodes):
    assert check_blinding(1000, 10.0, 1.0, nodes) is None


@pytest.mark.parametrize(
    "wrong",
    [(0, 1.0, 1.0, 10, 3), (9, -1.0, 1.0, 10, 3), (9, 1.0, 0.0, 10, 3), (9, 1.0, 1.0, 8, 3)],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError):
        estimate(*wrong)
