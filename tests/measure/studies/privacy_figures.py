# SPDX-License-Identifier: Apache-2.0
"""Every figure of docs/privacy.md except the membership test's: `python -m
tests.measure.studies.privacy_figures`."""

from __future__ import annotations

import math
import time

import torch
from dp_accounting.pld import privacy_loss_distribution as library

from agents.mechanisms.privacy import Accountant, Charge
from agents.mechanisms.privacy.aggregate import REASONS, RELEASES, sensitivity
from agents.mechanisms.privacy.parts import analytic, clipping, noise
from agents.mechanisms.privacy.parts.blinding import estimate
from agents.mechanisms.privacy.parts.residual import power

DELTA = 1e-6
TIMES = (1, 10, 100, 1000)
CHEATS = ("zero", "twice_noise", "noise_only", "sign_flip")


def account(multiplier: float, steps: int, q: float) -> Accountant:
    """An account that has spent just this."""
    found = Accountant(1e6 if q == 1.0 else 16.0, DELTA)
    found.record_participation(Charge("example", multiplier, q, steps))
    return found


def table(q: float) -> None:
    """Epsilon: enforced, dp-accounting's (grid 1e-4, 1,000 steps of q = 1 at 1e-2), and Renyi."""
    print(f"\nepsilon at delta {DELTA:g}, q = {q:g}: enforced / dp-accounting / Renyi 2..127")
    for multiplier in (0.5, 1.0, 2.0, 4.0):
        cells = []
        for steps in TIMES:
            width = 1e-4 if q < 1.0 else 1e-3 if steps < 1000 else 1e-2
            theirs = library.from_gaussian_mechanism(
                multiplier, sampling_prob=q, value_discretization_interval=width
            ).self_compose(steps)
            mine = account(multiplier, steps, q)
            cells.append(
                f"{mine.epsilon():.4g} / {theirs.get_epsilon_for_delta(DELTA):.4g} / "
                f"{mine.epsilon_rdp():.4g}"
            )
        print(f"  noise {multiplier:g}: " + "; ".join(cells))


def mistakes() -> None:
    """ZIP-400's sensitivity and sigma."""
    print("\nZIP-400: a whole update clipped to 1, noise for sensitivity 1; epsilon it really has")
    for nominal in (1.0, 8.0):
        classic = math.sqrt(2.0 * math.log(1.25 / DELTA)) / nominal
        tight = analytic.multiplier_for(nominal, DELTA, 1)
        print(
            f"  nominal {nominal:g}: {analytic.epsilon_of(2.0 / classic, DELTA):.2f} (its sigma), "
            f"{analytic.epsilon_of(2.0 / tight, DELTA):.2f} (analytic sigma)"
        )
    print("its sigma formula with the right sensitivity")
    for nominal in (1.0, 8.0, 10.0, 100.0):
        classic = math.sqrt(2.0 * math.log(1.25 / DELTA)) / nominal
        print(f"  nominal {nominal:g}: {analytic.epsilon_of(1.0 / classic, DELTA):.2f}")


def blinding() -> None:
    """Multi-Krum under local noise, and the aggregator's noise beside it."""
    print(
        "\n10 nodes, 3 sign flippers, C = 1: share selected (chance 30 %), cosine; silent poisoners"
    )
    for epsilon, rounds in ((8.0, 1), (8.0, 10)):
        sigma = 2.0 * analytic.multiplier_for(epsilon, DELTA, rounds)
        for kept in (256, 10_000, 1_000_000):
            cells = [
                f"{100 * found.selected:.0f} %, {found.cosine:.3f}"
                for found in (
                    estimate(1_000_000, sigma, 1.0, 10, 3, silent=silent, projected=kept)
                    for silent in (False, True)
                )
            ]
            print(
                f"  epsilon {epsilon:g} in {rounds} rounds (sigma {sigma:.2f}), {kept:,} of "
                f"1,000,000 dimensions: {'; '.join(cells)}"
            )
    print("the same, noise small enough to merge: sigma, d = 1,000,000")
    for sigma in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1):
        noised, silent = (
            estimate(1_000_000, sigma, 1.0, 10, 3, silent=how) for how in (False, True)
        )
        print(
            f"  sigma {sigma:g}, epsilon a round {analytic.epsilon_of(2.0 / sigma, DELTA):.3g}: "
            f"{100 * noised.selected:.0f} %, {noised.cosine:.2f}; {100 * silent.selected:.0f} %"
        )
    print("cosine of honest sum + noise to the honest sum, epsilon 8 in 10 rounds, d = 1,000,000")
    multiplier = analytic.multiplier_for(8.0, DELTA, 10)
    charged = analytic.multiplier_for(8.0, DELTA, 10 * RELEASES)
    for nodes in (10, 100, 1000, 10_000):
        # Identical updates of norm 1, the best case for the signal.
        local = multiplier * 2.0 * math.sqrt(1e6 / nodes)
        once, all_charged = (
            each * sensitivity("mean", nodes, 1.0) * 1e3 for each in (multiplier, charged)
        )
        print(
            f"  n = {nodes}: {1 / math.hypot(1, local):.3f} noise at each node, "
            f"{1 / math.hypot(1, once):.3f} noise on the mean by the aggregator, "
            f"{1 / math.hypot(1, all_charged):.3f} with the {RELEASES} releases a round that a "
            "node is charged for"
        )


def residuals() -> None:
    """What checking a noised update finds."""
    print("\nchance that a cheat is found, false alarms < 1e-9, |update| = C, noise for 2C")
    for epsilon, dimension, rounds in ((8.0, 10**4, 1), (8.0, 10**4, 100), (1e3, 10**4, 1)):
        sigma = 2.0 * analytic.multiplier_for(epsilon, DELTA, 1)
        found = power(1.0, sigma, dimension, rounds=rounds)
        cells = ", ".join(f"{name} {found[name]:.2g}" for name in CHEATS)
        print(f"  epsilon {epsilon:g} a round, k = {dimension}, {rounds} rounds: {cells}")


def speed() -> None:
    """Clipping, noise and the slowest account query, once each."""
    print("\nspeed, one run each on this machine")
    update = {"a": torch.randn(4_000_000)}
    start = time.perf_counter()
    clipped = clipping.clip(update, 1.0)
    middle = time.perf_counter()
    noise.add(clipped, 1.0, None)
    end = time.perf_counter()
    print(f"  clip {4 / (middle - start):.0f} M/s, noise {4 / (end - middle):.0f} M/s elements")
    for q, multiplier, steps in ((0.01, 0.6, 5000), (0.01, 1.0, 10_000), (0.1, 4.0, 5000)):
        fresh = Accountant(8.0, DELTA)
        start = time.perf_counter()
        answer = fresh.can_participate(Charge("example", multiplier, q, steps))
        took = time.perf_counter() - start
        start = time.perf_counter()
        fresh.can_participate(Charge("example", multiplier, q, steps + 1))
        print(
            f"  can_participate, q {q:g}, noise {multiplier:g}, {steps} steps: {answer}, "
            f"{took:.2f} s the first time, {time.perf_counter() - start:.2f} s the next"
        )


def main() -> None:
    torch.set_num_threads(1)
    table(1.0)
    table(0.01)
    mistakes()
    blinding()
    residuals()
    print("\nsensitivity of a merge of 10 updates clipped to C = 1")
    for rule in sorted(REASONS):
        print(f"  {rule}: {sensitivity(rule, 10, 1.0):g}: {REASONS[rule]}")
    speed()


if __name__ == "__main__":
    main()
