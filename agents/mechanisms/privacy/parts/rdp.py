# SPDX-License-Identifier: Apache-2.0
"""Renyi accounting as in ZIP-400: an upper bound, reported beside the tight figure.

One step of the Gaussian mechanism with noise multiplier z on a Poisson sample of rate q has at the
integer order a (Mironov, Talwar & Zhang 2019, "Renyi differential privacy of the sampled Gaussian
mechanism", section 3.3)

    RDP(a) = ln( sum_k C(a,k) (1-q)^(a-k) q^k exp((k^2 - k) / (2 z^2)) ) / (a - 1)

which is a / (2 z^2) for q = 1. RDP adds up over steps. ZIP-400 leaves the conversion undefined; it
is read as Mironov 2017 ("Renyi differential privacy", Prop. 3): epsilon = min_a RDP(a) +
ln(1/delta)/(a-1). It is a valid upper bound, but loose (docs/privacy.md).
"""

from __future__ import annotations

import functools
import math

ORDERS = range(2, 128)


@functools.lru_cache(maxsize=1024)
def step_rdp(noise_multiplier: float, probability: float) -> tuple[float, ...]:
    """RDP of one step at each of `ORDERS`."""
    half = 0.5 / (noise_multiplier * noise_multiplier)
    if probability == 1.0:
        return tuple(order * half for order in ORDERS)
    log_q, log_rest = math.log(probability), math.log1p(-probability)
    curve = []
    for order in ORDERS:
        terms = [
            math.lgamma(order + 1)
            - math.lgamma(k + 1)
            - math.lgamma(order - k + 1)
            + (order - k) * log_rest
            + k * log_q
            + (k * k - k) * half
            for k in range(order + 1)
        ]
        top = max(terms)
        total = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        curve.append(max(0.0, total) / (order - 1))
    return tuple(curve)


def epsilon_of(steps: dict[tuple[float, float], int], delta: float) -> float:
    """Epsilon of `steps`: {(noise multiplier, probability): number of steps}; 0.0 for none."""
    if not steps:
        return 0.0
    curves = [(step_rdp(*key), count) for key, count in sorted(steps.items())]
    return min(
        math.fsum(curve[index] * count for curve, count in curves)
        + math.log(1.0 / delta) / (order - 1)
        for index, order in enumerate(ORDERS)
    )
