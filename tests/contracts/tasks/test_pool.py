# SPDX-License-Identifier: Apache-2.0
"""join, leave, evict: one seat for a node with its stake at risk; an empty seat is taken again only
when no draw can mean its last holder."""

from __future__ import annotations

from random import Random
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import block, mine
from tests.stage.contracts.events import event
from tests.stage.contracts.system import (
    DAY,
    NO_REVEAL,
    REPEATED,
    TRAINER,
    ZERO,
    ZOO,
    Player,
    System,
    events_of,
    refuses,
)
from tests.stage.contracts.tasks import ABORT, COOLDOWN, CPU, CUDA, TaskStage

STAKE = 100 * ZOO


@pytest.fixture
def fresh(system: System) -> Player:
    """A node without a seat, with exactly the stake that a seat needs."""
    mine()
    return system.join("fresh", TRAINER, STAKE)


def executor(tasks: Any, player: Player) -> tuple[bool, int, int, int, int]:
    state = tasks.executor(player.node_id)
    return state.seated, state.class_id, state.seat, state.open, state.left


def slash(system: System, player: Player, violation: int) -> None:
    system.registry.slash(
        player.node_id, violation, boa.env.timestamp, ZERO, sender=system.tasks.address
    )


@pytest.mark.parametrize("who", ["owner", "operator"])
@pytest.mark.parametrize("class_id", [CPU, CUDA])
def test_join__takes_a_seat(tasks: Any, fresh: Player, who: str, class_id: int) -> None:
    assert executor(tasks, fresh) == (False, 0, 0, 0, 0)
    tasks.join(fresh.node_id, class_id, sender=getattr(fresh, who))
    assert events_of(tasks) == [
        event("ExecutorJoined", node_id=fresh.node_id, class_id=class_id, seat=0)
    ]
    assert tuple(tasks.seat(class_id, 0)) == (fresh.node_id, fresh.owner, block(), 0)
    assert executor(tasks, fresh) == (True, class_id, 0, 0, 0)
    assert (tasks.pool_size(class_id), tasks.pool_size(1 - class_id)) == (1, 0)


def test_join__any_role_will_do(stage: TaskStage, tasks: Any) -> None:
    verifier = stage.verifiers[0]
    tasks.join(verifier.node_id, CPU, sender=verifier.owner)
    assert executor(tasks, verifier)[:3] == (True, CPU, 5)


def test_join__node_id_beyond_the_word__reverts(system: System, tasks: Any) -> None:
    system.registry.eval("self._node_count = 2**24 - 2")
    last, beyond = system.join("last", TRAINER), system.join("beyond", TRAINER)
    assert beyond.node_id == 2**24
    tasks.join(last.node_id, CPU, sender=last.owner)
    assert tasks.seat(CPU, 0)[0] == 2**24 - 1
    with refuses("executors: node id too large"):
        tasks.join(beyond.node_id, CPU, sender=beyond.owner)


def test_join__slashed_below_the_stake__needs_more_first(
    system: System, tasks: Any, fresh: Player
) -> None:
    slash(system, fresh, NO_REVEAL)
    with refuses("executors: too little stake"):
        tasks.join(fresh.node_id, CPU, sender=fresh.owner)
    system.token.transfer(fresh.owner, 5 * ZOO, sender=system.holder)
    system.registry.add_stake(fresh.node_id, 5 * ZOO, sender=fresh.owner)
    tasks.join(fresh.node_id, CPU, sender=fresh.owner)


def test_join__suspended__when_it_is_over(stage: TaskStage, tasks: Any) -> None:
    player = stage.system.join("suspended", TRAINER)
    slash(stage.system, player, ABORT)
    mine(1, 7 * DAY - 1)
    with refuses("executors: too little stake"):
        tasks.join(player.node_id, CPU, sender=player.owner)
    mine(1, 1)
    tasks.join(player.node_id, CPU, sender=player.owner)


def test_join__banned_or_exiting__reverts(system: System, tasks: Any, fresh: Player) -> None:
    leaving = system.join("leaving", TRAINER)
    system.registry.begin_exit(leaving.node_id, sender=leaving.owner)
    slash(system, fresh, REPEATED)
    for player in (leaving, fresh):
        with refuses("executors: too little stake"):
            tasks.join(player.node_id, CPU, sender=player.owner)


@pytest.mark.parametrize("who", ["owner", "operator"])
def test_leave__empties_the_seat(tasks: Any, fresh: Player, who: str) -> None:
    tasks.join(fresh.node_id, CUDA, sender=fresh.owner)
    joined = block()
    mine(3)
    tasks.leave(fresh.node_id, sender=getattr(fresh, who))
    assert events_of(tasks) == [event("ExecutorLeft", node_id=fresh.node_id, class_id=CUDA, seat=0)]
    assert tuple(tasks.seat(CUDA, 0)) == (fresh.node_id, fresh.owner, joined, block())
    assert executor(tasks, fresh) == (False, 0, 0, 0, block())
    assert tasks.pool_size(CUDA) == 1
    with refuses("executors: no seat"):
        tasks.leave(fresh.node_id, sender=fresh.owner)


def test_leave__with_open_lanes__they_stay_open(stage: TaskStage, tasks: Any) -> None:
    player = stage.runners(stage.started())[0]
    tasks.leave(player.node_id, sender=player.owner)
    assert executor(tasks, player)[0] is False
    assert stage.open_lanes(player) == 1
    mine(COOLDOWN + 1)
    tasks.join(player.node_id, CPU, sender=player.owner)
    assert stage.open_lanes(player) == 1


