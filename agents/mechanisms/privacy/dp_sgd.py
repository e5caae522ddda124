# SPDX-License-Identifier: Apache-2.0
"""The mechanism `dp_sgd`: the node clips each example's gradient and adds noise to each step's sum.

Unit "example" (add or remove one): DP-SGD (Abadi et al. 2016, Algorithm 1). A step draws every
example independently with probability q (Poisson sampling), clips each gradient to C, adds N(0,
(noise_multiplier * C)^2) to the sum and divides by the expected lot q * N. Sensitivity is C. The
update that leaves the node is post-processing of these steps, hence `release` changes nothing.

Amplification by sampling holds only if nobody else knows which examples a step used: the draw is
the node's own, secret, from its own examples. Batches assigned in public (ZIP-407) earn none; then
q = 1 (`sampling: assigned`). And their order follows from N, so with one example fewer each of them
holds others, and no noise of this size covers that. There a neighbour has another example in the
place of one, N is the same, and the sensitivity is 2C.

What each example is must be disjoint: a token that occurs in two examples is protected by twice the
steps only. N enters q and is treated as public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from agents.mechanisms.privacy import register
from agents.mechanisms.privacy.parts import options
from agents.mechanisms.privacy.parts.accountant import Charge
from agents.mechanisms.privacy.parts.noise import Generator


@register("dp_sgd")
@dataclass(frozen=True, kw_only=True)
class DpSgd:
    """Example-level differential privacy by noisy inner steps.

    Options:
        clip: C, the L2 bound on each example's gradient.
        noise_multiplier: standard deviation of the noise on the sum of a step, over C.
        lot: expected examples per step; None for the job's batch.
        sampling: "poisson" (the node's own secret draw) or "assigned" (public: q = 1).
        max_epsilon, delta: the budget that each node's account enforces (ZIP-400: 8, 1e-6).
    """

    clip: float = 1.0
    noise_multiplier: float = 1.0
    lot: int | None = None
    sampling: str = "poisson"
    max_epsilon: float = 8.0
    delta: float = 1e-6

    unit = "example"
    place = "node"

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or range."""
        set_ = object.__setattr__
        set_(self, "clip", options.clip_bound(self.clip))
        set_(self, "noise_multiplier", options.noise_multiplier(self.noise_multiplier))
        options.choice("sampling", self.sampling, ("poisson", "assigned"))
        if self.sampling == "assigned":
            known = "noise_multiplier for sampling: assigned"
            options.real(known, self.noise_multiplier, 2 * options.MIN_NOISE, options.MAX_NOISE)
        if self.lot is not None:
            options.whole("lot", self.lot, 1)
        most, delta = options.budget(self.max_epsilon, self.delta)
        set_(self, "max_epsilon", most)
        set_(self, "delta", delta)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a step's *sum* of gradients."""
        return self.noise_multiplier * self.clip

    @property
    def over_sensitivity(self) -> float:
        """The noise over what one neighbour moves the sum by: C, or 2C if batches are assigned."""
        return self.noise_multiplier / (2.0 if self.sampling == "assigned" else 1.0)

    def probability(self, batch: int, examples: int) -> float:
        """q: with which probability a step uses an example; 1.0 if batches are assigned.

        `batch`: the job's examples per step, used if `lot` is not set; `examples`: how many the
        node has. ValueError below 1.
        """
        lot = options.whole("batch", batch if self.lot is None else self.lot, 1)
        total = options.whole("examples", examples, 1)
        return 1.0 if self.sampling == "assigned" else min(1.0, lot / total)

    def charge(
        self, rounds: int = 1, *, steps: int = 1, batch: int = 1, examples: int = 1, **facts: Any
    ) -> Charge | None:
        """The cost of `rounds` rounds of `steps` noisy steps each; None for no step at all.

        Without `examples` (how many the node has) no amplification is claimed.
        """
        count = options.whole("rounds", rounds, 1) * options.whole("steps", steps, 0)
        if not count:
            return None
        return Charge(self.unit, self.over_sensitivity, self.probability(batch, examples), count)

    def release(
        self, update: Mapping[str, Tensor], rng: Generator | None = None
    ) -> dict[str, Tensor]:
        """The update as it is: it has been private since the steps were noised."""
        return dict(update)
