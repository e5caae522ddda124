# SPDX-License-Identifier: Apache-2.0
"""Executors of redundant tasks as agents on a real chain: how a task goes, what cheats and other
work do to it, and their seats.

Nobody can say whom a draw hits, so agents are started, honest or not, once it is known.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import agents.tasks.runner as runner_module
import agents.tasks.watch as watch_module
from agents.executor import Executor
from agents.protocol.numbers import COVER, LaneState, TaskStatus
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.result import TaskResult
from tests.stage.chain.executors import Executors, Loner, Silent, fake
from tests.stage.chain.people import STAKES, TRAINER
from tests.stage.chain.tasks import FEE, FIFTH, RIGHT

AGREED, CLOSED, DECIDED, REVEALING = (
    TaskStatus.AGREED,
    TaskStatus.CLOSED,
    TaskStatus.DECIDED,
    TaskStatus.REVEALING,
)


# -- an honest task --------------------------------------------------------------------------------


def test_two_run_commit_reveal_and_publish(executors: Executors) -> None:
    executors.start(*executors.tasks.executors)
    for spec in (
        executors.inputs.evaluate(),
        executors.inputs.train(),
        executors.inputs.generate(),
    ):
        task_id = executors.create(spec)
        executors.until(task_id, AGREED)
        task, right = executors.task(task_id), executors.right(task_id)
        assert task.result == right
        assert set(task.states) == {LaneState.AGREED, LaneState.OPENED}
        executors.drive(lambda r=right: executors.has(r), "the payload is published")
    for node in executors.tasks.executors:
        assert executors.said(node, "task_refused") == 0, "no transaction was wasted"


def test_a_refusal_is_a_result(executors: Executors) -> None:
    task_id = executors.create(executors.inputs.evaluate(first=900_000))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.start(*pair)
    executors.until(task_id, AGREED)
    executors.published(task_id)
    assert b"refused" in executors.store.get_digest(executors.task(task_id).result or b"", 1_000)


def test_the_first_commitment_captures_the_draw(executors: Executors) -> None:
    task_id, first, second = executors.at_work()
    executors.until(task_id, AGREED)
    lanes = {(first.name, 0), (second.name, 1)}
    committed = {(name, f"committed: task {task_id}, lane {lane}") for name, lane in lanes}
    assert set(executors.done[:2]) == committed, "two transactions, and none to draw"


def test_a_draw_that_nobody_captures_is_captured_by_anyone(executors: Executors) -> None:
    """Both who are drawn are away; a third moves the task on, whose deadline then passes."""
    task_id, first, second = executors.requested()
    executors.start(*executors.others(first, second)[:1])
    executors.drive(lambda: executors.status(task_id) == TaskStatus.RUNNING, "somebody draws")
    assert executors.task(task_id).nodes == (first.node_id, second.node_id)
    executors.pass_deadline(task_id)
    executors.drive(
        lambda: executors.state(task_id, first) == LaneState.ABORTED, "somebody advances"
    )
    assert executors.state(task_id, second) == LaneState.ABORTED


def test_a_payload_is_nowhere_before_two_agree(executors: Executors) -> None:
    """A third who is drawn for a tie finds neither result nor payload."""
    task_id, first, second = executors.requested()
    executors.start_one(first)
    executors.start_one(second, Loner)
    executors.drive(lambda: len(executors.task(task_id).revealed()) == 2, "both have revealed")
    assert executors.status(task_id) == TaskStatus.DRAWING
    executors.pass_blocks(5, first.name)
    right = executors.right(task_id)
    digest = fake(executors.task(task_id), second.operator.address).digest
    assert not executors.has(right) and not executors.has(digest)
    assert right not in executors.task(task_id).answers


# -- cheats ----------------------------------------------------------------------------------------


def test_a_liar_is_outvoted_and_slashed(executors: Executors) -> None:
    task_id, first, second = executors.everybody(Loner, Executor)
    executors.until(task_id, DECIDED)
    executors.drive(lambda: executors.said(first, "was_wrong") == 1, "the liar finds itself wrong")
    executors.pass_deadline(task_id)
    executors.until(task_id, CLOSED)
    assert executors.gain(first) == -FIFTH
    assert executors.gain(second) == FEE // 2
    assert not any(did.startswith("appealed") for _, did in executors.done)


def test_the_silent_one_is_slashed_and_replaced(executors: Executors) -> None:
    task_id, first, second = executors.everybody(Silent, Executor)
    executors.drive(
        lambda: executors.state(task_id, second) == LaneState.REVEALED, "the other reveals"
    )
    executors.pass_deadline(task_id)
    executors.until(task_id, AGREED)
    assert executors.state(task_id, first) == LaneState.ABORTED
    assert executors.gain(first) == -FIFTH
    assert executors.gain(second) == FEE // 2


# -- other work ------------------------------------------------------------------------------------


def test_it_reveals_while_it_computes(executors: Executors) -> None:
    """A second task keeps the process busy; the first is opened meanwhile."""
    task_id, first, _ = executors.at_work()
    executors.until(task_id, REVEALING)
    agent = executors.agents[first.name]
    assert isinstance(agent, Executor)
    with executors.held_process():
        held = executors.tasks.wait_for(
            lambda: executors.create(executors.fresh(), run_s=3_600),
            lambda n: first in executors.drawn(n),
        )
        executors.until(task_id, AGREED)
        assert executors.state(task_id, first) in (LaneState.AGREED, LaneState.OPENED)
        assert any(f"-{held}-" in name for name in agent.runner.running)


def test_a_crowd_of_tasks_that_end_keeps_no_executor_from_its_own(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited for a day, and nobody was drawn for them. Each agent ended all of them before it
    looked at its own task again, here a block for each, and lost 20 ZOO; all of their fees come
    back."""
    tasks, chain = executors.tasks, executors.tasks.chain
    for node in tasks.executors[1:]:
        tasks.leave(node)
    least = 60 * tasks.people.settings.tasks.fee_per_s
    crowd = [tasks.create(fee=least, run_s=60) for _ in range(70)]
    chain.mine(300)
    for node in tasks.executors[1:]:
        tasks.join(node)
    tasks.people.wait_until(executors.task(crowd[-1]).draw_until)
    task_id = executors.create(executors.fresh(), run_s=60)
    first, _ = tasks.draw(task_id)
    may, ended = threading.Event(), threading.Event()
    run = executors.process.run

    def held(*args: Any) -> TaskResult:
        assert may.wait(60)
        result = run(*args)
        ended.set()
        return result

    monkeypatch.setattr(executors.process, "run", held)
    agent = executors.start_one(first)
    agent.runner.label = CPU
    agent.upkeep._duties._patience_s = 0.0
    chain.rpc("anvil_setBlockTimestampInterval", 1)
    try:
        while not any("draw: task" in did for _, did in executors.done):
            executors.step(first.name)
        may.set()
        assert ended.wait(60)
        while executors.state(task_id, first) == LaneState.RUNNING:
            assert chain.now <= executors.task(task_id).time, "it is too late"
            executors.step(first.name)
    finally:
        chain.rpc("anvil_removeBlockTimestampInterval")
    assert executors.state(task_id, first) == LaneState.COMMITTED


