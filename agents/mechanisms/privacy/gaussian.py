# SPDX-License-Identifier: Apache-2.0
"""The mechanism `gaussian`: the node clips its whole update to C and adds N(0, sigma^2).

Unit "node". The neighbour of a data set is *any other* data set of the node, so two clipped updates
may point in opposite directions: sensitivity 2C, not C (ZIP-400 takes 1 after clipping to 1; its
nominal epsilon 8 is then really 18 to 19). sigma = noise_multiplier * 2C. What follows (projection,
quantisation, error feedback computed from what was released) is post-processing and costs nothing.

An update with NaN or infinity is released as a zero update with noise, because a refusal that
depends on the data would tell something about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agents.mechanisms.privacy import register
from agents.mechanisms.privacy.parts import analytic, clipping, noise, options
from agents.mechanisms.privacy.parts.accountant import Accountant, Charge
from agents.mechanisms.privacy.parts.noise import Generator


@register("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Node-level local differential privacy.

    Options:
        clip: C, the L2 bound on the whole update (units of the pseudo-gradient).
        noise_multiplier: sigma / 2C; or else
        epsilon, rounds: the multiplier is solved so that `rounds` rounds cost `epsilon` at `delta`.
        max_epsilon, delta: the budget that each node's account enforces (ZIP-400: 8, 1e-6).
        accept_blinding: the sponsor knows that the noise blinds the robust merge
            (`agents.mechanisms.privacy.parts.blinding`) and wants to be warned instead of refused.
    """

    clip: float = 1.0
    noise_multiplier: float | None = None
    epsilon: float | None = None
    rounds: int | None = None
    max_epsilon: float = 8.0
    delta: float = 1e-6
    accept_blinding: bool = False
    multiplier: float = field(init=False)  # sigma / sensitivity, given or solved

    unit = "node"
    place = "node"

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or range, or a budget of less than a round."""
        set_ = object.__setattr__
        set_(self, "clip", options.clip_bound(self.clip))
        most, delta = options.budget(self.max_epsilon, self.delta)
        set_(self, "max_epsilon", most)
        set_(self, "delta", delta)
        multiplier = solve(self.noise_multiplier, self.epsilon, self.rounds, most, delta)
        set_(self, "multiplier", multiplier)
        if not isinstance(self.accept_blinding, bool):
            raise ValueError("accept_blinding must be true or false.")

    @property
    def sensitivity(self) -> float:
        """2C: the most by which two updates of one node may differ, L2."""
        return 2.0 * self.clip

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of the update, in model space."""
        return self.multiplier * self.sensitivity

    def charge(self, rounds: int = 1, **facts: Any) -> Charge:
        """The cost of `rounds` releases; `facts` don't matter."""
        return Charge(self.unit, self.multiplier, 1.0, rounds)

    def release(
        self, update: Mapping[str, Tensor], rng: Generator | None = None
    ) -> dict[str, Tensor]:
        """fp32 update, clipped to C and noised; `rng` None is the operating system's randomness."""
        return noise.add(clip_total(update, self.clip), self.sigma, rng)


def clip_total(update: Mapping[str, Tensor], bound: float) -> dict[str, Tensor]:
    """`clipping.clip`, with an update that is not finite replaced by zeros (see the module)."""
    if all(bool(torch.isfinite(tensor).all()) for tensor in update.values()):
        return clipping.clip(update, bound)
    return {name: torch.zeros_like(tensor) for name, tensor in update.items()}


def solve(
    multiplier: float | None,
    epsilon: float | None,
    rounds: int | None,
    max_epsilon: float,
    delta: float,
) -> float:
    """The noise multiplier that the options mean.

    ValueError unless it is given either directly or by both `epsilon` and `rounds`, or if not even
    one round fits into the budget.
    """
    if multiplier is not None:
        if epsilon is not None or rounds is not None:
            raise ValueError("Give either noise_multiplier, or epsilon and rounds, not both.")
        result = options.noise_multiplier(multiplier)
    elif epsilon is not None and rounds is not None:
        target = options.real("epsilon", epsilon, 1e-3, 1e4)
        result = options.noise_multiplier(
            analytic.multiplier_for(target, delta, options.whole("rounds", rounds, 1))
        )
    else:
        raise ValueError("The noise is not fixed: give noise_multiplier, or epsilon and rounds.")
    if not Accountant(max_epsilon, delta).can_participate(Charge("node", result)):
        raise ValueError(
            f"One round with noise multiplier {result:.4g} costs epsilon "
            f"{analytic.epsilon_of(1.0 / result, delta):.4g}, "
            f"more than max_epsilon {max_epsilon:g}."
        )
    return result
