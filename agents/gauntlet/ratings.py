# SPDX-License-Identifier: Apache-2.0
"""Ratings: a round moves skill by rank, mu by work shown, value by the loss; a failure raises none.

One round of one validator, in the order of Gauntlet's Algorithm 1:

1. Penalty. A node that failed a fast check keeps `fast_penalty` of a positive mu. A negative mu
   stays: multiplied, it would rise.
2. Match. The evaluated nodes are ranked by LossScore on random data and play one OpenSkill match
   (Plackett-Luce; Weng and Lin, JMLR 12, 2011, algorithm 4). Only ranks enter, so a loss spike is
   worth no more than a win. Nodes whose payload is missing or invalid share the last rank.
3. mu <- kept * mu + (1 - kept) * shown, the work that the update shows, -1..1. An evaluation
   stands for the rounds since the one before it: kept is gamma to the power of these rounds. So
   ratings forget by the round, however seldom a node is evaluated. Where less than a positive mu
   is shown, twice the rounds that usually lie between two evaluations are added: a fall is faster
   than a rise, so that who rests right after an evaluation is not spared. kept is never below
   1/2, or gamma where that is less. In a job that pays by rank kept is gamma, and mu the paper's
   equation 3, with sign(assigned - random) for shown and sign(0) = 0.
   For a missing or invalid payload either is -1: it shows no work on the assigned data, and
   ignoring a node may not serve it better than judging it. In a round in which a node failed, this
   step may lower its mu but not raise it.
   The work shown is that on a node's assigned batches, and that on its extra ones, weighted by how
   many of either it may train on. Extra ones count if the node trains on them, as its moving
   average says of what they show beyond half of what the assigned ones do: extra <- kept * extra +
   (1 - kept) * (shown there - shown / 2), above 0. Most nodes train on none of them, and by chance
   alone are as often ahead as behind there.
4. value <- kept * value + (1 - kept) * the LossScore on random data over its median (`relative`).

A score that is not a finite number (the update ruined the loss) counts as missing. A match needs
two; a node that is evaluated alone keeps its skill and sigma. A fresh node has ordinal, mu and
value 0, so whoever registers again starts from nothing.

States are integers in millionths, rounded after each round: mu downwards, in integer arithmetic, so
it is the same everywhere; skill to the nearest; sigma upwards. OpenSkill computes in float64 with
one `exp` per node and match. Another machine's libm, or a compiler that fuses multiplication and
addition, may differ in the last bit, about 1e-15 here; that changes a rounded number by one
millionth with a probability near 1e-9 each. A replay therefore starts every round from the
published integers, so that such a difference is seen once and never grows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openskill.models import PlackettLuce

if TYPE_CHECKING:
    from agents.mechanisms.score.gauntlet import Gauntlet

MICRO = 1_000_000
# Far beyond what matches can reach; keeps `exp(skill / c)` finite for every state that is read.
_MOST_SKILL = 500 * MICRO
_MOST_SIGMA = 500 * MICRO


@dataclass(frozen=True)
class Rating:
    """A node's state at one validator, in millionths.

    Attributes:
        skill: mean of OpenSkill's estimate, -500..500 in units (OpenSkill calls it mu).
        sigma: its standard deviation, above 0 and at most 500.
        mu: Gauntlet's mu, -1..1: how reliably the node's updates fit its own data better, or how
            much work they show.
        value: moving average, -1..1, of its LossScore over the median one; see `relative`.
        extra: moving average, -1..1, of what its extra batches show beyond half of what its
            assigned ones do.
    """

    skill: int
    sigma: int
    mu: int
    value: int = 0
    extra: int = 0

    def __post_init__(self) -> None:
        """ValueError for a number that isn't an int in its range: states are read from records."""
        for name, low, high in (
            ("skill", -_MOST_SKILL, _MOST_SKILL),
            ("sigma", 1, _MOST_SIGMA),
            ("mu", -MICRO, MICRO),
            ("value", -MICRO, MICRO),
            ("extra", -MICRO, MICRO),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"A rating's {name} must be from {low} to {high}, not {value!r}.")


# OpenSkill's (25, 25/3); sigma is rounded up, else the ordinal would be 0.000001 instead of 0.
FRESH = Rating(skill=25 * MICRO, sigma=8_333_334, mu=0)


@dataclass(frozen=True)
class Evaluation:
    """What a validator measured of one node: LossScores in nats, positive if the loss fell.

    None for a payload that is missing or invalid. `shown`: the work that the update shows on the
    node's assigned batches, in millionths (`agents.gauntlet.primary_evaluation`); None has mu move
    by the paper's sign. `extra`: the same of its extra batches.
    `rounds`: since the node's evaluation before, or since it came; what this one stands for.
    """

    node: int
    assigned: float | None
    random: float | None
    shown: int | None = None
    rounds: int = 1
    extra: int = 0

    @property
    def scored(self) -> tuple[float, float] | None:
        """(assigned, random) if both are finite numbers."""
        if self.assigned is None or self.random is None:
            return None
        if not (math.isfinite(self.assigned) and math.isfinite(self.random)):
            return None
        return self.assigned, self.random