def test_a_short_task_does_not_wait_for_a_long_one(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a process of its own when a share of its time has passed.

    The long task ends when the test says so, and the short one has an hour of the chain's time:
    nothing depends on how long a process takes to start.
    """
    monkeypatch.setattr(runner_module, "_WAIT_SHARE", 3_600)  # that is, after a second
    node = executors.tasks.executors[0]

    def requested() -> int:
        """A task whose draw will take the node."""
        spec = executors.fresh()
        return executors.tasks.wait_for(
            lambda: executors.create(spec, run_s=3_600), lambda n: node in executors.drawn(n)
        )

    runner = executors.start_one(node).runner
    with executors.held_process():
        long = requested()
        executors.drive(
            lambda: any(f"-{long}-" in n for n in runner.running), "the long one is run"
        )
        # It is begun before its draw is captured.
        executors.drive(
            lambda: executors.state(long, node) == LaneState.RUNNING, "the long one is drawn"
        )
        short = requested()
        executors.drive(
            lambda: executors.state(short, node) == LaneState.COMMITTED, "the short one is done"
        )
        assert any(f"-{long}-" in name for name in runner.running)
        assert executors.state(long, node) == LaneState.RUNNING, "the long task was held until now"
    runner.close()


def test_a_task_of_another_class_is_never_run(executors: Executors) -> None:
    task_id, first, _ = executors.requested()
    executors.tasks.draw(task_id)
    agent = executors.start_one(first)
    agent.runner.label = "cuda:sm_90/132/13.0"
    executors.pass_blocks(10, first.name)
    assert executors.state(task_id, first) == LaneState.RUNNING
    assert executors.said(first, "task_run") == 0 and executors.said(first, "cannot_run") == 1


# -- seats -----------------------------------------------------------------------------------------


def test_it_takes_a_seat_and_leaves_a_wrong_one(executors: Executors) -> None:
    node = executors.tasks.enlist("hal")
    agent = executors.start_one(node)
    executors.drive(lambda: bool(executors.reader.seat(node.node_id).seated), "it joins")
    assert executors.done == [("hal", f"joined: the pool of {CPU}")]
    agent.runner.label = "cuda:sm_90/132/13.0"
    executors.drive(lambda: not executors.reader.seat(node.node_id).seated, "it leaves")
    executors.pass_blocks(5, "hal")
    assert executors.said(node, "cannot_join") == 1
    executors.start_one(node, executor={"join": False})
    executors.tasks.chain.mine(300)
    assert executors.pass_blocks(5, "hal") == []


def test_it_says_when_draws_pass_it_over(executors: Executors) -> None:
    """More pay that may be appealed than half of its stake, from tasks with the only other node."""
    tasks = executors.tasks
    node, _, *gone = tasks.executors
    for leaver in gone:
        tasks.leave(leaver)
    tasks.chain.mine(2)
    executors.start_one(node)
    executors.pass_blocks(3, node.name)
    assert executors.said(node, "passed_over") == 0
    while COVER * executors.reader.seat(node.node_id).at_risk <= STAKES[TRAINER]:
        tasks.played(RIGHT, RIGHT)
    executors.pass_blocks(3, node.name)
    assert executors.said(node, "passed_over") == 1
    task_id = tasks.create()
    tasks.await_seed(task_id)
    assert tasks.expected(task_id) == []


def test_a_seat_without_stake_is_emptied_by_anyone(executors: Executors) -> None:
    leaver, keeper = executors.tasks.executors[:2]
    executors.tasks.chain.send(
        leaver.owner, executors.tasks.people.registry, "begin_exit", leaver.node_id
    )
    executors.start_one(keeper)
    executors.drive(lambda: not executors.reader.seat(leaver.node_id).seated, "it is evicted")
    assert executors.done == [(keeper.name, f"evict: node {leaver.node_id}")]


def test_a_pool_that_many_have_left_is_compacted(executors: Executors) -> None:
    """The last holder moves down; its old seat goes when no draw can mean it any more."""
    tasks, chain = executors.tasks.people.tasks, executors.tasks.chain
    *gone, keeper = executors.tasks.executors
    for node in gone:
        executors.tasks.leave(node)
    chain.mine(300)
    executors.start_one(keeper)
    executors.drive(lambda: executors.reader.seat(keeper.node_id).seat == 0, "its holder moves")
    assert executors.pass_blocks(5, keeper.name) == []
    chain.mine(300)
    executors.drive(lambda: chain.call(tasks, "pool_size", 0) == 1, "it is shortened")
    assert executors.done == [(keeper.name, "compact: class 0")] * 2


# -- how much is read ------------------------------------------------------------------------------


def test_what_is_over_is_not_read_again(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads per look are bounded, the old ones are read once, and an appeal brings one back."""
    monkeypatch.setattr(watch_module, "PER_LOOK", 2)
    executors.start(*executors.tasks.executors)
    ids = [executors.create(executors.inputs.evaluate(first=n)) for n in range(3)]
    executors.drive(lambda: all(executors.status(n) == AGREED for n in ids), "all agree")
    reader, asked = executors.reader, []
    many = reader.many

    def counted(numbers: list[int]) -> list[object]:
        asked.append(list(numbers))
        return many(numbers)

    monkeypatch.setattr(reader, "many", counted)
    watch = watch_module.TaskWatch(reader, reader._chain)
    looks = []
    for _ in range(4):
        looks.append([task.task_id for task in watch.look(reader._chain.head())])
        executors.tasks.chain.mine()
    assert looks == [[2, 3], [1], [], []]
    assert asked == looks
    executors.tasks.appeal(2, executors.tasks.executors[0].operator)
    assert [task.task_id for task in watch.look(reader._chain.head())] == [2]
