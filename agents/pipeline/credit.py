# SPDX-License-Identifier: Apache-2.0
"""What backward passes earn: each that was found right counts for a time gamma, then for nothing.

IOTA, section 3: I_m = sum over epochs e of S_{m,e} w(t - t_e), with w = 1 from 0 until gamma and 0
from then on. S is the number of backward passes that were validated. Differences from IOTA's code:
a miner gets nothing for being registered (there everyone starts with 1, which pays for empty
identities), and a miner that was not checked in an epoch is not paid for what it claims.

Its claimed passes count at its own validated rate, passes found right over passes checked, in all
its epochs that still count. So skipped work earns as little in epochs without a check as with one,
on average. A miner without any check has no rate and earns nothing yet; its first check, within
gamma, makes its earlier epochs count. All in whole numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from agents.training.assignment import largest_remainder

PPM = 1_000_000


@dataclass(frozen=True)
class EpochPasses:
    """A miner's backward passes in one epoch.

    Attributes:
        at: time at which they were entered, in the unit of gamma.
        claimed: passes in its committed log that entered a step.
        checked: how many of them were replayed.
        validated: how many of those were right.
    """

    miner: int
    at: int
    claimed: int
    checked: int = 0
    validated: int = 0

    def __post_init__(self) -> None:
        """ValueError unless 0 <= validated <= checked <= claimed."""
        if not 0 <= self.validated <= self.checked <= self.claimed:
            raise ValueError(
                f"Miner {self.miner}: {self.validated} passes right of {self.checked} checked of "
                f"{self.claimed} claimed can't be."
            )


def scores(records: Iterable[EpochPasses], now: int, gamma: int) -> dict[int, int]:
    """Millionths of a validated pass by miner, ascending; rounded down once an epoch.

    Args:
        records: at most one for each miner and time. Old ones may be left out.
        now: in the unit of gamma.
        gamma: how long a pass counts, at least 1.

    Raises:
        ValueError: gamma below 1, a record of the future, or two of a miner and time.
    """
    if gamma < 1:
        raise ValueError(f"gamma must be at least 1, not {gamma}.")
    live: dict[int, list[EpochPasses]] = defaultdict(list)
    seen: set[tuple[int, int]] = set()
    for record in records:
        if record.at > now:
            raise ValueError(f"Miner {record.miner} has passes of {record.at}, after {now}.")
        if (record.miner, record.at) in seen:
            raise ValueError(f"Miner {record.miner} has two records of {record.at}.")
        seen.add((record.miner, record.at))
        if now - record.at < gamma:
            live[record.miner].append(record)
    return {miner: sum(_epochs(own)) for miner, own in sorted(live.items())}


def _epochs(own: list[EpochPasses]) -> Iterable[int]:
    checked = sum(one.checked for one in own)
    right = sum(one.validated for one in own)
    for one in own:
        rest = (one.claimed - one.checked) * right * PPM // checked if checked else 0
        yield one.validated * PPM + rest


def weighed(worth: Mapping[int, int], factors_ppm: Mapping[int, int]) -> dict[int, int]:
    """Scores times a factor (0..PPM, 1 for a miner without one), rounded down."""
    if any(not 0 <= factor <= PPM for factor in factors_ppm.values()):
        raise ValueError(f"A factor lies from 0 to {PPM} ppm.")
    return {miner: score * factors_ppm.get(miner, PPM) // PPM for miner, score in worth.items()}


def payouts(pot: int, worth: Mapping[int, int]) -> dict[int, int]:
    """The pot in proportion to scores, in whole units whose sum is the pot.

    Largest remainders get the units that rounding down leaves; ties go to the lower id. A score of
    0 gets nothing. If all are 0 nobody is paid, and the pot stays where it is.

    Raises:
        ValueError: a negative pot or score.
    """
    if pot < 0 or any(score < 0 for score in worth.values()):
        raise ValueError("A pot and scores can't be negative.")
    miners = sorted(worth)
    return dict(zip(miners, largest_remainder(pot, [worth[m] for m in miners]), strict=True))


def scores_carried(
    gamma: int, interval: int, validators: int = 1, miners: int = 1
) -> tuple[Fraction, Fraction]:
    """Epochs, and checked epochs, that a miner carries on average (IOTA, A.1).

    gamma / T epochs are younger than gamma, T being the time between full synchronisations. Each
    validator checks one miner in each, so a miner is checked in validators / miners of them, at
    most in all. ValueError for a number below 1.
    """
    if min(gamma, interval, validators, miners) < 1:
        raise ValueError("gamma, interval, validators and miners are all at least 1.")
    epochs = Fraction(gamma, interval)
    return epochs, epochs * min(Fraction(1), Fraction(validators, miners))
