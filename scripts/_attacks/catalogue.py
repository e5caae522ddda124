# SPDX-License-Identifier: Apache-2.0
"""All attacks, what they bring at given numbers, and what honest work brings beside them.

Attacks know nothing of each other, so several processes play them as one does, each on contracts of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, cached_property
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
SCORED = ("gauntlet", "consensus")
"""Families of a job that its verifiers' scores pay."""


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
    scored: Numbers | None = None,
) -> Iterator[tuple[Attack, Outcome]]:
    """Play all attacks of these families, in their order. `begun` is told of each.

    Args:
        workers: processes that play at the same time; with 1 this one does.
        scored: what the families `SCORED` are played at; None: at `numbers` as well.
    """
    every = list(enumerate(attacks(of_tasks)))
    wanted = [(place, attack) for place, attack in every if attack.family in families]
    if workers == 1:
        markets = _Markets(numbers, scored)
        for _, attack in wanted:
            begun(attack)
            yield attack, attack.play(markets.of(attack))
        return
    given = numbers, of_tasks, scored
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, given) as pool:
        outcomes = pool.map(_played, [place for place, _ in wanted])
        for _, attack in wanted:
            begun(attack)
            yield attack, next(outcomes)


class _Markets:
    """The markets that attacks are played on, each made when it is first asked for."""

    def __init__(self, numbers: Numbers, scored: Numbers | None) -> None:
        self._numbers, self._scored = numbers, scored

    def of(self, attack: Attack) -> Market:
        """The market of an attack's family."""
        return self.scored if attack.family in SCORED else self.usual

    @cached_property
    def usual(self) -> Market:
        return Market(self._numbers)

    @cached_property
    def scored(self) -> Market:
        return self.usual if self._scored is None else Market(self._scored)


# Of a process that plays for another one.
_given: list[tuple[Numbers, TaskNumbers | None, Numbers | None]] = []


def _begin(numbers: Numbers, of_tasks: TaskNumbers | None, scored: Numbers | None) -> None:
    _given[:] = [(numbers, of_tasks, scored)]


@cache
def _own() -> tuple[_Markets, tuple[Attack, ...]]:
    ((numbers, of_tasks, scored),) = _given
    return _Markets(numbers, scored), attacks(of_tasks)


def _played(place: int) -> Outcome:
    """An attack by its place, since what plays it can't be sent to another process."""
    markets, every = _own()
    return every[place].play(markets.of(every[place]))


def honest_rows(
    numbers: Numbers, of_tasks: TaskNumbers | None = None, scored: Numbers | None = None
) -> tuple[HonestWork, ...]:
    """What honest work brings at the same numbers. `scored`: as `play` has it."""
    markets = _Markets(numbers, scored)
    return (
        *honest.honest_work(markets.usual),
        *honest_work.honest_work(markets.usual, of_tasks),
        *honest_work.scored_work(markets.scored),
    )
