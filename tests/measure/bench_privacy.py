# SPDX-License-Identifier: Apache-2.0
"""Privacy: the account against dp-accounting and Opacus, and the speed of clipping and noise."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from dp_accounting.pld import privacy_loss_distribution as dp_accounting
from opacus.accountants.analysis import rdp as opacus

from agents.mechanisms.privacy import Accountant, Charge
from agents.mechanisms.privacy.parts import clipping, noise, rdp
from tests.measure.rows import Row

DELTA = 1e-6
_NOISE = (0.5, 1.0, 2.0, 4.0)
_STEPS = (1, 10, 100, 1000)
_ELEMENTS = 4_000_000


def enforced(multiplier: float, q: float, steps: int) -> float:
    """Epsilon that the account enforces after `steps` releases."""
    account = Accountant(1e6 if q == 1.0 else 16.0, DELTA)
    return account.epsilon_after(Charge("example", multiplier, q, steps))


def library(multiplier: float, q: float, steps: int) -> float:
    """The same by dp-accounting; its grid is fine enough for three digits."""
    width = 2.0**-13 if q < 1.0 else 2.0**-10 if steps < 1000 else 2.0**-6
    one = dp_accounting.from_gaussian_mechanism(
        multiplier, sampling_prob=q, value_discretization_interval=width
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(DELTA))


def worst(mine: Callable[..., float], theirs: Callable[..., float], q: float) -> float:
    """Largest relative difference over the table of noise multipliers and steps."""
    pairs = [(mine(z, q, steps), theirs(z, q, steps)) for z in _NOISE for steps in _STEPS]
    return max(abs(one - other) / other for one, other in pairs)


def curve(multiplier: float, q: float, steps: int) -> float:
    """Sum of the Renyi curve over its orders, which compares all of them."""
    return math.fsum(steps * part for part in rdp.step_rdp(multiplier, q))


def opacus_curve(multiplier: float, q: float, steps: int) -> float:
    """The same by Opacus."""
    orders = list(rdp.ORDERS)
    found = opacus.compute_rdp(q=q, noise_multiplier=multiplier, steps=steps, orders=orders)
    return math.fsum(float(part) for part in found)


def rows() -> list[Row]:
    """Differences over the whole table, and elements a second."""
    found = []
    for q in (1.0, 0.01):
        gap = worst(enforced, library, q)
        found.append(
            Row(
                f"epsilon, q = {q:g}, 16 settings",
                f"within {100 * gap:.2f} % of dp-accounting",
                "<= 0.5 %",
                gap <= 0.005,
            )
        )
        gap = worst(curve, opacus_curve, q)
        found.append(
            Row(
                f"Renyi orders 2..127, q = {q:g}",
                f"within {100 * gap:.1g} % of Opacus",
                "<= 0.1 %",
                gap <= 0.001,
            )
        )
    update = {"a": torch.randn(_ELEMENTS)}
    start = time.perf_counter()
    clipped = clipping.clip(update, 1.0)
    middle = time.perf_counter()
    noise.add(clipped, 1.0, None)
    end = time.perf_counter()
    found.append(Row("clip an update", f"{_ELEMENTS / (middle - start) / 1e6:.0f} M elements/s"))
    found.append(Row("secret noise", f"{_ELEMENTS / (end - middle) / 1e6:.0f} M elements/s"))
    return found


if __name__ == "__main__":
    for row in rows():
        print(f"{row.figure}: {row.measured} {row.goal and f'(goal {row.goal})'}")
