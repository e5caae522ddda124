# SPDX-License-Identifier: Apache-2.0
"""What crashes, updates and reorgs do to an executor that has committed."""

from __future__ import annotations

import pytest

import agents.executor as executor_module
import agents.runtime.commitments as commitments_module
from agents.protocol.numbers import LaneState, TaskStatus
from agents.runtime.errors import Stopped
from tests.stage.chain.executors import Executors

AGREED, REVEALING = TaskStatus.AGREED, TaskStatus.REVEALING
POINTS = (
    "executor-before-journal",
    "executor-before-commit",
    "executor-after-commit",
    "executor-before-reveal",
    "executor-after-reveal",
)


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_an_executor_killed_at_any_point_reveals_after_its_restart(
    executors: Executors, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Restarted, it goes on with the secret that it had, and nobody is slashed."""
    task_id, first, second = executors.at_work()
    died: list[str] = []

    def dies(name: str) -> None:
        if name == point and not died:
            died.append(name)
            raise Stopped("the agent ends here")

    monkeypatch.setattr(executor_module, "crashpoint", dies)
    monkeypatch.setattr(commitments_module, "crashpoint", dies)
    with pytest.raises(Stopped):
        executors.drive(lambda: False, "it dies")
    journals = {}
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        journals[node.name] = {name: journal.get(name) for name in journal.keys("task-")}
    executors.start(first, second)
    executors.until(task_id, AGREED)
    assert died == [point]
    assert executors.task(task_id).result == executors.right(task_id)
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        for name, value in journals[node.name].items():
            assert journal.get(name) == value, "a secret is written once"
        assert len(journal.keys("task-")) == 1
    executors.published(task_id)


def test_killed_under_its_former_name_it_reveals_under_the_new_one(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that committed as `redundant` before its update is not slashed for the renaming."""
    task_id, first, second = executors.requested()
    for node in (first, second):
        executors.start_one(node, role="redundant")

    def dies(name: str) -> None:
        if name == "executor-before-reveal":
            raise Stopped("the agent ends here")

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(executor_module, "crashpoint", dies)
        executors.drive(lambda: False, "it dies")
    journals = [executors.agents[node.name].context.journal.path for node in (first, second)]
    assert all(path.name.startswith("redundant-") and path.exists() for path in journals)
    executors.start(first, second)
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == executors.right(task_id)
    assert not any(path.exists() for path in journals)
    for node in (first, second):
        journal = executors.agents[node.name].context.journal
        assert journal.path.name.startswith("executor-")
        assert executors.said(node, "journal_renamed") == 1


def test_a_lost_journal_is_said_once(executors: Executors) -> None:
    task_id, first, _ = executors.at_work()
    executors.until(task_id, REVEALING)
    journal = executors.agents[first.name].context.journal
    for name in journal.keys("task-"):
        journal.delete(name)
    executors.start_one(first)
    executors.pass_blocks(5, first.name)
    assert executors.said(first, "secret_lost") == 1
    assert executors.state(task_id, first) == LaneState.COMMITTED


# -- reorgs ----------------------------------------------------------------------------------------


def test_a_reorg_into_another_lane_keeps_the_secret(executors: Executors) -> None:
    """The draw's seed changes with the block; the commitment does not depend on the lane."""
    task_id = executors.create(executors.inputs.evaluate())
    fork = executors.tasks.chain.snapshot()
    executors.tasks.chain.mine(2)
    before = executors.drawn(task_id)
    executors.start(*executors.tasks.executors)
    executors.until(task_id, REVEALING)
    known = {n.name: executors.agents[n.name].context.journal.keys("task-") for n in before}
    for attempt in range(60):
        executors.tasks.chain.revert(fork)
        fork = executors.tasks.chain.snapshot()
        executors.tasks.chain.warp(attempt + 1)
        executors.tasks.chain.mine(2)
        after = executors.drawn(task_id)
        if after != before and set(after) & set(before):
            break
    executors.until(task_id, AGREED)
    assert executors.task(task_id).nodes == tuple(node.node_id for node in after)
    for node in set(after) & set(before):
        assert executors.agents[node.name].context.journal.keys("task-") == known[node.name]


def test_a_reorg_that_puts_another_task_under_the_number(executors: Executors) -> None:
    """Both secrets are kept; the commitment on chain says which to open."""
    fork = executors.tasks.chain.snapshot()
    executors.start(*executors.tasks.executors)
    task_id = executors.create(executors.inputs.evaluate())
    executors.until(task_id, REVEALING)
    executors.tasks.chain.revert(fork)
    executors.tasks.chain.warp(7)
    assert executors.create(executors.inputs.generate()) == task_id
    executors.until(task_id, AGREED)
    assert executors.task(task_id).result == executors.right(task_id)