@pytest.mark.parametrize("class_id", [CPU, CUDA])
def test_leave__comes_back_only_after_the_cooldown(
    tasks: Any, fresh: Player, class_id: int
) -> None:
    """A draw that means the old seat is out of date by then, so nobody stands in one twice."""
    tasks.join(fresh.node_id, CPU, sender=fresh.owner)
    tasks.leave(fresh.node_id, sender=fresh.owner)
    mine(COOLDOWN)
    with refuses("executors: just left"):
        tasks.join(fresh.node_id, class_id, sender=fresh.owner)
    mine()
    tasks.join(fresh.node_id, class_id, sender=fresh.owner)
    assert executor(tasks, fresh) == (True, class_id, 0, 0, 0)


def test_evict__by_anyone_when_the_stake_is_too_little(stage: TaskStage, tasks: Any) -> None:
    thin = stage.seat("thin", STAKE)
    with refuses("executors: enough stake"):
        tasks.evict(thin.node_id, sender=stage.stranger)
    slash(stage.system, thin, NO_REVEAL)
    mine()
    tasks.evict(thin.node_id, sender=stage.stranger)
    assert events_of(tasks) == [event("ExecutorLeft", node_id=thin.node_id, class_id=CPU, seat=5)]
    assert executor(tasks, thin) == (False, 0, 0, 0, block())
    assert tasks.seat(CPU, 5)[3] == block()
    with refuses("executors: no seat"):
        tasks.evict(thin.node_id, sender=stage.stranger)


@pytest.mark.parametrize("why", ["suspended", "banned", "exiting"])
def test_evict__of_a_rich_node_that_may_not_be_drawn(
    stage: TaskStage, tasks: Any, why: str
) -> None:
    node = stage.nodes[2]
    if why == "exiting":
        stage.registry.begin_exit(node.node_id, sender=node.owner)
    else:
        slash(stage.system, node, ABORT if why == "suspended" else REPEATED)
    tasks.evict(node.node_id, sender=stage.stranger)
    assert not tasks.executor(node.node_id).seated


def test_evict__without_a_seat__reverts(stage: TaskStage, tasks: Any, fresh: Player) -> None:
    with refuses("executors: enough stake"):
        tasks.evict(fresh.node_id, sender=stage.stranger)
    slash(stage.system, fresh, NO_REVEAL)
    for node_id in (0, 99, fresh.node_id):
        with refuses("executors: no seat"):
            tasks.evict(node_id, sender=stage.stranger)


# Seats


def test_seats__an_empty_one_is_taken_again_after_the_cooldown(system: System, tasks: Any) -> None:
    a, b, c, d = (system.join(f"n{i}", TRAINER) for i in range(4))
    for player in (a, b):
        tasks.join(player.node_id, CPU, sender=player.owner)
    tasks.leave(a.node_id, sender=a.owner)
    mine(COOLDOWN)
    tasks.join(c.node_id, CPU, sender=c.owner)
    assert (tasks.executor(c.node_id).seat, tasks.pool_size(CPU)) == (2, 3)
    mine()
    tasks.join(d.node_id, CPU, sender=d.owner)
    assert (tasks.executor(d.node_id).seat, tasks.pool_size(CPU)) == (0, 3)
    assert tuple(tasks.seat(CPU, 0)) == (d.node_id, d.owner, block(), 0)


def test_seats__leaving_and_coming_back_for_ever__makes_no_pool_grow(
    stage: TaskStage, tasks: Any
) -> None:
    """Or a swarm that comes and goes would make a draw run out of tries."""
    for _ in range(5):
        for player in stage.nodes:
            tasks.leave(player.node_id, sender=player.operator)
        mine(COOLDOWN + 1)
        for player in stage.nodes:
            tasks.join(player.node_id, CPU, sender=player.operator)
    assert tasks.pool_size(CPU) == len(stage.nodes)


@pytest.mark.parametrize("seed", range(4))
def test_seats__random_life__is_a_queue(system: System, tasks: Any, seed: int) -> None:
    """Against a model: the seat that was left first is taken again first, if long enough ago."""
    r = Random(seed)
    players = [system.join(f"n{i}", TRAINER) for i in range(8)]
    held: dict[int, tuple[int, int]] = {}
    left: dict[int, int] = {}
    sizes = {CPU: 0, CUDA: 0}
    empty: dict[int, list[tuple[int, int]]] = {CPU: [], CUDA: []}
    for _ in range(150):
        mine(r.choice((1, 1, 20, 200)))
        node = r.choice(players)
        if node.node_id in held:
            class_id, place = held.pop(node.node_id)
            tasks.leave(node.node_id, sender=node.operator)
            empty[class_id].append((place, block()))
            left[node.node_id] = block()
            assert tasks.seat(class_id, place)[3] == block()
            continue
        class_id = r.choice((CPU, CUDA))
        if block() - left.get(node.node_id, -COOLDOWN) <= COOLDOWN:
            with refuses("executors: just left"):
                tasks.join(node.node_id, class_id, sender=node.operator)
            continue
        tasks.join(node.node_id, class_id, sender=node.operator)
        queue = empty[class_id]
        if queue and block() - queue[0][1] > COOLDOWN:
            place = queue.pop(0)[0]
        else:
            place = sizes[class_id]
            sizes[class_id] += 1
        held[node.node_id] = class_id, place
        assert tuple(tasks.seat(class_id, place)) == (node.node_id, node.owner, block(), 0)
        assert tasks.executor(node.node_id).seat == place
        assert {c: tasks.pool_size(c) for c in sizes} == sizes
        assert len(set(held.values())) == len(held)
