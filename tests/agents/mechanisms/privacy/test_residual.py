# SPDX-License-Identifier: Apache-2.0
"""Checking noise without knowing it: honest noise passes, cheats fail where theory lets them."""

import math

import numpy as np
import pytest

from agents.mechanisms import privacy
from agents.mechanisms.privacy.parts.clipping import clip
from agents.mechanisms.privacy.parts.residual import (
    FALSE_ALARM,
    accumulated,
    consistent,
    plausible,
    power,
)
from tests.measure.studies.membership import flat, neighbours


def expected(k: int, size: float, seed: int = 0) -> np.ndarray:
    vector = np.random.default_rng(seed).standard_normal(k)
    return vector * size / np.linalg.norm(vector)


@pytest.mark.parametrize("k", [1, 2, 16, 1000, 200_000])
def test_honest_noise_passes(k):
    rng = np.random.default_rng(k)
    vector = expected(k, 1.0)
    for _ in range(200 if k < 10_000 else 5):
        verdict = consistent(vector + 0.3 * rng.standard_normal(k), vector, 0.3)
        assert verdict.passed, verdict.reason
        assert verdict.clear
        assert plausible(vector + 0.3 * rng.standard_normal(k), 1.0, 0.3).passed


@pytest.mark.parametrize("along", [False, True])
def test_what_is_at_the_edge_of_a_bound_passes_and_is_not_clear(along):
    """A machine that rounds otherwise may see it beyond the bound."""
    k, rng = 1000, np.random.default_rng(5)
    vector = expected(k, 1.0)
    noise = rng.standard_normal(k)
    noise -= vector * (noise @ vector) / (vector @ vector)
    noise *= math.sqrt(k) / np.linalg.norm(noise)
    highest = consistent(noise, np.zeros(k), 1.0).highest
    for share, clear in ((0.5, True), (0.97, False)):
        sent = noise * math.sqrt(1 + share * (highest - 1))
        if along:
            sent = noise + share * 6.68 * vector / np.linalg.norm(vector)
        verdict = consistent(vector + sent, vector, 1.0)
        assert (verdict.passed, verdict.clear) == (True, clear)


def test_bounds_are_those_of_the_false_alarm_rate():
    """Against the exact chi-square distribution, at every size."""
    from scipy.stats import chi2, norm

    assert FALSE_ALARM == 1e-9
    for k in (1, 10, 1000, 10**6):
        verdict = consistent(np.zeros(k), np.zeros(k), 1.0)
        alarms = chi2.sf(verdict.highest * k, k) + chi2.cdf(verdict.lowest * k, k)
        assert alarms + 2 * norm.sf(6.68) < FALSE_ALARM


def test_stochastic_rounding_is_allowed_for():
    rng = np.random.default_rng(1)
    k, step, sigma = 4000, 0.4, 0.3
    vector = expected(k, 1.0)
    for _ in range(50):
        noised = vector + sigma * rng.standard_normal(k)
        rounded = np.floor(noised / step + rng.random(k)) * step
        assert consistent(rounded, vector, sigma, rounding_std=step / 2).passed
    # The same values fail if rounding is denied.
    assert not consistent(rounded, vector, sigma).passed


@pytest.mark.parametrize("k", [500, 5000])
def test_missing_noise_and_wrong_noise_are_caught(k):
    vector, draw = expected(k, 1.0), np.random.default_rng(2).standard_normal(k)
    cases = {
        "zeros": np.zeros(k),
        "the update without noise": vector,
        "twice the noise": vector + 0.6 * draw,
        "a hundredth": vector + 0.003 * draw,
        "blown up": 100 * vector + 0.3 * draw,
    }
    for name, sent in cases.items():
        verdict = consistent(sent, vector, 0.3)
        assert not verdict.passed and verdict.reason, name


