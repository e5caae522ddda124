# SPDX-License-Identifier: Apache-2.0
"""All attacks, what they bring at given numbers, and what honest work brings beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

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
) -> Iterator[tuple[Attack, Outcome]]:
    """Play all attacks of these families, in their order. `begun` is told of each."""
    market = Market(numbers)
    for attack in attacks(of_tasks):
        if attack.family in families:
            begun(attack)
            yield attack, attack.play(market)


def honest_rows(numbers: Numbers, of_tasks: TaskNumbers | None = None) -> tuple[HonestWork, ...]:
    """What honest work brings at the same numbers."""
    market = Market(numbers)
    return (*honest.honest_work(market), *honest_work.honest_work(market, of_tasks))
