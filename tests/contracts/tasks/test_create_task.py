# SPDX-License-Identifier: Apache-2.0
"""create_task: the fee within the terms, a pool that can break a tie, no operator as creator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.system import TASK_TERMS, TRAINER, ZERO, System, refuses
from tests.stage.contracts.tasks import (
    CPU,
    CUDA,
    DRAW_S,
    DRAWING,
    FEE,
    RUN_S,
    SPEC,
    TaskStage,
    make_tasks,
)

MAX_RUN_S, MAX_FEE = TASK_TERMS["max_run_s"], TASK_TERMS["max_fee"]
LEAST = TASK_TERMS["fee_per_s"] * RUN_S


def test_create__escrows_the_fee_and_requests_a_draw(stage: TaskStage, tasks: Any) -> None:
    moved, events = stage.effects(tasks, stage.create)
    assert tasks.task_count() == 1
    assert moved == {("wallet", "creator"): -FEE, ("open", "tasks"): FEE}
    assert events == [
        event(
            "TaskCreated",
            task_id=1,
            creator=stage.creator,
            class_id=CPU,
            spec=SPEC,
            fee=FEE,
            run_s=RUN_S,
            seed_block=block() + 1,
        ),
        event("BondTaken", account=stage.creator, amount=FEE),
    ]
    assert stage.state(1)._asdict() == {
        "status": DRAWING,
        "creator": stage.creator,
        "class_id": CPU,
        "spec": SPEC,
        "fee": FEE,
        "run_s": RUN_S,
        "time": now(),
        "seed_block": block() + 1,
        "draw_until": now() // 8 * 8 + DRAW_S,
        "nodes": [],
        "states": [],
        "answers": [],
        "wanted": 2,
    }


def test_create__ids_count_up(stage: TaskStage, tasks: Any) -> None:
    assert tasks.task_count() == 0
    assert [stage.create() for _ in range(3)] == [1, 2, 3]
    assert tasks.task_count() == 3
    for unknown in (0, 4, 2**256 - 1):
        state = stage.state(unknown)
        assert (state.status, state.creator, state.fee, state.nodes) == (0, ZERO, 0, [])


@pytest.mark.parametrize("run_s", [0, 1, 59, MAX_RUN_S + 1, 2**20, 2**256 - 1])
def test_create__run_time_out_of_bounds__reverts(stage: TaskStage, run_s: int) -> None:
    with refuses("tasks: bad run time"):
        stage.create(run_s=run_s, fee=MAX_FEE)


@pytest.mark.parametrize("run_s", [60, MAX_RUN_S])
def test_create__run_time_at_the_bounds(stage: TaskStage, run_s: int) -> None:
    assert stage.state(stage.create(run_s=run_s, fee=MAX_FEE)).run_s == run_s


@pytest.mark.parametrize("fee", [0, 1, LEAST - 1, MAX_FEE + 1, 2**88, 2**256 - 1])
def test_create__fee_out_of_bounds__reverts(stage: TaskStage, fee: int) -> None:
    with refuses("tasks: bad fee"):
        stage.create(fee=fee)


@pytest.mark.parametrize("fee", [LEAST, MAX_FEE])
def test_create__fee_at_the_bounds(stage: TaskStage, fee: int) -> None:
    assert stage.state(stage.create(fee=fee)).fee == fee


def test_create__by_an_owner__is_allowed(stage: TaskStage) -> None:
    owner = stage.system.person("node 0 owner", FEE)
    assert stage.state(stage.create(creator=owner)).creator == owner


@pytest.mark.parametrize("nodes", [2, 3])
def test_create__a_tie_needs_a_third(system: System, nodes: int) -> None:
    stage = make_tasks(system, nodes=nodes)
    if nodes < 3:
        with refuses("tasks: too few executors"):
            stage.create()
    else:
        assert stage.create() == 1


def test_create__in_another_class__draws_from_its_pool(stage: TaskStage, tasks: Any) -> None:
    others = [stage.system.join(f"gpu {i}", TRAINER) for i in range(3)]
    for player in others:
        tasks.join(player.node_id, CUDA, sender=player.owner)
    mine()
    task_id = stage.create(class_id=CUDA)
    mine(2)
    tasks.draw(task_id)
    assert stage.state(task_id).class_id == CUDA
    assert set(stage.state(task_id).nodes) < {p.node_id for p in others}


def test_create__without_the_money__reverts(stage: TaskStage, tasks: Any) -> None:
    poor = stage.system.person("poor", FEE - 1)
    with refuses("erc20: transfer amount exceeds balance"):
        stage.create(creator=poor)
    stage.system.token.approve(tasks.address, FEE - 1, sender=stage.creator)
    with refuses("erc20: insufficient allowance"):
        stage.create()
    assert (tasks.task_count(), tasks.bonds_held()) == (0, 0)
