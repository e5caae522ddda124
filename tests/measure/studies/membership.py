# SPDX-License-Identifier: Apache-2.0
"""A statistical test of a privacy claim, with power: `python -m tests.measure.studies.membership`.

Two neighbouring data sets, many releases of each; the attacker knows both data sets, the mechanism
and its noise, and must tell from a release which one was used. It uses the likelihood ratio, which
no other test beats (Neyman & Pearson). From its hits and false alarms follows a lower bound on
epsilon (Jagielski, Ullman & Oprea 2020): every (epsilon, delta)-private mechanism has TPR <=
exp(epsilon) FPR + delta. The threshold is chosen on one half of the draws and the rates are bounded
on the other, each by Clopper & Pearson at 99.9 %, so an honest mechanism is accused wrongly once in
500 runs at most, and far less since the bound isn't tight.

The data sets: a node's examples, and the same node's examples with every label turned round. The
updates: the gradient of logistic regression on each. They are opposed, hence 2C apart when clipped:
the worst case that the claim is about.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta

from agents.mechanisms.privacy import Accountant, Charge
from agents.mechanisms.privacy.parts import analytic, noise
from agents.mechanisms.privacy.parts.clipping import clip
from agents.mechanisms.privacy.parts.noise import Generator
from tests.stage.memory.seeded_noise import Seeded

DELTA = 1e-4
CONFIDENCE = 0.999
Update = dict[str, torch.Tensor]
Vector = NDArray[np.float64]


def neighbours(seed: int = 7, examples: int = 64, features: int = 15) -> tuple[Update, Update]:
    """Gradients of a logistic regression at 0 on a data set and on its replacement."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, features, generator=generator)
    truth = torch.randn(features, generator=generator)
    labels = (inputs @ truth > 0).float()

    def gradient(targets: torch.Tensor) -> Update:
        model = torch.nn.Linear(features, 1)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            model(inputs).squeeze(1), targets, reduction="sum"
        )
        loss.backward()
        return {name: p.grad.detach().clone() for name, p in model.named_parameters()}

    return gradient(labels), gradient(1.0 - labels)


def flat(update: Update) -> NDArray[np.float32]:
    """The update as one vector, names ascending."""
    return np.concatenate([update[name].reshape(-1).numpy() for name in sorted(update)])


def node_scores(
    update: Update, other: Update, bound: float, sigma: float, draws: int, rng: Generator
) -> Vector:
    """Log likelihood ratios, up to scale, of `draws` releases of `update`; `sigma` 0: noise off."""
    one, two = flat(clip(update, bound)), flat(clip(other, bound))
    released = np.tile(one, (draws, 1))
    if sigma:
        released = noise.noised(released.reshape(-1), sigma, rng).reshape(released.shape)
    direction = one.astype(np.float64) - two
    return np.asarray(released.astype(np.float64) @ direction)


def sampled_scores(
    member: bool, q: float, multiplier: float, steps: int, draws: int, rng: Generator
) -> Vector:
    """Log likelihood ratios of DP-SGD runs that hold one more example, or don't.

    Observed: the component of each step's noised sum along that example's clipped gradient; the
    rest is the same in both worlds. `q` is the rate with which the sampling is really done.
    """
    shape = (draws, steps)
    seen = multiplier * noise.normals(draws * steps, rng).reshape(shape)
    if member:
        coin = rng.words(draws * steps).astype(np.float64).reshape(shape) * 2.0**-64
        seen = seen + (coin < q)
    absent = math.log1p(-q) if q < 1.0 else -math.inf
    ratio = np.logaddexp(absent, math.log(q) + (seen - 0.5) / multiplier**2)
    return np.asarray(ratio.sum(axis=1))


def lower_bound(inside: Vector, outside: Vector, delta: float = DELTA) -> float:
    """Epsilon is at least this, with confidence 99.8 %; 0.0 if nothing is shown.

    `inside`: scores of the data set that the test looks for; `outside`: of its neighbour.
    """
    half_in, half_out = len(inside) // 2, len(outside) // 2
    levels = np.quantile(outside[:half_out], 1.0 - np.geomspace(3e-4, 0.5, 40))
    best = max(levels, key=lambda t: _epsilon(inside[:half_in], outside[:half_out], t, delta))
    return _epsilon(inside[half_in:], outside[half_out:], float(best), delta)


def _epsilon(inside: Vector, outside: Vector, threshold: float, delta: float) -> float:
    hits, alarms = int((inside > threshold).sum()), int((outside > threshold).sum())
    least = float(beta.ppf(1.0 - CONFIDENCE, hits, len(inside) - hits + 1)) if hits else 0.0
    most = (
        float(beta.ppf(CONFIDENCE, alarms + 1, len(outside) - alarms))
        if (alarms < len(outside))
        else 1.0
    )
    return max(0.0, math.log((least - delta) / most)) if least > delta else 0.0


def node_bound(
    epsilon: float, sigma_per_claim: float, draws: int = 200_000, seed: int = 1
) -> float:
    """Lower bound for the Gaussian mechanism calibrated to `epsilon` at sensitivity 2C.

    `sigma_per_claim`: 1.0 uses the noise that the claim needs, 0.5 what sensitivity C would ask
    for (ZIP-400), 0.0 none.
    """
    bound = 0.5
    sigma = sigma_per_claim * analytic.multiplier_for(epsilon, DELTA, 1) * 2.0 * bound
    one, two = neighbours()
    rng = Seeded(seed)
    inside = node_scores(one, two, bound, sigma, draws, rng)
    outside = -node_scores(two, one, bound, sigma, draws, rng)
    return lower_bound(inside, outside)


def sampled_claim(q: float, multiplier: float, steps: int) -> float:
    """Epsilon that the account states for such a DP-SGD run."""
    return Accountant(8.0, DELTA).epsilon_after(Charge("example", multiplier, q, steps))


def sampled_bound(
    q: float, multiplier: float, steps: int, draws: int = 100_000, seed: int = 2
) -> float:
    """Lower bound for DP-SGD runs of true sampling rate `q`."""
    rng = Seeded(seed)
    inside = sampled_scores(True, q, multiplier, steps, draws, rng)
    outside = sampled_scores(False, q, multiplier, steps, draws, rng)
    return lower_bound(inside, outside)


def main() -> None:
    """Print claims and what the test finds."""
    print(f"lower bounds on epsilon at delta {DELTA:g}, 99.8 % confidence")
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        found = [node_bound(epsilon, share) for share in (1.0, 0.5, 0.0)]
        print(
            f"node, claimed {epsilon:g}: found {found[0]:.2f} with the right noise, "
            f"{found[1]:.2f} with noise for sensitivity C instead of 2C, {found[2]:.2f} without"
        )
    claim = sampled_claim(0.1, 1.0, 10)
    print(
        f"example, q = 0.1, noise 1.0, 10 steps, claimed {claim:.2f}: found "
        f"{sampled_bound(0.1, 1.0, 10):.2f} with secret sampling, "
        f"{sampled_bound(1.0, 1.0, 10):.2f} with public batches, "
        f"{sampled_bound(0.1, 1e-3, 10):.2f} without noise"
    )


if __name__ == "__main__":
    main()
