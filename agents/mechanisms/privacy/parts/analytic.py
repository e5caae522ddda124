# SPDX-License-Identifier: Apache-2.0
"""The exact closed form of the Gaussian mechanism without subsampling.

k releases with sensitivities D_i and noise s_i are together one Gaussian mechanism with
mu^2 = sum (D_i / s_i)^2 (Dong, Roth & Su 2022, "Gaussian differential privacy", Cor. 3.3), and

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

(Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8). Both
terms are taken as logarithms, since they under- and overflow where the difference does not.
Inversions end on the safe side: epsilon rounded up, mu rounded down.
"""

from __future__ import annotations

import math

_SERIES_BELOW = -25.0  # erfc keeps full precision above; below it runs into subnormals at -37.


def log_normal_cdf(x: float) -> float:
    """ln Phi(x); relative error below 1e-12 for x <= 0."""
    if x > _SERIES_BELOW:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    # Mills ratio: Phi(x) = phi(x)/|x| * (1 - 1/x^2 + 3/x^4 - 15/x^6 + ...).
    total, term = 1.0, 1.0
    for odd in range(1, 16, 2):
        term *= -odd / (x * x)
        total += term
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2.0 * math.pi) + math.log(total)


def delta_of(epsilon: float, mu: float) -> float:
    """Smallest delta for which a Gaussian mechanism of parameter mu is (epsilon, delta)-private."""
    if mu == 0.0:
        return 0.0
    first = log_normal_cdf(mu / 2.0 - epsilon / mu)
    second = epsilon + log_normal_cdf(-mu / 2.0 - epsilon / mu)
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def epsilon_of(mu: float, delta: float) -> float:
    """Smallest epsilon >= 0 for which mu is (epsilon, delta)-private, rounded up."""
    if delta_of(0.0, mu) <= delta:
        return 0.0
    # Phi(-t) <= exp(-t^2/2) bounds delta_of by delta at this epsilon.
    low, high = 0.0, mu * mu / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (low, middle) if delta_of(middle, mu) <= delta else (middle, high)
    return high


def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu that is (epsilon, delta)-private, rounded down by one part in 10^9."""
    low, high = 0.0, 1.0
    while delta_of(epsilon, high) <= delta:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if delta_of(epsilon, middle) <= delta else (low, middle)
    return low * (1.0 - 1e-9)


def multiplier_for(epsilon: float, delta: float, rounds: int) -> float:
    """Noise over sensitivity with which `rounds` releases together are (epsilon, delta)-private."""
    return math.sqrt(rounds) / mu_for(epsilon, delta)
