# SPDX-License-Identifier: Apache-2.0
"""What an attack on tasks brings on average over the draw.

Three nodes are drawn from the pool, two first and the third if they differ, and each case is played
once on the contracts. Its weight is its exact chance without replacement, from
`agents.tasks.economics.drawn`; nothing is sampled. A deed on a task that is drawn in one way only
is given as it is, by the task of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agents.tasks.economics import Draw, drawn
from scripts._attacks.attack import Outcome, outcome
from scripts._attacks.market import Market, Player
from scripts._attacks.task_pool import RIGHT, TaskNumbers, TaskPool

Play = Callable[[TaskPool], None]
LANES = 5  # of a task
MIN_POOL = 3  # seats without which no task is created


@dataclass(frozen=True)
class Ending:
    """One case of a draw. `saved`: computing that the attacker's nodes do in the control, and not
    here, in 1e-18 ZOO. `instead`: None if they stay away."""

    chance: Fraction
    play: Play
    instead: Play | None = None
    saved: int = 0


def chances(market: Market) -> Draw:
    """Of the first three drawn, how many are the attacker's."""
    return drawn(len(market.evil), len(market.honest))


def leaving(market: Market) -> Iterator[tuple[int, Fraction]]:
    """After a draw with one of its nodes among the first two: how many of the attacker's leave one
    after another until an honest one comes or the lanes are used up, and how likely that is."""
    evil, honest = len(market.evil) - 1, len(market.honest) - 1
    chance = Fraction(1)
    for left in range(1, LANES):
        more = Fraction(evil, evil + honest) if left < LANES - 1 else Fraction(0)
        yield left, chance * (1 - more)
        chance, evil = chance * more, evil - 1
        if not chance:
            return


def work(pool: TaskPool, task: int | None = None) -> None:
    """Everybody who is drawn gives the right result."""
    pool.run(pool.new() if task is None else task, lambda player: RIGHT)


def weighed(
    market: Market,
    numbers: TaskNumbers,
    endings: Iterable[Ending],
    attackers: Sequence[Player | str],
    capital: int,
    note: str = "",
) -> Outcome:
    """The average over endings. What their chances leave is a task that goes as in the control."""
    profit, loss = Fraction(0), Fraction(0)
    for ending in endings:
        if ending.chance:
            found = played(market, numbers, ending.play, attackers, capital, instead=ending.instead)
            profit += ending.chance * (found.profit + ending.saved)
            loss += ending.chance * found.loss
    return Outcome(profit, loss, capital, note)


def played(
    market: Market,
    numbers: TaskNumbers,
    play: Play,
    attackers: Sequence[Player | str],
    capital: int,
    note: str = "",
    instead: Play | None = None,
) -> Outcome:
    """What a deed brings. `instead`: None for a task of the honest nodes only."""

    def control(market: Market) -> None:
        if instead is not None:
            instead(TaskPool(market, numbers))
        elif len(market.honest) >= MIN_POOL:  # else nobody can create a task
            work(TaskPool(market, numbers, market.honest))

    return outcome(
        market,
        lambda market: play(TaskPool(market, numbers)),
        control,
        attackers,
        capital,
        note=note,
    )


def no_pair(market: Market) -> Outcome | None:
    """The outcome of what takes two executors, where the attacker has one."""
    if len(market.evil) >= 2:
        return None
    return Outcome(Fraction(0), Fraction(0), 0, "takes two executors")


def nothing(_: TaskPool) -> None:
    """No task is created."""
