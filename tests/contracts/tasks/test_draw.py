# SPDX-License-Identifier: Apache-2.0
"""draw: pinned to a block after the request, captured by anyone, requested again only when nobody
captured it for 256 blocks. It waits for free lanes, until its time is over."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.contracts.tasks.test_settings import create
from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.sources import RANDOM_SOURCE
from tests.stage.contracts.system import EMPTY, Codes, System, refuses
from tests.stage.contracts.tasks import LIFETIME, RIGHT, WRONG, TaskStage, lot, make_tasks


def drawn(stage: TaskStage, task_id: int, barred: tuple[str, ...] = (), wanted: int = 2) -> Any:
    """What the seed of the pinned block draws, by definition, from all nodes in order of seats."""
    seed = stage.seed(task_id, stage.state(task_id).seed_block)
    return lot(seed, [(p.node_id, p.owner) for p in stage.nodes], set(barred), wanted)


def test_draw__takes_two_by_lot_and_starts_their_time(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.create()
    mine(2)
    expected = drawn(stage, task_id)
    assert tasks.expected(task_id) == expected
    moved, events = stage.effects(tasks, lambda: tasks.draw(task_id, sender=stage.stranger))
    assert moved == {}
    deadline = now() + task.RUN_S
    assert events == [
        event("ExecutorDrawn", task_id=task_id, node_id=node_id, lane=lane, deadline=deadline)
        for lane, node_id in enumerate(expected)
    ]
    state = stage.state(task_id)
    assert (state.status, state.time, state.wanted) == (task.RUNNING, deadline, 0)
    assert (state.nodes, state.states) == (expected, [task.LANE_RUNNING] * 2)
    assert state.answers == [EMPTY] * 2
    assert [stage.open_lanes(p) for p in stage.nodes] == [
        int(p.node_id in expected) for p in stage.nodes
    ]


@pytest.mark.parametrize("blocks", [0, 1])
def test_draw__before_the_block_is_mined__reverts(
    stage: TaskStage, tasks: Any, blocks: int
) -> None:
    """In the pinned block itself its hash does not exist yet."""
    task_id = stage.create()
    mine(blocks)
    assert tasks.expected(task_id) == []
    with refuses("tasks: too early"):
        tasks.draw(task_id)


@pytest.mark.parametrize("blocks", [2, 100, 1 + LIFETIME])
def test_draw__whoever_captures_it_and_when__makes_no_difference(
    stage: TaskStage, tasks: Any, blocks: int
) -> None:
    task_id = stage.create()
    mine(2)
    expected = tasks.expected(task_id)
    mine(blocks - 2)
    assert tasks.expected(task_id) == expected
    tasks.draw(task_id, sender=stage.nodes[0].operator)
    assert stage.state(task_id).nodes == expected


# Requested again


def test_draw__nobody_came_for_256_blocks__is_pinned_to_a_fresh_block(
    stage: TaskStage, tasks: Any
) -> None:
    task_id = stage.create()
    late = stage.seat("late")
    mine(2 + LIFETIME)
    assert tasks.expected(task_id) == []
    moved, events = stage.effects(tasks, lambda: tasks.draw(task_id, sender=stage.stranger))
    assert moved == {}
    assert events == [event("DrawRequested", task_id=task_id, wanted=2, seed_block=block() + 1)]
    state = stage.state(task_id)
    assert (state.status, state.nodes) == (task.DRAWING, [])
    assert (state.time, state.seed_block) == (now(), block() + 1)
    mine()
    with refuses("tasks: too early"):
        tasks.draw(task_id)
    mine()
    # The pool is the one before the new request: a later node is in it now.
    assert late in stage.nodes
    assert tasks.expected(task_id) == drawn(stage, task_id)


def test_draw__lost_again_and_again__still_draws(stage: TaskStage, tasks: Any) -> None:
    """However often: only the clock ends a task that nobody draws."""
    task_id = stage.create()
    for _ in range(3):
        stage.to_draw(task_id, late=LIFETIME)
        tasks.draw(task_id)
        assert stage.state(task_id).seed_block == block() + 1
    with stage.moves() as moved:
        stage.play(RIGHT, RIGHT, task_id=task_id)
    a, b = stage.runners(task_id)
    assert moved == {
        ("open", "tasks"): -task.FEE,
        ("tasks", a.name): task.HALF,
        ("tasks", b.name): task.REST,
    }


@pytest.mark.parametrize("lost", [False, True])
def test_draw__when_its_time_is_over__the_fee_goes_back(
    stage: TaskStage, tasks: Any, lost: bool
) -> None:
    """Whether the latest draw could be captured or not, and whoever calls; nobody has a bounty."""
    task_id = stage.create()
    until = stage.state(task_id).draw_until
    assert until == now() // 8 * 8 + task.DRAW_S
    mine(2 + lost * LIFETIME, until - now())
    assert bool(tasks.expected(task_id)) is not lost
    mine(0, 1)
    assert tasks.expected(task_id) == []
    with refuses("tasks: not running"):
        tasks.commit(task_id, 0, b"\x01" * 32, sender=stage.nodes[0].operator)
    moved, events = stage.effects(tasks, lambda: tasks.draw(task_id, sender=stage.stranger))
    assert moved == {("open", "tasks"): -task.FEE, ("tasks", "creator"): task.FEE}
    assert events == [
        event(
            "TaskUndecided",
            task_id=task_id,
            refund=task.FEE,
            appeal_deadline=now() + task.APPEAL_S,
        ),
        event("BondCredited", account=stage.creator, amount=task.FEE),
    ]
    assert (stage.status(task_id), stage.state(task_id).draw_until) == (task.UNDECIDED, 0)
    with refuses("tasks: not drawing"):
        tasks.draw(task_id)


def test_draw__in_the_last_second__draws(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.create()
    mine(2, stage.state(task_id).draw_until - now())
    tasks.draw(task_id)
    assert stage.status(task_id) == task.RUNNING


# Too few


@pytest.fixture
def crowd(system: System) -> TaskStage:
    """Three seats, all of one owner."""
    stage = make_tasks(system, nodes=0)
    for i in range(3):
        stage.seat(f"node {i}", owner="landlord")
    mine()
    return stage


def test_draw__too_few__waits(crowd: TaskStage, tasks: Any) -> None:
    task_id = crowd.create()
    mine(2)
    assert tasks.expected(task_id) == []
    for player in crowd.nodes:
        with refuses("tasks: hands full"):
            tasks.commit(task_id, 0, b"\x01" * 32, sender=player.operator)
    with refuses("tasks: hands full"):
        tasks.draw(task_id, sender=crowd.stranger)
    neighbour = crowd.seat("neighbour")
    mine()
    # It sat down after the request, so it is in the next draw only.
    with refuses("tasks: hands full"):
        tasks.draw(task_id)
    crowd.to_draw(task_id, late=LIFETIME)
    tasks.draw(task_id)
    assert neighbour in crowd.draw(task_id)


def test_draw__no_third_in_time__ends_the_task_and_frees_its_lanes(
    system: System, tasks: Any
) -> None:
    """Three nodes, one of which aborted, and the others differ: nobody breaks the tie."""
    stage = make_tasks(system, nodes=3)
    task_id = stage.started()
    stage.commit(task_id, 0, RIGHT)
    stage.wait_out(task_id)
    tasks.advance(task_id)
    stage.draw(task_id)
    stage.commit(task_id, 2, WRONG)
    stage.reveal_all(task_id, {0: RIGHT, 2: WRONG})
    assert stage.state(task_id).wanted == 1
    stage.to_draw(task_id)
    with refuses("tasks: hands full"):
        tasks.draw(task_id)
    mine(1, stage.state(task_id).draw_until + 1 - now())
    with stage.moves() as moved:
        tasks.draw(task_id, sender=stage.stranger)
    assert stage.status(task_id) == task.UNDECIDED
    assert moved == {("open", "tasks"): -task.FEE, ("tasks", "creator"): task.FEE}
    assert [stage.open_lanes(p) for p in stage.nodes] == [0] * 3


# Further executors


def test_draw__of_a_third__has_a_fresh_seed(stage: TaskStage, tasks: Any) -> None:
    """Nobody knows before the first two have revealed who will break their tie."""
    task_id = stage.started()
    first = stage.state(task_id).seed_block
    stage.commit_all(task_id, {0: RIGHT, 1: WRONG})
    stage.reveal(task_id, 0, RIGHT)
    mine(5)
    stage.reveal(task_id, 1, WRONG)
    state = stage.state(task_id)
    assert (state.status, state.wanted) == (task.DRAWING, 1)
    assert state.seed_block == block() + 1 > first + 5
    with refuses("tasks: too early"):
        tasks.draw(task_id)
    mine(2)
    owners = tuple(p.owner for p in stage.runners(task_id))
    expected = drawn(stage, task_id, owners, 1)
    assert tasks.expected(task_id) == expected
    tasks.draw(task_id)
    assert stage.state(task_id).nodes[2:] == expected


def test_draw__after_an_abort__excludes_who_aborted(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.started()
    stage.step(task_id, (RIGHT, task.NO_COMMIT))
    mine(2)
    owners = tuple(p.owner for p in stage.runners(task_id))
    assert tasks.expected(task_id) == drawn(stage, task_id, owners, 1)


# Another source of randomness


def test_draw__with_a_source__waits_for_it_and_never_redraws(codes: Codes, system: System) -> None:
    source = boa.loads(RANDOM_SOURCE)
    system.tasks = create(codes, system, source=source.address)
    system.registry.set_slasher(system.tasks.address, True, sender=system.coordinator.address)
    stage = make_tasks(system)
    task_id = stage.create()
    target = stage.state(task_id).seed_block
    mine(1 + LIFETIME)
    assert system.tasks.expected(task_id) == []
    with refuses("tasks: too early"):
        system.tasks.draw(task_id)
    source.publish(target, b"\x77" * 32)
    expected = system.tasks.expected(task_id)
    assert len(expected) == 2
    system.tasks.draw(task_id)
    assert stage.state(task_id).nodes == expected


def test_draw__source_stays_silent__is_requested_again(codes: Codes, system: System) -> None:
    source = boa.loads(RANDOM_SOURCE)
    system.tasks = create(codes, system, source=source.address)
    stage = make_tasks(system)
    task_id = stage.create()
    target = stage.state(task_id).seed_block
    mine(2 + LIFETIME)
    source.publish(target, b"\x77" * 32)
    assert system.tasks.expected(task_id) == []
    system.tasks.draw(task_id)
    assert stage.state(task_id).seed_block == block() + 1
