# SPDX-License-Identifier: Apache-2.0
"""What a round pays beside ratings: who was evaluated is paid by what it showed in this very round.

A rating says what a node did before. Paid by it alone, a node that stops to work is paid on for as
long as the rating lasts: at a job's end, or before it leaves, nothing can be taken from it later.
Three rules bound that.

1. Two thirds of a round's pay go to the evaluated, the rest by rating to all. Who is evaluated is
   drawn when all payloads are fixed. So a round without work pays a third of a fair share, unless
   something is shown by chance, whatever comes after it; and who was not evaluated in a round has
   as much more in another. Where the evaluated are rated less than the usual node, because they
   are newcomers, their two thirds are as much less.
2. The evaluated share it by what they show. Of each, mu counts no further than the work shown, and
   value no further than the LossScore, each over the usual ratio. The usual ratio is the median of
   what is shown over the rating, of the evaluated; so a young rating, which is still small, changes
   nobody's part. Of two middle ratios the larger counts, and 1 at least: where most show less than
   their ratings, who shows as much has most.
3. None of them has more than MOST times what its rating gives it there. What that leaves goes by
   rating to all. So a round in which next to nobody shows anything is no lottery.

Bounds are integers, so that every validator has the same. Nothing of a job's length enters, so who
leaves early meets the same rule as who stays to the end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from agents.gauntlet.peer_scores import normalise, peer_score
from agents.gauntlet.ratings import Rating

NOW = 2 / 3  # of a round's pay, by what is shown in it
MOST = 2.0  # times what its rating gives an evaluated node


@dataclass(frozen=True)
class Present:
    """What an evaluated node shows in a round, each -1..1 in millionths.

    Attributes:
        work: shown on its own data, what mu moves by.
        value: its LossScore on random data over the median one, what value moves by.
    """

    work: int
    value: int


def round_shares(
    ratings: Mapping[int, Rating], now: Mapping[int, Present], power: float
) -> dict[int, float]:
    """Each node's share of the round's pay; together 1 up to rounding, or all 0.

    Args:
        ratings: after the round, of the nodes that may be paid.
        now: of those of them that were evaluated in it.
        power: exponent of the shares.
    """
    by_rating = normalise({node: peer_score(rating) for node, rating in ratings.items()}, power)
    drawn = math.fsum(by_rating[node] for node in now)
    if not drawn:
        return by_rating
    worth = {node: peer_score(rating) for node, rating in bounded(ratings, now).items()}
    part = NOW * min(1.0, drawn / _fair(by_rating, now))
    shown = {
        node: part * min(share, MOST * by_rating[node] / drawn)
        for node, share in normalise(worth, power).items()
    }
    left = max(0.0, 1 - math.fsum(shown.values()))
    return {node: left * share + shown.get(node, 0.0) for node, share in by_rating.items()}


def _fair(by_rating: Mapping[int, float], now: Mapping[int, Present]) -> float:
    """What the evaluated had by rating, if all nodes with a share were rated alike."""
    paid = {node for node, share in by_rating.items() if share > 0}
    return len(paid & now.keys()) / len(paid)


def bounded(ratings: Mapping[int, Rating], now: Mapping[int, Present]) -> dict[int, Rating]:
    """The ratings of the evaluated, no further than what they show. Arguments: see above."""
    mus = _bounds({node: (ratings[node].mu, seen.work) for node, seen in now.items()})
    values = _bounds({node: (ratings[node].value, seen.value) for node, seen in now.items()})
    return {n: replace(ratings[n], mu=mus[n], value=values[n]) for n in now}


def _bounds(pairs: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Each node's rated figure, no further than what it shows now over the usual ratio."""
    ratios = [Fraction(shown, rated) for rated, shown in pairs.values() if rated > 0]
    usual = max(Fraction(1), statistics.median_high(ratios)) if ratios else Fraction(1)
    return {
        node: min(rated, max(0, shown * usual.denominator // usual.numerator))
        for node, (rated, shown) in pairs.items()
    }
