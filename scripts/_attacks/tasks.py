# SPDX-License-Identifier: Apache-2.0
"""All attacks on redundant tasks, and what honest work on them brings."""

from __future__ import annotations

from functools import partial

from scripts._attacks import (
    task_answers,
    task_backlog,
    task_draws,
    task_strategies,
    task_verdicts,
)
from scripts._attacks.attack import Attack
from scripts._attacks.task_pool import TaskNumbers

_PLAYS = (
    *task_strategies.PLAYS,
    *task_backlog.PLAYS,
    *task_answers.PLAYS,
    *task_draws.PLAYS,
    *task_verdicts.PLAYS,
)


def attacks(numbers: TaskNumbers) -> tuple[Attack, ...]:
    """The attacks at these numbers, in the order of the printed table."""
    return tuple(Attack(name, "tasks", partial(play, numbers=numbers)) for name, play in _PLAYS)


ATTACKS = attacks(TaskNumbers())