def rate(
    ratings: Mapping[int, Rating],
    evaluations: Sequence[Evaluation],
    failed: Collection[int],
    options: Gauntlet,
    wait: int = 1,
) -> dict[int, Rating]:
    """The ratings after a round: of all nodes in `ratings`, `evaluations` or `failed`, by id.

    Neither the order of `evaluations` nor anything of a node but its id enters.

    Args:
        ratings: before the round; a node without one is `FRESH`.
        evaluations: one per evaluated node, at most.
        failed: nodes that failed a fast check. A node whose evaluation holds no two finite scores
            is one of them, listed or not.
        wait: rounds from one evaluation of a node to the next, usually.

    Raises:
        ValueError: a node is evaluated twice.
    """
    judged = {evaluation.node: evaluation for evaluation in evaluations}
    if len(judged) != len(evaluations):
        raise ValueError("A node is evaluated twice in one round.")
    missing = {node for node, evaluation in judged.items() if evaluation.scored is None}
    lost = missing.union(failed)
    before = {node: ratings.get(node, FRESH) for node in sorted({*ratings, *judged, *lost})}
    matched = _match(before, judged, options)
    sizes = relative(evaluations)
    result = {}
    for node, rating in before.items():
        mu = rating.mu
        if node in lost and mu > 0:
            mu = mu * _ppm(options.fast_penalty) // MICRO
        value, extra = rating.value, rating.extra
        if node in judged:
            extra = _extra(rating.extra, judged[node], options)
            newest = indicator(judged[node], extra, options)
            kept = _kept(judged[node], mu > max(0, newest), wait, options)
            moved = _move(mu, newest, kept)
            mu = min(mu, moved) if node in lost else moved
            value = _move(value, sizes[node], kept)
        skill, sigma = matched.get(node, (rating.skill, rating.sigma))
        result[node] = Rating(skill, sigma, mu, value, extra)
    return result


def indicator(evaluation: Evaluation, extra: int, options: Gauntlet) -> int:
    """What mu moves by, in millionths: the work shown, or without it sign(assigned - random).

    -1,000,000 for a payload that is missing, invalid or ruins the loss. `extra`: the node's moving
    average after the round, which says whether it trains on its extra batches.
    """
    if evaluation.scored is None:
        return -MICRO
    if evaluation.shown is not None:
        more = evaluation.extra if extra > 0 else 0
        shown = (evaluation.shown + options.extra * more) // (1 + options.extra)
        return max(-MICRO, min(MICRO, shown))
    assigned, random = evaluation.scored
    return MICRO * ((assigned > random) - (assigned < random))


def relative(evaluations: Sequence[Evaluation]) -> dict[int, int]:
    """Each node's LossScore on random data over the median magnitude of all, -1..1 in millionths.

    1 for everybody from the median on: better than the usual is worth no more, so an update that is
    pooled, or rides on others' work, gains nothing over an honest one. Of an even number's two
    middle magnitudes the larger counts. -1 for a payload that is missing or ruins the loss; 0 for
    all others where the median is 0.
    """
    scores = {e.node: e.scored[1] for e in evaluations if e.scored is not None}
    usual = statistics.median_high(map(abs, scores.values())) if scores else 0.0
    found = dict.fromkeys((e.node for e in evaluations), -MICRO)
    for node, score in scores.items():
        share = max(-1.0, min(1.0, score / usual)) if usual else 0.0
        found[node] = round(MICRO * share)
    return found


def ranks(evaluations: Sequence[Evaluation]) -> list[int]:
    """Per evaluation, how many are better on random data: 0 is the best, equals share a rank."""
    scores = [-math.inf if e.scored is None else e.scored[1] for e in evaluations]
    return [sum(other > score for other in scores) for score in scores]


def ordinal(rating: Rating) -> float:
    """LossRating: skill - 3 sigma, what OpenSkill is 99.7 % sure of; may be negative."""
    return (rating.skill - 3 * rating.sigma) / MICRO


def _match(
    before: Mapping[int, Rating], judged: Mapping[int, Evaluation], options: Gauntlet
) -> dict[int, tuple[int, int]]:
    """New (skill, sigma) of every evaluated node; nothing for fewer than two."""
    nodes = sorted(judged)  # One order of the floating-point sums, whatever the caller's order.
    if len(nodes) < 2:
        return {}
    model = PlackettLuce(beta=options.skill_beta, tau=options.skill_tau)
    teams = [
        [model.rating(mu=before[node].skill / MICRO, sigma=before[node].sigma / MICRO)]
        for node in nodes
    ]
    places: list[float] = list(ranks([judged[node] for node in nodes]))
    after = model.rate(teams, ranks=places)
    return {
        node: _rounded(team[0].mu, team[0].sigma) for node, team in zip(nodes, after, strict=True)
    }


def _rounded(skill: float, sigma: float) -> tuple[int, int]:
    return (
        max(-_MOST_SKILL, min(_MOST_SKILL, round(skill * MICRO))),
        max(1, min(_MOST_SIGMA, math.ceil(sigma * MICRO))),
    )


def _extra(before: int, evaluation: Evaluation, options: Gauntlet) -> int:
    """The moving average after an evaluation; a payload without scores says nothing of it."""
    if evaluation.scored is None or evaluation.shown is None:
        return before
    newest = evaluation.extra - max(0, evaluation.shown) // 2
    return _move(before, max(-MICRO, min(MICRO, newest)), _kept(evaluation, False, 1, options))


def _kept(evaluation: Evaluation, falls: bool, wait: int, options: Gauntlet) -> int:
    """What an evaluation leaves of a rating, in millionths: gamma for each round it stands for.
    `falls`: whether less than a positive mu is shown."""
    gamma = _ppm(options.gamma)
    rounds, least = evaluation.rounds, min(gamma, MICRO // 2)
    if evaluation.shown is not None and falls:
        rounds += 2 * (wait - 1)
    kept = MICRO
    for _ in range(rounds):
        kept = kept * gamma // MICRO
        if kept <= least:
            return least
    return kept


def _move(mean: int, newest: int, kept: int) -> int:
    """kept * mean + (1 - kept) * newest in millionths, rounded down."""
    return (kept * mean + (MICRO - kept) * newest) // MICRO


def _ppm(share: float) -> int:
    return round(share * MICRO)
