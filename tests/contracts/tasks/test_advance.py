# SPDX-License-Identifier: Apache-2.0
"""advance: once a deadline has passed anyone ends the stage; who stayed silent is slashed like who
loses a comparison, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import block, mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.system import STAKE, ZERO, refuses
from tests.stage.contracts.tasks import NO_COMMIT, NO_REVEAL, Silent, TaskStage, slashed

SLASH = slashed(2_000)


def aborted(stage: TaskStage, task_id: int, lane: int, amount: int = SLASH) -> tuple[str, Any]:
    player = stage.runners(task_id)[lane]
    fields = {"task_id": task_id, "node_id": player.node_id, "lane": lane, "slashed": amount}
    return "ExecutorAborted", fields


def ended(task_id: int) -> tuple[str, Any]:
    return event(
        "TaskUndecided",
        task_id=task_id,
        refund=task.FEE,
        appeal_deadline=now() + task.APPEAL_S,
    )


def test_rows__silence_costs_what_losing_costs(stage: TaskStage) -> None:
    silent, wrong = (stage.registry.penalty(row) for row in (task.ABORT, task.REDUNDANCY_MISMATCH))
    for field in ("bps", "escalation_bps", "suspension", "strike", "ban"):
        assert getattr(silent, field) >= getattr(wrong, field)


# Nobody, or one, committed


@pytest.mark.parametrize("silent", [0, 1])
def test_advance__one_did_not_commit(stage: TaskStage, tasks: Any, silent: int) -> None:
    task_id = stage.started()
    stage.commit(task_id, 1 - silent, task.RIGHT)
    player = stage.runners(task_id)[silent]
    stage.wait_out(task_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id, sender=stage.stranger))
    assert moved == {("stake", player.name): -SLASH, ("bounty", "treasury"): SLASH}
    assert events == [
        event("DrawRequested", task_id=task_id, wanted=1, seed_block=block() + 1),
        aborted(stage, task_id, silent),
    ]
    state = stage.state(task_id)
    assert (state.status, state.wanted) == (task.DRAWING, 1)
    assert state.states[silent] == task.LANE_ABORTED
    assert state.states[1 - silent] == task.LANE_COMMITTED
    assert [stage.open_lanes(p) for p in stage.runners(task_id)] == [silent, 1 - silent]
    node = stage.registry.node(player.node_id)
    assert (node.suspended_until, node.strikes) == (now() + 7 * 86_400, 1)
    assert stage.registry.offences(player.node_id, task.ABORT) == 1


def test_advance__nobody_committed__two_others_are_drawn(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.started()
    a, b = stage.runners(task_id)
    stage.wait_out(task_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id, sender=stage.stranger))
    assert moved == {
        ("stake", a.name): -SLASH,
        ("stake", b.name): -SLASH,
        ("bounty", "treasury"): 2 * SLASH,
    }
    assert events == [
        event("DrawRequested", task_id=task_id, wanted=2, seed_block=block() + 1),
        aborted(stage, task_id, 0),
        aborted(stage, task_id, 1),
    ]
    with stage.moves() as moved:
        stage.play(NO_COMMIT, NO_COMMIT, task.RIGHT, task.RIGHT, task_id=task_id)
    runners = stage.runners(task_id)
    assert len({p.node_id for p in runners}) == 4
    assert moved == {
        ("open", "tasks"): -task.FEE,
        ("tasks", runners[2].name): task.HALF,
        ("tasks", runners[3].name): task.REST,
    }


def test_advance__nobody_ever_commits__the_fee_goes_back(stage: TaskStage, tasks: Any) -> None:
    """Four lanes are spent and one is left, but two results are needed."""
    task_id = stage.started()
    stage.step(task_id, (NO_COMMIT, NO_COMMIT))
    stage.draw(task_id)
    stage.wait_out(task_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id, sender=stage.stranger))
    third, fourth = stage.runners(task_id)[2:]
    assert moved == {
        ("stake", third.name): -SLASH,
        ("stake", fourth.name): -SLASH,
        ("bounty", "treasury"): 2 * SLASH,
        ("open", "tasks"): -task.FEE,
        ("tasks", "creator"): task.FEE,
    }
    assert events == [
        ended(task_id),
        event("BondCredited", account=stage.creator, amount=task.FEE),
        aborted(stage, task_id, 2),
        aborted(stage, task_id, 3),
    ]
    assert stage.state(task_id).states == [task.LANE_ABORTED] * 4
    assert [stage.open_lanes(p) for p in stage.nodes] == [0] * 5


# Not all revealed


def test_advance__one_did_not_reveal(stage: TaskStage, tasks: Any) -> None:
    """The first tag stands, and the next executor sees no result that it could copy."""
    task_id = stage.started()
    stage.commit_all(task_id, {0: task.RIGHT, 1: task.WRONG})
    stage.reveal(task_id, 0, task.RIGHT)
    player = stage.runners(task_id)[1]
    stage.wait_out(task_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id, sender=stage.stranger))
    assert moved == {("stake", player.name): -SLASH, ("bounty", "treasury"): SLASH}
    assert events == [
        event("DrawRequested", task_id=task_id, wanted=1, seed_block=block() + 1),
        aborted(stage, task_id, 1),
    ]
    state = stage.state(task_id)
    assert state.states == [task.LANE_REVEALED, task.LANE_ABORTED]
    assert state.answers[0] == stage.tag(task_id, task.RIGHT)
    third = stage.draw(task_id)[2]
    stage.commit(task_id, 2, task.RIGHT)
    assert stage.status(task_id) == task.REVEALING
    with stage.moves() as moved:
        stage.reveal(task_id, 2, task.RIGHT)
    first = stage.runners(task_id)[0]
    assert stage.status(task_id) == task.AGREED
    assert moved == {
        ("open", "tasks"): -task.FEE,
        ("tasks", first.name): task.HALF,
        ("tasks", third.name): task.REST,
    }


@pytest.mark.parametrize(
    ("answers", "status", "aborts"),
    [
        ((NO_COMMIT, task.RIGHT, NO_REVEAL, NO_COMMIT, task.RIGHT), task.AGREED, 3),
        ((NO_COMMIT, NO_REVEAL, NO_COMMIT, task.RIGHT, task.RIGHT), task.AGREED, 3),
        ((NO_REVEAL, NO_REVEAL, task.RIGHT, task.RIGHT), task.AGREED, 2),
        ((task.RIGHT, task.WRONG, NO_COMMIT, NO_REVEAL, task.RIGHT), task.DECIDED, 2),
        ((task.RIGHT, task.WRONG, NO_COMMIT, NO_REVEAL, task.OTHER), task.UNDECIDED, 2),
        ((task.RIGHT, task.WRONG, NO_REVEAL, NO_COMMIT, NO_COMMIT), task.UNDECIDED, 3),
        ((NO_COMMIT, task.RIGHT, NO_COMMIT, NO_COMMIT, NO_COMMIT), task.UNDECIDED, 4),
        ((NO_REVEAL, task.RIGHT, NO_COMMIT, task.WRONG, NO_REVEAL), task.UNDECIDED, 3),
        ((NO_REVEAL, NO_REVEAL, NO_REVEAL, NO_COMMIT, NO_COMMIT), task.UNDECIDED, 4),
    ],
)
def test_advance__every_mixture_ends_and_conserves(
    stage: TaskStage, answers: tuple[bytes | Silent, ...], status: int, aborts: int
) -> None:
    """At most five executors and three results, whatever they do; no lane stays open but those of a
    decision that waits for its appeal window; no unit is lost. Who committed but was never asked to
    reveal is not slashed."""
    with stage.moves() as moved:
        task_id = stage.play(*answers)
    state = stage.state(task_id)
    assert (state.status, len(state.nodes)) == (status, len(answers))
    silent = [
        player
        for player, lane in zip(stage.runners(task_id), state.states, strict=True)
        if lane == task.LANE_ABORTED
    ]
    assert len(silent) == aborts
    assert moved["bounty", "treasury"] == aborts * SLASH
    assert {key for key in moved if key[0] == "stake"} == {("stake", p.name) for p in silent}
    open_lanes = sum(stage.open_lanes(p) for p in stage.nodes)
    assert open_lanes == (3 if status == task.DECIDED else 0)
    assert moved.get(("open", "tasks"), 0) == (task.FEE if status == task.DECIDED else 0)
    assert ("tasks", "stranger") not in moved


# Who and when


def test_advance__before_the_deadline__reverts(stage: TaskStage, tasks: Any) -> None:
    task_id = stage.started()
    mine(1, task.RUN_S)
    with refuses("tasks: not over"):
        tasks.advance(task_id)
    stage.commit_all(task_id, {0: task.RIGHT, 1: task.RIGHT})
    mine(1, task.REVEAL_S)
    with refuses("tasks: not over"):
        tasks.advance(task_id)
    mine(1, 1)
    tasks.advance(task_id)


def test_advance__stake_added_after_the_deadline__is_not_at_risk(
    stage: TaskStage, tasks: Any
) -> None:
    task_id = stage.started()
    a, b = stage.runners(task_id)
    stage.system.person(f"{a.name} owner", STAKE)
    stage.system.person(f"{b.name} owner", STAKE)
    mine(1, task.RUN_S)
    stage.registry.add_stake(a.node_id, STAKE, sender=a.owner)
    mine(1, 1)
    stage.registry.add_stake(b.node_id, STAKE, sender=b.owner)
    with stage.moves() as moved:
        tasks.advance(task_id)
    assert moved["stake", a.name] == -2 * SLASH
    assert moved["stake", b.name] == -SLASH


def test_advance__third_strike__bans(stage: TaskStage, tasks: Any) -> None:
    """Strikes of all kinds count together, so leaving is no way around a ban either."""
    task_id = stage.started()
    player = stage.runners(task_id)[0]
    for _ in range(2):
        stage.registry.slash(player.node_id, 2, now(), ZERO, sender=tasks.address)
    stage.wait_out(task_id)
    left = stage.registry.bonded(player.node_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id))
    assert aborted(stage, task_id, 0, left) in events
    assert moved["stake", player.name] == -left
    assert stage.registry.node(player.node_id).banned


def test_advance__nothing_left_to_take__goes_on(stage: TaskStage, tasks: Any) -> None:
    """A node that has gone must not hold up a task."""
    task_id = stage.started()
    player = stage.runners(task_id)[0]
    stage.registry.slash(player.node_id, 4, now(), ZERO, sender=tasks.address)
    stage.commit(task_id, 1, task.RIGHT)
    stage.wait_out(task_id)
    moved, events = stage.effects(tasks, lambda: tasks.advance(task_id))
    assert moved == {}
    assert events[-1] == aborted(stage, task_id, 0, 0)


def test_advance__stricter_row__is_applied(stage: TaskStage, tasks: Any, owner: str) -> None:
    stage.registry.set_penalty(task.ABORT, (10_000, 0, 30 * 86_400, True, True, 0), sender=owner)
    task_id = stage.started()
    stage.commit(task_id, 0, task.RIGHT)
    player = stage.runners(task_id)[1]
    stage.wait_out(task_id)
    with stage.moves() as moved:
        tasks.advance(task_id)
    assert moved == {("stake", player.name): -STAKE, ("bounty", "treasury"): STAKE}