def test_a_wrong_update_is_caught_where_it_exceeds_the_noise():
    rng = np.random.default_rng(3)
    vector = expected(1000, 1.0)
    for _ in range(20):
        noise = 0.05 * rng.standard_normal(1000)
        assert not consistent(noise, vector, 0.05).passed
        assert not consistent(noise - vector, vector, 0.05).passed
        assert consistent(noise + vector, vector, 0.05).passed


def test_strong_noise_hides_a_wrong_update_in_one_round_and_not_in_many():
    """Node-level privacy of epsilon 8 is exactly the promise that it hides."""
    rng = np.random.default_rng(4)
    sigma = 1.3
    vector = expected(256, 1.0)
    lazy, honest = [], []
    for _ in range(400):
        noise = sigma * rng.standard_normal(256)
        verdict = consistent(noise, vector, sigma)
        assert verdict.passed
        lazy.append(verdict.direction)
        honest.append(consistent(vector + noise, vector, sigma).direction)
    assert accumulated(lazy) < -6.7
    assert abs(accumulated(honest)) < 6.7


def test_power_predicts_what_happens():
    rng = np.random.default_rng(5)
    k, sigma, size = 400, 0.12, 1.0
    vector = expected(k, size)
    stated = power(size, sigma, k)
    caught = {"zero": 0, "noise_only": 0, "sign_flip": 0, "twice_noise": 0}
    for _ in range(400):
        noise = sigma * rng.standard_normal(k)
        sent = {
            "zero": np.zeros(k),
            "noise_only": noise,
            "sign_flip": noise - vector,
            "twice_noise": vector + 2 * noise,
        }
        for name, value in sent.items():
            caught[name] += not consistent(value, vector, sigma).passed
    for name, count in caught.items():
        assert count / 400 == pytest.approx(stated[name], abs=0.08), name
    assert 0.9 < stated["noise_only"] < 1.0  # a case in which it is not obvious


def test_privacy_bounds_the_power():
    """No test with false alarms a tells update + noise from noise better than e^eps a + delta."""
    epsilon, delta = 8.0, 1e-6
    mechanism = privacy.get("gaussian")(clip=1.0, epsilon=epsilon, rounds=1)
    for k in (256, 10**6):
        found = power(1.0, mechanism.sigma, k)["noise_only"]
        assert found <= math.exp(epsilon) * FALSE_ALARM + delta
    assert power(1.0, mechanism.sigma, 10**6, rounds=200)["noise_only"] > 0.99


def test_released_updates_pass_and_a_noised_merge_too():
    update, _ = neighbours()
    mechanism = privacy.get("gaussian")(clip=0.5, noise_multiplier=1.0)
    clipped = flat(clip(update, 0.5))
    assert consistent(flat(mechanism.release(update)), clipped, mechanism.sigma).passed
    merged = privacy.get("aggregate")(clip=0.5, noise_multiplier=1.0)
    out = flat(merged.release_merged(update, "mean", 8))
    assert consistent(out, clipped, merged.sigma("mean", 8)).passed
    assert not consistent(out, clipped, 0.02 * merged.sigma("mean", 8)).passed


def test_screening_by_norm_alone():
    k, sigma = 10_000, 0.5
    noise = sigma * np.random.default_rng(6).standard_normal(k)
    assert not plausible(np.zeros(k), 1.0, sigma).passed
    assert not plausible(expected(k, 1.0), 1.0, sigma).passed
    assert not plausible(3 * noise, 1.0, sigma).passed
    assert not plausible(noise + expected(k, 80.0), 1.0, sigma).passed


@pytest.mark.parametrize(
    "wrong",
    [
        (np.zeros(3), np.zeros(4), 1.0),
        (np.zeros(0), np.zeros(0), 1.0),
        (np.zeros((2, 2)), np.zeros((2, 2)), 1.0),
        (np.array([math.nan]), np.zeros(1), 1.0),
        (np.zeros(3), np.zeros(3), 0.0),
        (np.zeros(3), np.zeros(3), math.inf),
    ],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError):
        consistent(*wrong)
    with pytest.raises(ValueError):
        accumulated([])
