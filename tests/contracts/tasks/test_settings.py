# SPDX-License-Identifier: Apache-2.0
"""What is fixed at deployment, and the little that the Coordinator may change: the pause of
`create_task`, another class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event
from tests.stage.contracts.system import (
    DAY,
    EMPTY,
    TASK_TERMS,
    UNBONDING,
    ZERO,
    Codes,
    System,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import CPU, FEE, HALF, REST, RIGHT, TaskStage

CLASSES = [b"cpu-fp32".ljust(32, b"\0"), b"cuda:sm_90".ljust(32, b"\0")]
MAX_72 = 2**72 - 1
WEEK = 7 * DAY
# The stages before the last of five lanes is drawn.
SLOWEST = 3 * (TASK_TERMS["max_run_s"] + TASK_TERMS["reveal_s"])


def create(codes: Codes, system: System, **changes: Any) -> Any:
    """RedundantTasks with some arguments or terms replaced."""
    terms = TASK_TERMS | {name: v for name, v in changes.items() if name in TASK_TERMS}
    given = {
        "token": system.token.address,
        "registry": system.registry.address,
        "appeals": system.appeals.address,
        "owner": system.coordinator.address,
        "terms": tuple(terms.values()),
        "classes": CLASSES,
        "source": ZERO,
    } | {name: v for name, v in changes.items() if name not in TASK_TERMS}
    return codes.tasks.deploy(*given.values())


def test_init__says_what_was_fixed(system: System, tasks: Any, appeals: Any) -> None:
    assert tasks.terms()._asdict() == TASK_TERMS
    assert tasks.classes() == CLASSES
    assert tasks.registry() == appeals.registry() == system.registry.address
    assert tasks.appeals() == appeals.address
    assert appeals.tasks() == tasks.address
    assert tasks.owner() == system.coordinator.address
    assert (tasks.paused(), tasks.task_count(), tasks.bonds_held()) == (0, 0, 0)


def test_init__tells_its_classes(codes: Codes, system: System) -> None:
    created = create(codes, system)
    added = [event for event in events_of(created) if event[0] == "ClassAdded"]
    assert added == [
        event("ClassAdded", class_id=place, name=name) for place, name in enumerate(CLASSES)
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"max_fee": 0},
        {"max_fee": MAX_72 + 1},
        {"appeal_bond": 0},
        {"appeal_bond": MAX_72 + 1},
        {"max_run_s": 0},
        {"max_run_s": 59},
        {"max_run_s": 2**20},
        {"reveal_s": 0},
        {"appeal_s": 0},
        {"verdict_s": 0},
        {"dispute_s": 0},
        {"reveal_s": WEEK + 1},
        {"appeal_s": WEEK + 1},
        {"verdict_s": WEEK + 1},
        {"dispute_s": WEEK + 1},
        {"draw_s": SLOWEST - 1},
        {"draw_s": 6 * DAY + 1},
        {"draw_s": 2**256 - 1},
        {"fee_per_s": MAX_72 + 1},
        {"fee_per_s": TASK_TERMS["max_fee"] // TASK_TERMS["max_run_s"] + 1},
    ],
    ids=lambda change: next(f"{name}={value}" for name, value in change.items()),
)
def test_init__bad_terms__reverts(codes: Codes, system: System, change: dict[str, int]) -> None:
    """Without a fee a task of no use; without a bond an appeal for nothing; beyond 72 bits it
    would overflow its order; a run time whose least fee is above the largest; a time to draw in
    that slow executors could use up, or that is longer than an age can be told."""
    with refuses("tasks: bad terms"):
        create(codes, system, **change)


def test_init__terms_at_their_bounds(codes: Codes, system: System) -> None:
    created = create(
        codes,
        system,
        max_fee=MAX_72,
        appeal_bond=MAX_72,
        max_run_s=60,
        fee_per_s=MAX_72 // 60,
        reveal_s=1,
        appeal_s=1,
        verdict_s=1,
        draw_s=183,
        dispute_s=1,
    )
    assert created.terms().max_fee == MAX_72


def test_init__stake_must_outlast_a_task(codes: Codes, system: System) -> None:
    """The time to draw in, the last stage, the windows to appeal and to object, the vote and the
    committee's take half of the unbonding period at most."""
    fixed = {"draw_s": DAY, "max_run_s": 3_600, "reveal_s": 600}
    fixed |= {"verdict_s": DAY, "appeal_s": 7_200}
    room = UNBONDING // 2 - DAY - (3_600 + 600) - DAY - 2 * 7_200
    assert create(codes, system, **fixed, dispute_s=room).terms().dispute_s == room
    with refuses("tasks: windows too long"):
        create(codes, system, **fixed, dispute_s=room + 1)


def test_init__no_stake__reverts(codes: Codes, system: System) -> None:
    with refuses("executors: bad stake"):
        create(codes, system, task_stake=0)


def test_init__bad_classes__reverts(codes: Codes, system: System) -> None:
    with refuses("executors: empty class"):
        create(codes, system, classes=[EMPTY])
    with refuses("executors: known class"):
        create(codes, system, classes=[CLASSES[0], CLASSES[0]])


def test_add_class__opens_a_pool(stage: TaskStage, tasks: Any, owner: str) -> None:
    name = b"cuda:sm_100".ljust(32, b"\0")
    tasks.add_class(name, sender=owner)
    assert events_of(tasks) == [event("ClassAdded", class_id=2, name=name)]
    assert tasks.classes() == [*CLASSES, name]
    player = stage.nodes[0]
    tasks.leave(player.node_id, sender=player.owner)
    mine(261)
    tasks.join(player.node_id, 2, sender=player.owner)
    assert (tasks.pool_size(2), tasks.executor(player.node_id).class_id) == (1, 2)


def test_add_class__not_more_than_255(tasks: Any, owner: str) -> None:
    for number in range(2, 255):
        tasks.add_class(number.to_bytes(32, "big"), sender=owner)
    with refuses("executors: too many classes"):
        tasks.add_class(b"\xff" * 32, sender=owner)


# Rights


def test_pause__stops_new_tasks_and_nothing_else(stage: TaskStage, tasks: Any, owner: str) -> None:
    """A pause must hold back nobody's money: tasks end, seats are left and taken."""
    first = stage.started()
    tasks.set_paused(1, sender=owner)
    assert events_of(tasks) == [event("PauseChanged", old_bits=0, new_bits=1)]
    assert tasks.paused() == 1
    with refuses("pausing: paused"):
        stage.create()
    with stage.moves() as moved:
        stage.play(RIGHT, RIGHT, task_id=first)
    a, b = stage.runners(first)
    assert moved == {("open", "tasks"): -FEE, ("tasks", a.name): HALF, ("tasks", b.name): REST}
    assert tasks.withdraw_bond(sender=a.payout) == HALF
    tasks.leave(a.node_id, sender=a.owner)
    stage.seat("late")
    assert tasks.pool_size(CPU) == 6
