# SPDX-License-Identifier: Apache-2.0
"""The mechanism `aggregate`: nodes clip, the aggregator adds noise to the merged update.

Unit "node". The noise is divided among n nodes instead of added n times, and the robust merge sees
clean updates: the alternative where local noise would blind it. The price is trust. The aggregator,
and whoever else can read the payloads, sees each clipped update without noise. So the payloads must
be sealed: only the merged update is protected.

The aggregator clips what it decoded again (`prepare`): a lying node, or a codec that enlarges
norms, must not raise the sensitivity that protects the others. It depends on the merge rule; see
`sensitivity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from agents.mechanisms.privacy import register
from agents.mechanisms.privacy.gaussian import clip_total, solve
from agents.mechanisms.privacy.parts import noise, options
from agents.mechanisms.privacy.parts.accountant import Accountant, Charge
from agents.mechanisms.privacy.parts.noise import Generator

TRUST = (
    "The aggregator adds this noise: it is trusted for privacy, and not to choose the noise, "
    "and payloads must be readable by nobody else."
)

RELEASES = 2  # noised updates a round that a node is charged for

_IN_HULL = (
    "the result is a weighted mean of the clipped updates, so it stays within C, but one node can "
    "change which updates count: two results may be 2C apart"
)
_RECLIPPED = (
    "order statistics of each coordinate can leave the ball of radius C (up to C sqrt 2 for the "
    "median), so the result is clipped to C again, and two results may be 2C apart"
)
REASONS = {
    "mean": "one of n clipped updates is replaced and moves by at most 2C: 2C times its weight",
    "multi_krum": _IN_HULL,
    "geometric_median": _IN_HULL,
    "median": _RECLIPPED,
    "trimmed_mean": _RECLIPPED,
    "centred_clipping": "the result is clipped to C again, and two results may be 2C apart",
}
"""Merge rules whose sensitivity is known, and why it is what it is."""


def sensitivity(merge: str, nodes: int, clip: float, largest_weight: float | None = None) -> float:
    """L2 distance between the merged updates of two rounds that differ in one node's update.

    Args:
        merge: the merge rule's name.
        nodes: how many updates were merged; the same in both rounds.
        clip: C, the norm bound on each update, and on the result (`release_merged` clips it).
        largest_weight: of one node, for a mean weighted by stake; None for equal weights.

    Raises:
        ValueError: a rule without a known bound, or a value out of range.
    """
    if merge not in REASONS:
        raise ValueError(
            f"How far one node can move the merge rule {str(merge)[:64]!r} is not known, so no "
            f"noise can be calibrated to it; choose one of: {', '.join(sorted(REASONS))}."
        )
    count = options.whole("nodes", nodes, 1)
    bound = 2.0 * options.clip_bound(clip)
    if merge != "mean":
        return bound
    weight = 1.0 / count if largest_weight is None else largest_weight
    # Weights that sum to one can't all be below 1/n. Merging and clipping again each round to fp32,
    # which moves each of the two results by up to 2^-24 of C.
    weight = options.real("largest_weight", weight, (1.0 - 1e-12) / count, 1.0)
    return bound * min(1.0, weight + 2.0**-23)


@register("aggregate")
@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Node-level differential privacy of the merged update, against everyone but the aggregator.

    Options: `clip`, `noise_multiplier` or `epsilon` and `rounds`, `max_epsilon`, `delta`, as in
    `agents.mechanisms.privacy.gaussian`; the noise is `multiplier` times the merge rule's
    sensitivity.
    """

    clip: float = 1.0
    noise_multiplier: float | None = None
    epsilon: float | None = None
    rounds: int | None = None
    max_epsilon: float = 8.0
    delta: float = 1e-6
    multiplier: float = field(init=False)  # sigma / sensitivity, given or solved

    unit = "node"
    place = "aggregate"

    def __post_init__(self) -> None:
        """ValueError for an option of the wrong type or range, or a budget of less than a round."""
        set_ = object.__setattr__
        set_(self, "clip", options.clip_bound(self.clip))
        most, delta = options.budget(self.max_epsilon, self.delta)
        set_(self, "max_epsilon", most)
        set_(self, "delta", delta)
        rounds = None if self.rounds is None else self.rounds * RELEASES
        multiplier = solve(self.noise_multiplier, self.epsilon, rounds, most, delta)
        set_(self, "multiplier", multiplier)
        if not Accountant(most, delta).can_participate(self.charge()):
            raise ValueError(
                f"A round is charged for {RELEASES} releases, and with noise multiplier "
                f"{multiplier:.4g} these cost more than max_epsilon {most:g}."
            )

    def charge(self, rounds: int = 1, **facts: Any) -> Charge:
        """The cost of `rounds` rounds; `facts` don't matter.

        RELEASES noised updates a round: a result is published once it stands, and a reorganisation
        of the chain may put another one, with other noise around the same merge, in its place.
        """
        return Charge(self.unit, self.multiplier, 1.0, rounds * RELEASES)

    def release(
        self, update: Mapping[str, Tensor], rng: Generator | None = None
    ) -> dict[str, Tensor]:
        """The node's part: the fp32 update clipped to C, without noise, for the aggregator only."""
        return clip_total(update, self.clip)

    def prepare(self, payloads: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
        """The aggregator's part before the merge: each decoded update clipped to C again."""
        return [clip_total(payload, self.clip) for payload in payloads]

    def sigma(self, merge: str, nodes: int, largest_weight: float | None = None) -> float:
        """Noise deviation per coordinate of the merged update; ValueError as in `sensitivity`."""
        return self.multiplier * sensitivity(merge, nodes, self.clip, largest_weight)

    def release_merged(
        self,
        merged: Mapping[str, Tensor],
        merge: str,
        nodes: int,
        largest_weight: float | None = None,
        rng: Generator | None = None,
    ) -> dict[str, Tensor]:
        """The aggregator's part after the merge of `prepare`d updates: clip to C, add noise; fp32.

        Everyone else can check the result only against updates that they may see, with
        `agents.mechanisms.privacy.parts.residual`. ValueError as in `sensitivity`.
        """
        sigma = self.sigma(merge, nodes, largest_weight)
        return noise.add(clip_total(merged, self.clip), sigma, rng)
