# SPDX-License-Identifier: Apache-2.0
"""advance: once a deadline has passed anyone ends the stage; who stayed silent is slashed like who
loses a comparison, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.system import STAKE, ZERO, ZOO, System, events_of, refuses
from tests.stage.contracts.tasks import (
    ABORT,
    AGREED,
    APPEAL_S,
    BOUNTY,
    DECIDED,
    DRAWING,
    FEE,
    HALF,
    LANE_ABORTED,
    LANE_COMMITTED,
    LANE_REVEALED,
    NO_COMMIT,
    NO_REVEAL,
    OTHER,
    REDUNDANCY_MISMATCH,
    REST,
    REVEAL_S,
    REVEALING,
    RIGHT,
    RUN_S,
    UNDECIDED,
    WRONG,
    Silent,
    TaskWorld,
    slashed,
)

SLASH = slashed(2_000)


def aborted(world: TaskWorld, task_id: int, lane: int, amount: int = SLASH) -> tuple[str, Any]:
    player = world.runners(task_id)[lane]
    fields = {"task_id": task_id, "node_id": player.node_id, "lane": lane, "slashed": amount}
    return "ExecutorAborted", fields


def ended(task_id: int, closer: str, bounty: int = BOUNTY) -> tuple[str, Any]:
    return (
        "TaskUndecided",
        {
            "task_id": task_id,
            "refund": FEE - bounty,
            "bounty": bounty,
            "closer": closer,
            "appeal_deadline": now() + APPEAL_S,
        },
    )


def test_rows__silence_costs_what_losing_costs(world: TaskWorld) -> None:
    silent, wrong = (world.registry.penalty(row) for row in (ABORT, REDUNDANCY_MISMATCH))
    for field in ("bps", "escalation_bps", "suspension", "strike", "ban"):
        assert getattr(silent, field) >= getattr(wrong, field)


# Nobody, or one, committed


@pytest.mark.parametrize("silent", [0, 1])
def test_advance__one_did_not_commit(world: TaskWorld, tasks: Any, silent: int) -> None:
    task_id = world.started()
    world.commit(task_id, 1 - silent, RIGHT)
    player = world.runners(task_id)[silent]
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id, sender=world.stranger)
        events = events_of(tasks)
    assert moved == {("stake", player.name): -SLASH, ("bounty", "treasury"): SLASH}
    assert events == [
        ("DrawRequested", {"task_id": task_id, "wanted": 1, "seed_block": block() + 1}),
        aborted(world, task_id, silent),
    ]
    state = world.state(task_id)
    assert (state.status, state.wanted, state.redraws) == (DRAWING, 1, 0)
    assert state.states[silent] == LANE_ABORTED
    assert state.states[1 - silent] == LANE_COMMITTED
    assert [world.open_lanes(p) for p in world.runners(task_id)] == [silent, 1 - silent]
    node = world.registry.node(player.node_id)
    assert (node.suspended_until, node.strikes) == (now() + 7 * 86_400, 1)
    assert world.registry.offences(player.node_id, ABORT) == 1


def test_advance__nobody_committed__two_others_are_drawn(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    a, b = world.runners(task_id)
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id, sender=world.stranger)
        events = events_of(tasks)
    assert moved == {
        ("stake", a.name): -SLASH,
        ("stake", b.name): -SLASH,
        ("bounty", "treasury"): 2 * SLASH,
    }
    assert events == [
        ("DrawRequested", {"task_id": task_id, "wanted": 2, "seed_block": block() + 1}),
        aborted(world, task_id, 0),
        aborted(world, task_id, 1),
    ]
    with world.moves() as moved:
        world.play(NO_COMMIT, NO_COMMIT, RIGHT, RIGHT, task_id=task_id)
    runners = world.runners(task_id)
    assert len({p.node_id for p in runners}) == 4
    assert moved == {
        ("open", "tasks"): -FEE,
        ("tasks", runners[2].name): HALF,
        ("tasks", runners[3].name): REST,
    }


def test_advance__nobody_ever_commits__the_fee_goes_back(world: TaskWorld, tasks: Any) -> None:
    """Four lanes are spent and one is left, but two results are needed."""
    task_id = world.started()
    world.step(task_id, (NO_COMMIT, NO_COMMIT))
    world.draw(task_id)
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id, sender=world.stranger)
        events = events_of(tasks)
    third, fourth = world.runners(task_id)[2:]
    assert moved == {
        ("stake", third.name): -SLASH,
        ("stake", fourth.name): -SLASH,
        ("bounty", "treasury"): 2 * SLASH,
        ("open", "tasks"): -FEE,
        ("tasks", "creator"): FEE - BOUNTY,
        ("tasks", "stranger"): BOUNTY,
    }
    assert events == [
        ended(task_id, world.stranger),
        ("BondCredited", {"account": world.creator, "amount": FEE - BOUNTY}),
        ("BondCredited", {"account": world.stranger, "amount": BOUNTY}),
        aborted(world, task_id, 2),
        aborted(world, task_id, 3),
    ]
    assert world.state(task_id).states == [LANE_ABORTED] * 4
    assert [world.open_lanes(p) for p in world.nodes] == [0] * 5


# Not all revealed


def test_advance__one_did_not_reveal(world: TaskWorld, tasks: Any) -> None:
    """The first tag stands, and the next executor sees no result that it could copy."""
    task_id = world.started()
    world.commit_all(task_id, {0: RIGHT, 1: WRONG})
    world.reveal(task_id, 0, RIGHT)
    player = world.runners(task_id)[1]
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id, sender=world.stranger)
        events = events_of(tasks)
    assert moved == {("stake", player.name): -SLASH, ("bounty", "treasury"): SLASH}
    assert events == [
        ("DrawRequested", {"task_id": task_id, "wanted": 1, "seed_block": block() + 1}),
        aborted(world, task_id, 1),
    ]
    state = world.state(task_id)
    assert state.states == [LANE_REVEALED, LANE_ABORTED]
    assert state.answers[0] == world.tag(task_id, RIGHT)
    third = world.draw(task_id)[2]
    world.commit(task_id, 2, RIGHT)
    assert world.status(task_id) == REVEALING
    with world.moves() as moved:
        world.reveal(task_id, 2, RIGHT)
    first = world.runners(task_id)[0]
    assert world.status(task_id) == AGREED
    assert moved == {
        ("open", "tasks"): -FEE,
        ("tasks", first.name): HALF,
        ("tasks", third.name): REST,
    }


def test_advance__nobody_revealed__two_others_are_drawn(world: TaskWorld, tasks: Any) -> None:
    task_id = world.play(NO_REVEAL, NO_REVEAL, RIGHT, RIGHT)
    assert world.status(task_id) == AGREED
    assert world.state(task_id).states[:2] == [LANE_ABORTED] * 2


@pytest.mark.parametrize(
    ("answers", "status", "aborts"),
    [
        ((NO_COMMIT, RIGHT, NO_REVEAL, NO_COMMIT, RIGHT), AGREED, 3),
        ((NO_COMMIT, NO_REVEAL, NO_COMMIT, RIGHT, RIGHT), AGREED, 3),
        ((RIGHT, WRONG, NO_COMMIT, NO_REVEAL, RIGHT), DECIDED, 2),
        ((RIGHT, WRONG, NO_COMMIT, NO_REVEAL, OTHER), UNDECIDED, 2),
        ((RIGHT, WRONG, NO_REVEAL, NO_COMMIT, NO_COMMIT), UNDECIDED, 3),
        ((NO_COMMIT, RIGHT, NO_COMMIT, NO_COMMIT, NO_COMMIT), UNDECIDED, 4),
        ((NO_REVEAL, RIGHT, NO_COMMIT, WRONG, NO_REVEAL), UNDECIDED, 3),
        ((NO_REVEAL, NO_REVEAL, NO_REVEAL, NO_COMMIT, NO_COMMIT), UNDECIDED, 4),
    ],
)
def test_advance__every_mixture_ends_and_conserves(
    world: TaskWorld, answers: tuple[bytes | Silent, ...], status: int, aborts: int
) -> None:
    """At most five executors and three results, whatever they do; no lane stays open but those of a
    decision that waits for its appeal window; no unit is lost. Who committed but was never asked to
    reveal is not slashed."""
    with world.moves() as moved:
        task_id = world.play(*answers)
    state = world.state(task_id)
    assert (state.status, len(state.nodes)) == (status, len(answers))
    silent = [
        player
        for player, lane in zip(world.runners(task_id), state.states, strict=True)
        if lane == LANE_ABORTED
    ]
    assert len(silent) == aborts
    assert moved["bounty", "treasury"] == aborts * SLASH
    assert {key for key in moved if key[0] == "stake"} == {("stake", p.name) for p in silent}
    open_lanes = sum(world.open_lanes(p) for p in world.nodes)
    assert open_lanes == (3 if status == DECIDED else 0)
    assert moved.get(("open", "tasks"), 0) == (FEE if status == DECIDED else 0)
    if status == UNDECIDED:
        closed_by_reveal = not isinstance(answers[-1], Silent)
        assert moved.get(("tasks", "stranger"), 0) == (0 if closed_by_reveal else BOUNTY)


# Who and when


def test_advance__before_the_deadline__reverts(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    mine(1, RUN_S)
    with refuses("tasks: not over"):
        tasks.advance(task_id)
    world.commit_all(task_id, {0: RIGHT, 1: RIGHT})
    mine(1, REVEAL_S)
    with refuses("tasks: not over"):
        tasks.advance(task_id)
    mine(1, 1)
    tasks.advance(task_id)


def test_advance__in_another_status__reverts(world: TaskWorld, tasks: Any) -> None:
    drawing, agreed = world.create(), world.play(RIGHT, RIGHT)
    decided = world.play(RIGHT, WRONG, RIGHT)
    mine(1, 86_400)
    for task_id in (0, drawing, agreed, decided, 99):
        with refuses("tasks: not running"):
            tasks.advance(task_id)


def test_advance__stake_added_after_the_deadline__is_not_at_risk(
    world: TaskWorld, tasks: Any
) -> None:
    task_id = world.started()
    a, b = world.runners(task_id)
    world.system.person(f"{a.name} owner", STAKE)
    world.system.person(f"{b.name} owner", STAKE)
    mine(1, RUN_S)
    world.registry.add_stake(a.node_id, STAKE, sender=a.owner)
    mine(1, 1)
    world.registry.add_stake(b.node_id, STAKE, sender=b.owner)
    with world.moves() as moved:
        tasks.advance(task_id)
    assert moved["stake", a.name] == -2 * SLASH
    assert moved["stake", b.name] == -SLASH


def test_advance__by_an_exit__nothing_is_escaped(world: TaskWorld, tasks: Any) -> None:
    task_id = world.started()
    a, b = world.runners(task_id)
    world.registry.begin_exit(a.node_id, sender=a.owner)
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id)
    assert moved["stake", a.name] == moved["stake", b.name] == -SLASH


def test_advance__third_strike__bans(world: TaskWorld, tasks: Any) -> None:
    """Strikes of all kinds count together, so leaving is no way around a ban either."""
    task_id = world.started()
    player = world.runners(task_id)[0]
    for _ in range(2):
        world.registry.slash(player.node_id, 2, now(), ZERO, sender=tasks.address)
    world.wait_out(task_id)
    left = world.registry.bonded(player.node_id)
    with world.moves() as moved:
        tasks.advance(task_id)
        events = events_of(tasks)
    assert aborted(world, task_id, 0, left) in events
    assert moved["stake", player.name] == -left
    assert world.registry.node(player.node_id).banned


def test_advance__nothing_left_to_take__goes_on(world: TaskWorld, tasks: Any) -> None:
    """A node that has gone must not hold up a task."""
    task_id = world.started()
    player = world.runners(task_id)[0]
    world.registry.slash(player.node_id, 4, now(), ZERO, sender=tasks.address)
    world.commit(task_id, 1, RIGHT)
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id)
        events = events_of(tasks)
    assert moved == {}
    assert events[-1] == aborted(world, task_id, 0, 0)


def test_advance__stricter_row__is_applied(world: TaskWorld, tasks: Any, owner: str) -> None:
    world.registry.set_penalty(ABORT, (10_000, 0, 30 * 86_400, True, True, 0), sender=owner)
    task_id = world.started()
    world.commit(task_id, 0, RIGHT)
    player = world.runners(task_id)[1]
    world.wait_out(task_id)
    with world.moves() as moved:
        tasks.advance(task_id)
    assert moved == {("stake", player.name): -STAKE, ("bounty", "treasury"): STAKE}


def test_undecided__bounty_is_at_most_the_fee(system: System, world: TaskWorld) -> None:
    least = ZOO // 1_000 * 60
    assert least > BOUNTY
    with world.moves() as moved:
        task_id = world.create(fee=least, run_s=60)
        world.play(NO_COMMIT, NO_COMMIT, NO_COMMIT, NO_COMMIT, task_id=task_id)
    assert moved["tasks", "creator"] == least - BOUNTY
    assert moved["tasks", "stranger"] == BOUNTY
