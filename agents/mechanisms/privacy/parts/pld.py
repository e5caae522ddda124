# SPDX-License-Identifier: Apache-2.0
"""Subsampled steps, composed through privacy loss distributions as upper bounds.

The library dp-accounting discretises each privacy loss pessimistically ("connect the dots":
Doroshenko et al. 2022), so the epsilon it gives is an upper bound at every grid width; a coarser
grid only makes it larger. A fine grid is paid for where the answer matters: if the coarse bound is
already beyond twice the budget, it stands. Both steps keep epsilon monotone in the steps taken.
Steps without subsampling enter as one Gaussian mechanism (see
`agents.mechanisms.privacy.parts.analytic`).
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

_FINE, _COARSE = 2.0**-15, 2.0**-11  # Of the budget; powers of two, so that grids align.


class ExtraMissing(RuntimeError):
    """An optional library that this account needs is not installed."""


def epsilon_of(
    steps: dict[tuple[float, float], int],
    spend: float,
    delta: float,
    budget: float,
    enough: float = 0.0,
) -> float:
    """Upper bound on epsilon.

    Args:
        steps: {(noise multiplier, probability < 1): number of steps}, not empty.
        spend: sum of (sensitivity / noise)^2 of everything without subsampling.
        delta: of the whole account.
        budget: the epsilon that matters; far above it, a coarse bound is good enough.
        enough: a coarse bound up to this is good enough, too.

    Raises:
        ExtraMissing: dp-accounting is not installed.
    """
    scale = 2.0 ** math.floor(math.log2(max(8.0, min(budget, 128.0))))
    coarse = _epsilon(steps, spend, delta, _COARSE * scale)
    if coarse <= enough or coarse > 2.0 * budget:
        return coarse
    return min(coarse, _epsilon(steps, spend, delta, _FINE * scale))


def _epsilon(
    steps: dict[tuple[float, float], int], spend: float, delta: float, width: float
) -> float:
    parts = [_step(*key, width).self_compose(count) for key, count in sorted(steps.items())]
    if spend:
        parts.append(_step(1.0 / math.sqrt(spend), 1.0, width))
    total = functools.reduce(lambda one, other: one.compose(other), parts)
    return float(total.get_epsilon_for_delta(delta))


@functools.lru_cache(maxsize=64)
def _step(noise_multiplier: float, probability: float, width: float) -> Any:
    try:
        library: Any = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise ExtraMissing(
            "Accounting for subsampled noise (dp_sgd) needs the package dp-accounting; "
            "install the extra: pip install 'menagerie[privacy]'."
        ) from error
    return library.from_gaussian_mechanism(
        standard_deviation=noise_multiplier,
        sensitivity=1.0,
        sampling_prob=probability,
        value_discretization_interval=width,
        use_connect_dots=True,
    )
