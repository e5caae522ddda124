# SPDX-License-Identifier: Apache-2.0
"""Checks that a difference looks like noise of the stated size, without knowing the noise.

A verifier that recomputed an update (`expected`) and has what was published (`measured`), both in
the codec's linear space, tests r = measured - expected against N(0, std^2) per coordinate:

* length: |r|^2 / std^2 is chi-square of k degrees. Bounds by Laurent & Massart 2000 (Lemma 1):
  P(X >= k + 2 sqrt(k x) + 2x) <= e^-x and P(X <= k - 2 sqrt(k x)) <= e^-x.
* direction: r . expected / (|expected| std) is standard normal; P(|Z| >= t) <= 2 exp(-t^2/2).

A stochastic rounding of deviation <= rounding_std after the noise has mean zero given the noise and
is sub-Gaussian, so the upper bounds hold with std^2 + rounding_std^2 (Hsu, Kakade & Zhang 2012,
Theorem 2.1) and the lower one loses the cross term. All bounds hold for every k, not only for large
ones; together they raise a false alarm with probability below 1e-9.

Privacy itself limits what this test can find: a test that told an honest update from noise alone
with false alarms a would have power at most e^epsilon * a + delta (Kairouz et al. 2015). At epsilon
8 and a = 1e-9 that is 4e-6. So zeros, wrong noise levels and updates far beyond the noise are
caught; one noise-only or sign-flipped update under strong noise is not. `power` says which is
which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.mechanisms.privacy.parts import options
from agents.mechanisms.privacy.parts.analytic import log_normal_cdf

FALSE_ALARM = 1e-9
# Three one-sided bounds at e^-x each, and a two-sided one at 2 e^-x.
_X = math.log(5.0 / FALSE_ALARM)
_T = math.sqrt(2.0 * _X)
_CLEAR = 0.9  # of a bound
_SLACK = 2.0**-9  # The noise's grid, and fp32: both far below.


@dataclass(frozen=True)
class NoiseCheck:
    """Outcome of `consistent`.

    Attributes:
        passed: nothing speaks against expected + noise.
        length: |r|^2 / (k (std^2 + rounding_std^2)); about 1 for honest noise.
        lowest, highest: bounds on `length`.
        direction: component of r along `expected` in deviations; honest within +-6.7.
        reason: a sentence if it did not pass, else "".
        clear: passed, with a tenth of each bound to spare: more than what machines that round
            otherwise find can differ by.
    """

    passed: bool
    length: float
    lowest: float
    highest: float
    direction: float
    reason: str
    clear: bool


def consistent(
    measured: NDArray[np.float64],
    expected: NDArray[np.float64],
    std: float,
    rounding_std: float = 0.0,
) -> NoiseCheck:
    """Whether `measured` may be `expected` + N(0, std^2) + rounding; float64 [k] each.

    ValueError for unequal shapes, k = 0, values that are not finite, or std <= 0.
    """
    one, other = np.asarray(measured, np.float64), np.asarray(expected, np.float64)
    if one.ndim != 1 or one.shape != other.shape or not one.size:
        raise ValueError(f"Vectors of shapes {one.shape} and {other.shape} can't be compared.")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("A vector to compare holds NaN or infinity.")
    lowest, highest, scale = _bounds(one.size, std, rounding_std)
    # Scaled first: squares of small noise would underflow.
    residual = (one - other) / scale
    length = float(residual @ residual) / one.size
    size = float(np.linalg.norm(other))
    direction = float(residual @ (other / size)) if size else 0.0
    reason = ""
    if length > highest:
        reason = f"it deviates {length:.4g} times as much as its noise allows ({highest:.4g})"
    elif length < lowest:
        reason = f"it deviates {length:.4g} times its noise, below {lowest:.4g}: noise is missing"
    elif abs(direction) > _T * (1.0 + _SLACK):
        reason = (
            f"its deviation along the expected update is {direction:.1f} deviations; honest noise "
            f"stays within {_T:.1f}"
        )
    spare = 1.0 - _CLEAR
    inner = lowest + spare * min(lowest, 1.0 - lowest), highest - spare * (highest - 1.0)
    clear = inner[0] <= length <= inner[1] and abs(direction) <= _CLEAR * _T
    return NoiseCheck(not reason, length, lowest, highest, direction, reason, clear)


def plausible(
    measured: NDArray[np.float64], clip: float, std: float, rounding_std: float = 0.0
) -> NoiseCheck:
    """Whether `measured` [k] may be *any* vector of norm <= `clip` with that noise on it.

    For screening where nobody else may recompute the update: missing or too little noise, zeros and
    norm blow-ups fail. `direction` is 0. Poisoners who share one noise vector pass; near-copies are
    found by comparing payloads. False alarms below 1e-9. ValueError as in `consistent`.
    """
    found = consistent(measured, np.zeros_like(measured), std, rounding_std)
    extra = options.clip_bound(clip) / (math.hypot(std, rounding_std) * math.sqrt(len(measured)))
    # | |noise| - C | <= |update + noise| <= |noise| + C.
    lowest = max(0.0, math.sqrt(found.lowest) - extra) ** 2
    highest = (math.sqrt(found.highest) + extra) ** 2
    reason = ""
    if not lowest <= found.length <= highest:
        reason = (
            f"its squared norm is {found.length:.4g} times that of its noise; an honest one stays "
            f"within {lowest:.4g}..{highest:.4g}"
        )
    return NoiseCheck(not reason, found.length, lowest, highest, 0.0, reason, not reason)


def accumulated(directions: Sequence[float]) -> float:
    """The `direction`s of several rounds as one standard normal: their sum over sqrt(rounds).

    A node that never sends its update but only noise drifts by -|expected| / std * sqrt(rounds).
    ValueError for none.
    """
    if not directions:
        raise ValueError("There is no round to accumulate.")
    return math.fsum(directions) / math.sqrt(len(directions))


def power(
    size: float, std: float, dimension: int, rounding_std: float = 0.0, rounds: int = 1
) -> dict[str, float]:
    """Chance that a cheat is found, by kind, for an expected update of norm `size` in k dimensions.

    `zero`: sends zeros without noise; `noise_only`: noise without an update; `sign_flip`: noise on
    the negated update; `twice_noise`: the update with 2 std. `rounds`: directions accumulated.
    Normal approximations of the two statistics, the better of both; lengths are of one round.
    """
    steps = options.whole("rounds", rounds, 1)
    k = options.whole("dimension", dimension, 1, 10**12)
    lowest, highest, scale = _bounds(k, std, rounding_std)
    shift = options.real("size", size, 0.0, 1e30) / scale
    limit = _T * (1.0 + _SLACK)

    def length(noncentral: float, spread: float) -> float:
        """P(length outside the bounds) for chi-square, noncentrality shift^2 over spread^2."""
        mean = (k * spread**2 + noncentral**2) / k
        deviation = math.sqrt(2.0 * k * spread**4 + 4.0 * noncentral**2 * spread**2) / k
        if not deviation:
            return float(not lowest <= mean <= highest)
        return min(1.0, _upper((highest - mean) / deviation) + _upper((mean - lowest) / deviation))

    def direction(drift: float) -> float:
        return _upper(limit - drift * math.sqrt(steps))

    return {
        "zero": length(shift, 0.0),
        "noise_only": max(length(shift, 1.0), direction(shift)),
        "sign_flip": max(length(2.0 * shift, 1.0), direction(2.0 * shift)),
        "twice_noise": length(0.0, 2.0),
    }


def _bounds(k: int, std: float, rounding_std: float) -> tuple[float, float, float]:
    """(lowest, highest) of |r|^2 / (k scale^2), and scale."""
    sigma = options.real("std", std, 1e-30, 1e30)
    rounding = options.real("rounding_std", rounding_std, 0.0, 1e30)
    scale = math.hypot(sigma, rounding)
    highest = 1.0 + 2.0 * math.sqrt(_X / k) + 2.0 * _X / k
    noise = sigma * math.sqrt(max(0.0, k - 2.0 * math.sqrt(k * _X)))
    # |n + e|^2 >= |n|^2 - 2 |n| rounding sqrt(2x), increasing in |n| from rounding sqrt(2x) on.
    cross = rounding * _T
    lowest = noise * (noise - 2.0 * cross) / (k * scale**2) if noise > 2.0 * cross else 0.0
    return lowest * (1.0 - _SLACK), highest * (1.0 + _SLACK), scale


def _upper(x: float) -> float:
    """P(Z > x)."""
    return math.exp(log_normal_cdf(-x))
