# SPDX-License-Identifier: Apache-2.0
"""All attacks, what they bring at given numbers, and what honest work brings beside them.

Attacks know nothing of each other, so several processes play them as one does, each on contracts of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from scripts._attacks import (
    denying,
    draws,
    honest,
    honest_work,
    money,
    riders,
    scores,
    tasks,
    tilting,
    training,
)
from scripts._attacks import verifying as verdicts
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.honest import HonestWork
from scripts._attacks.market import Market, Numbers
from scripts._attacks.task_pool import TaskNumbers

FAMILIES = ("training", "verifying", "scoring", "gauntlet", "consensus", "tasks")


def attacks(numbers: TaskNumbers | None = None) -> tuple[Attack, ...]:
    """Every attack, family by family. `numbers`: of the tasks."""
    found = (
        *training.ATTACKS,
        *draws.ATTACKS,
        *money.ATTACKS,
        *verdicts.ATTACKS,
        *riders.ATTACKS,
        *scores.ATTACKS,
        *denying.ATTACKS,
        *tilting.ATTACKS,
        *tasks.attacks(numbers or TaskNumbers()),
    )
    return tuple(sorted(found, key=lambda attack: FAMILIES.index(attack.family)))


def play(
    numbers: Numbers,
    families: Collection[str] = FAMILIES,
    begun: Callable[[Attack], None] = lambda attack: None,
    of_tasks: TaskNumbers | None = None,
    workers: int = 1,
) -> Iterator[tuple[Attack, Outcome]]:
    """Play all attacks of these families, in their order. `begun` is told of each.

    `workers`: processes that play at the same time; with 1 this one does.
    """
    every = list(enumerate(attacks(of_tasks)))
    wanted = [(place, attack) for place, attack in every if attack.family in families]
    if workers == 1:
        market = Market(numbers)
        for _, attack in wanted:
            begun(attack)
            yield attack, attack.play(market)
        return
    given = numbers, of_tasks
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, given) as pool:
        outcomes = pool.map(_played, [place for place, _ in wanted])
        for _, attack in wanted:
            begun(attack)
            yield attack, next(outcomes)


_given: list[tuple[Numbers, TaskNumbers | None]] = []  # of a process that plays for another one


def _begin(numbers: Numbers, of_tasks: TaskNumbers | None) -> None:
    _given[:] = [(numbers, of_tasks)]


@cache
def _own() -> tuple[Market, tuple[Attack, ...]]:
    ((numbers, of_tasks),) = _given
    return Market(numbers), attacks(of_tasks)


def _played(place: int) -> Outcome:
    """An attack by its place, since what plays it can't be sent to another process."""
    market, every = _own()
    return every[place].play(market)


def honest_rows(numbers: Numbers, of_tasks: TaskNumbers | None = None) -> tuple[HonestWork, ...]:
    """What honest work brings at the same numbers."""
    market = Market(numbers)
    return (*honest.honest_work(market), *honest_work.honest_work(market, of_tasks))
