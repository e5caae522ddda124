# SPDX-License-Identifier: Apache-2.0
"""`compact`: a pool that a crowd has left gets short again, and no draw notices."""

from __future__ import annotations

import random

import pytest

from tests.stage.contracts.clock import block, mine
from tests.stage.contracts.events import event
from tests.stage.contracts.system import ZOO, System, events_of
from tests.stage.contracts.tasks import COOLDOWN, CPU, LIFETIME, TaskStage, lot, make_tasks

Seats = list[tuple[int, str] | None]


def put(seats: Seats, place: int, holder: tuple[int, str] | None) -> None:
    """Sets a seat, behind the end too."""
    seats.extend([None] * (place + 1 - len(seats)))
    seats[place] = holder


def follow(stage: TaskStage, seats: Seats) -> None:
    """Takes over what the last call said about seats."""
    for name, said in events_of(stage.tasks):
        if name not in ("ExecutorJoined", "ExecutorLeft", "ExecutorMoved"):
            continue
        holder = (said["node_id"], stage.player(said["node_id"]).owner)
        if name == "ExecutorMoved":
            put(seats, seats.index(holder), None)
        put(seats, said["seat"], None if name == "ExecutorLeft" else holder)


def free(stage: TaskStage, node_id: int) -> bool:
    """Whether a node may join."""
    executor = stage.tasks.executor(node_id)
    return not executor.seated and (not executor.left or block() > executor.left + COOLDOWN)


def compact_fully(stage: TaskStage) -> int:
    """Compacts with time passing until nothing more can be done; the seats that are left."""
    size = 0
    while stage.tasks.pool_size(CPU) != size:
        size = stage.tasks.pool_size(CPU)
        for _ in range(2):  # one moves, the next one, when no draw means them, drops
            mine(COOLDOWN + 1)
            stage.tasks.compact(CPU, sender=stage.stranger)
    return int(size)


@pytest.mark.parametrize("seed", range(2))
def test_compact__draws_mean_whom_they_meant(system: System, seed: int) -> None:
    """A random history of joining, leaving and compacting: at any time every draw that is pending
    takes whom the seats of its request's block give, in their places of then."""
    stage = make_tasks(system, nodes=12)
    dice = random.Random(seed)
    seats: Seats = [(p.node_id, p.owner) for p in stage.nodes]
    pending: dict[int, tuple[int, Seats]] = {}
    moved = dropped = 0
    for _ in range(150):
        deed = dice.choice(["leave", "leave", "join", "compact", "compact", "wait", "create"])
        player = dice.choice(stage.nodes)
        seated = stage.tasks.executor(player.node_id).seated
        if deed == "leave" and seated:
            stage.tasks.leave(player.node_id, sender=player.operator)
        elif deed == "join" and free(stage, player.node_id):
            stage.tasks.join(player.node_id, CPU, sender=player.operator)
        elif deed == "compact":
            size = stage.tasks.pool_size(CPU)
            dropped += size - stage.tasks.compact(CPU, sender=stage.stranger)
            moved += any(name == "ExecutorMoved" for name, _ in events_of(stage.tasks))
        elif deed == "wait":
            mine(dice.choice([1, 2, 130, COOLDOWN + 1]))
            continue
        elif deed == "create" and stage.tasks.pool_size(CPU) >= 3:
            mine()
            task_id = stage.create(fee=ZOO)
            pending[task_id] = (block(), seats[: stage.tasks.pool_size(CPU)])
            mine(2)
            continue
        else:
            continue
        follow(stage, seats)
        for task_id, (requested, then) in pending.items():
            if block() <= requested + 1 + LIFETIME:
                picked = lot(stage.seed(task_id, requested + 1), then, {stage.creator}, 2)
                assert stage.tasks.expected(task_id) == (picked if len(picked) == 2 else [])
    assert moved > 0
    assert dropped > 0


def test_compact__a_crowd_that_left_takes_no_draws_with_it(system: System) -> None:
    """Fifty-three seats, the last three of them held. Anybody compacts until there are three."""
    stage = make_tasks(system, nodes=0)
    crowd = [stage.seat(f"crowd {i}", 100 * ZOO) for i in range(50)]
    stayed = [stage.seat(f"node {i}", 100 * ZOO) for i in range(3)]
    for player in crowd:
        stage.tasks.leave(player.node_id, sender=player.operator)
    assert compact_fully(stage) == len(stayed)
    assert sorted(stage.tasks.executor(p.node_id).seat for p in stayed) == [0, 1, 2]
    task_id = stage.create(fee=ZOO)
    assert len(stage.draw(task_id)) == 2

    # Dropped places are taken again as new ones, and old entries of the queue mean nothing.
    again = [stage.nodes[i] for i in range(10)]
    for player in again:
        stage.tasks.join(player.node_id, CPU, sender=player.operator)
    assert stage.tasks.pool_size(CPU) == len(stayed) + len(again)
    places = [stage.tasks.executor(p.node_id).seat for p in (*stayed, *again)]
    assert sorted(places) == list(range(13))
    for place in range(13):
        node_id, _, _, left = stage.tasks.seat(CPU, place)
        assert left == 0
        assert stage.tasks.executor(node_id).seat == place


def test_compact__passes_a_long_row_of_dead_entries(system: System) -> None:
    """Who sits at the end moves although the queue starts with more dropped places than one call
    looks at: the crowd behind it left first."""
    stage = make_tasks(system, nodes=0)
    before = [stage.seat(f"before {i}", 100 * ZOO) for i in range(3)]
    stayed = stage.seat("stayed", 100 * ZOO)
    behind = [stage.seat(f"behind {i}", 100 * ZOO) for i in range(33)]
    for player in (*reversed(behind), *before):
        stage.tasks.leave(player.node_id, sender=player.operator)
    assert compact_fully(stage) == 1
    assert stage.tasks.executor(stayed.node_id).seat == 0


def test_compact__takes_nothing_that_a_draw_may_mean(stage: TaskStage) -> None:
    first, last = stage.nodes[0], stage.nodes[-1]
    size = stage.tasks.pool_size(CPU)
    stage.tasks.leave(last.node_id, sender=last.operator)
    stage.tasks.leave(first.node_id, sender=first.operator)
    mine(COOLDOWN)
    assert stage.tasks.compact(CPU, sender=stage.stranger) == size
    assert events_of(stage.tasks) == []
    mine()
    assert stage.tasks.compact(CPU, sender=stage.stranger) == size - 1
    moving = stage.nodes[-2]
    assert events_of(stage.tasks) == [
        event("ExecutorMoved", node_id=moving.node_id, class_id=CPU, seat=0)
    ]
    assert stage.tasks.executor(moving.node_id).seat == 0
    assert stage.tasks.compact(CPU, sender=stage.stranger) == size - 1


def test_compact__an_empty_class(stage: TaskStage) -> None:
    assert stage.tasks.compact(1, sender=stage.stranger) == 0
    assert stage.tasks.compact(99, sender=stage.stranger) == 0
