# SPDX-License-Identifier: Apache-2.0
"""Checks of the options of privacy mechanisms: exact type and range, or refusal.

A bool is no number, NaN is in no range, and an int is taken for a float.
"""

from __future__ import annotations

import math

MIN_NOISE, MAX_NOISE = 0.01, 1e6
"""Noise multipliers outside promise nothing (epsilon > 5,000 a round) or leave no signal."""
MAX_STEPS = 10**9


def real(name: str, value: object, low: float, high: float) -> float:
    """`value` as a float in [low, high]; ValueError says which option is wrong and why."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}.")
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name} must lie in {low:g}..{high:g}, got {value!r}.")
    return float(value)


def whole(name: str, value: object, low: int, high: int = MAX_STEPS) -> int:
    """`value` as an int in [low, high]; ValueError says which option is wrong and why."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {type(value).__name__}.")
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in {low}..{high}, got {value}.")
    return value


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """`value` if it is one of `allowed`, else ValueError."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {str(value)[:64]!r}.")
    return value


def clip_bound(value: object) -> float:
    """A clipping bound: positive and far from the ends of fp32."""
    return real("clip", value, 1e-12, 1e12)


def noise_multiplier(value: object) -> float:
    """Noise standard deviation over sensitivity."""
    return real("noise_multiplier", value, MIN_NOISE, MAX_NOISE)


def budget(max_epsilon: object, delta: object) -> tuple[float, float]:
    """(max_epsilon, delta) of an account.

    A delta above 0.01 % would allow publishing one node in 10,000 outright, so it is refused.
    """
    return real("max_epsilon", max_epsilon, 1e-6, 1e6), real("delta", delta, 1e-15, 1e-4)
