# SPDX-License-Identifier: Apache-2.0
"""Tasks that bring no result: inputs that are missing or come late, processes that fail or never
end. Honest executors lose nothing, and the creator pays the rent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agents.executor import Executor
from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState, TaskStatus
from agents.runtime.sender import Sender
from agents.storage.cid import cid_of_bytes, digest_of
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.compute.result import TaskResult
from agents.tasks.process import TaskProcessError
from tests.stage.chain.executors import Executors
from tests.stage.chain.people import Node

AGREED, CLOSED, DECIDED = TaskStatus.AGREED, TaskStatus.CLOSED, TaskStatus.DECIDED


def test_an_input_that_is_not_there_is_waited_for(executors: Executors) -> None:
    spec = executors.fresh()
    task_id = executors.create(digest_of(cid_of_bytes(spec.canonical())))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.start(*pair)
    executors.drive(
        lambda: all(executors.said(n, "cannot_run_yet") for n in pair), "both look for it"
    )
    assert executors.status(task_id) in (TaskStatus.DRAWING, TaskStatus.RUNNING)
    publish(spec, executors.store)
    # They look again after seconds, in which blocks without work would pass the task's time.
    executors.drive(
        lambda: all(executors.state(task_id, n) >= LaneState.COMMITTED for n in pair),
        "both have found it",
        blocks=False,
    )
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == executors.right(task_id)


def test_an_input_that_nobody_has_costs_its_creator_the_rent(executors: Executors) -> None:
    """Both give up when an eighth of the time is left, and say the same."""
    task_id = executors.create(digest_of(cid_of_bytes(b"nowhere")))
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    executors.drive(
        lambda: all(executors.said(n, "cannot_run_yet") for n in pair), "both look for it"
    )
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s // 4)
    assert executors.pass_blocks(5, *(node.name for node in pair)) == []
    executors.tasks.people.wait_until(task.time - task.run_s // 8)
    executors.until(task_id, CLOSED)
    assert executors.task(task_id).result == UNAVAILABLE
    rent = task.run_s * executors.tasks.people.settings.tasks.fee_per_s
    assert [executors.gain(p) for p in (*pair, executors.tasks.creator)] == [0, 0, -rent]
    assert executors.pass_blocks(5, *(node.name for node in pair)) == [], (
        "there is nothing to publish"
    )


def test_inputs_that_come_just_before_executors_give_up__slash_nobody(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks for them a little before that and finds them, the other a little after it. That one
    was outvoted with a third one's help, and lost 20 ZOO; the creator paid 0.03 at least."""
    spec = executors.fresh()
    task_id = executors.create(digest_of(cid_of_bytes(spec.canonical())), run_s=3_600)
    executors.tasks.chain.mine(2)
    early, late = pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    tries: list[bytes] = []
    run = executors.process.run

    def counted(spec: bytes, *rest: Any) -> TaskResult:
        tries.append(spec)
        return run(spec, *rest)

    monkeypatch.setattr(executors.process, "run", counted)
    executors.drive(lambda: len(tries) >= 4, "both look for them")
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s * 9 // 32)
    before = len(tries)
    executors.drive(
        lambda: len(tries) >= before + 4 and all(_rests(executors, node) for node in pair),
        "and again, after half of the time",
    )
    publish(spec, executors.store)
    before = len(tries)
    while len(tries) == before or not _rests(executors, early):
        executors.step(early.name)
        time.sleep(0.02)
    executors.pass_blocks(3, early.name)
    executors.start(*executors.others(*pair))
    for eighths in (2, 1):
        executors.tasks.people.wait_until(task.time - task.run_s * eighths // 8)
        executors.pass_blocks(10, late.name, early.name)
    executors.until(task_id, AGREED, DECIDED, CLOSED)
    if executors.status(task_id) == DECIDED:
        executors.pass_deadline(task_id)
        executors.until(task_id, CLOSED)
    assert min(executors.gain(node) for node in executors.tasks.executors) >= 0
    _costs_its_creator_the_rent(executors, task_id, list(pair))


def _rests(executors: Executors, node: Node) -> bool:
    """Whether a node runs nothing, and has seen the end of what it ran."""
    agent = executors.agents[node.name]
    assert isinstance(agent, Executor)
    return not agent.runner.running


def _costs_its_creator_the_rent(executors: Executors, task_id: int, pair: list[Node]) -> None:
    """Both have said that there is no result. Nobody is slashed, and nobody else is drawn."""
    executors.until(task_id, CLOSED)
    task = executors.task(task_id)
    assert task.result == UNAVAILABLE and task.nodes == tuple(node.node_id for node in pair)
    rent = task.run_s * executors.tasks.people.settings.tasks.fee_per_s
    assert [executors.gain(p) for p in (*pair, executors.tasks.creator)] == [0, 0, -rent]


def test_a_task_that_ends_every_process_costs_its_creator_the_rent(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's input that torch can't stand. Five executors would be silent, one after the
    other, and lose 20 ZOO each; the creator would have its whole fee back."""
    task_id, *pair = executors.requested()
    executors.tasks.draw(task_id)

    def dies(*_: object) -> None:
        raise TaskProcessError("the task process ended with -11")

    monkeypatch.setattr(executors.process, "run", dies)
    executors.start(*executors.tasks.executors)
    executors.drive(
        lambda: all(executors.said(node, "cannot_run_yet") for node in pair), "both have tried it"
    )
    task = executors.task(task_id)
    assert executors.pass_blocks(5, *(node.name for node in pair)) == [], "they try again"
    executors.tasks.people.wait_until(task.time - task.run_s // 8)
    _costs_its_creator_the_rent(executors, task_id, pair)


def test_a_task_that_never_ends_costs_its_creator_the_rent(executors: Executors) -> None:
    """Whoever has had a quarter of the time for it, which it was counted to take at most, says so
    when an eighth is left; not before, since a slow machine may still be in time."""
    spec = executors.fresh()
    task_id = executors.create(spec, run_s=3_600)
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    names = [node.name for node in pair]
    with executors.held_process():
        assert executors.pass_blocks(5, *names) == []
        task = executors.task(task_id)
        executors.tasks.people.wait_until(task.time - task.run_s // 6)
        assert executors.pass_blocks(5, *names) == []
        executors.tasks.people.wait_until(task.time - task.run_s // 8)
        _costs_its_creator_the_rent(executors, task_id, pair)


def test_a_task_of_a_class_that_two_machines_hold_no_more__costs_its_creator_the_rent(
    executors: Executors,
) -> None:
    """An update of a driver, or a GPU that hangs: one of the two finds another class when it starts
    again, the other none at all. Both were silent, and lost 20 ZOO each."""
    task_id = executors.create(executors.fresh(), run_s=3_600)
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    executors.start(*pair)
    other, none = (executors.agents[node.name] for node in pair)
    assert isinstance(other, Executor) and isinstance(none, Executor)
    other.runner.label = "cuda:sm_90/132/13.0"
    none.runner._idle.clear()
    none.runner._jobs.want = lambda *_: None  # type: ignore[method-assign]
    task = executors.task(task_id)
    did = executors.pass_blocks(5, *(node.name for node in pair))
    executors.tasks.people.wait_until(task.time - task.run_s // 6)
    did += executors.pass_blocks(5, *(node.name for node in pair))
    assert [what.partition(":")[0] for what in did] == ["left"], "and nothing is said so early"
    executors.tasks.people.wait_until(task.time - task.run_s // 8)
    _costs_its_creator_the_rent(executors, task_id, list(pair))


def test_where_blocks_are_slow__a_task_that_never_ends_costs_its_creator_the_rent(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An eighth of a minute is less than a block of 12 seconds. Whoever waited for it answered in
    the block after the deadline, and lost 20 ZOO."""
    executors.tasks.chain.rpc("anvil_setBlockTimestampInterval", 12)
    monkeypatch.setattr(Sender, "block_s", 12.0)  # as measured, by a clock that waits for no test
    try:
        task_id = executors.create(executors.fresh(), run_s=60)
        executors.tasks.chain.mine(2)
        pair = executors.drawn(task_id)
        for node in pair:
            executors.start_one(node).runner.label = CPU
        with executors.held_process():
            executors.tasks.draw(task_id)
            executors.drive(
                lambda: executors.status(task_id) != TaskStatus.RUNNING, "both answer, or don't"
            )
            assert [executors.gain(node) for node in pair] == [0, 0]
            _costs_its_creator_the_rent(executors, task_id, pair)
    finally:
        executors.tasks.chain.rpc("anvil_removeBlockTimestampInterval")


def test_who_has_just_come_to_a_task_still_runs_it(executors: Executors) -> None:
    """A node that was away until the last eighth of the time is in time all the same."""
    task_id = executors.create(executors.fresh(), run_s=3_600)
    executors.tasks.chain.mine(2)
    pair = executors.drawn(task_id)
    executors.tasks.draw(task_id)
    task = executors.task(task_id)
    executors.tasks.people.wait_until(task.time - task.run_s // 10)
    executors.start(*pair)
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == executors.right(task_id)
