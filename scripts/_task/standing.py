# SPDX-License-Identifier: Apache-2.0
"""Where a task stands: its lanes, who acts next, and what anybody may send for it."""

from __future__ import annotations

from typing import Any

import click

from agents.protocol.numbers import TaskStatus
from scripts._shared.operator import Contracts, zoo

_EVENT_BLOCKS = 2_000  # looked through at a time


def tasks_of(network: Any, task_id: int) -> Any:
    """The typed reader; a sentence if there is no such task."""
    from agents.tasks.contract import Tasks

    tasks = Tasks(network)
    if not 1 <= task_id <= tasks.count():
        raise click.ClickException(f"There is no task {task_id}; there are {tasks.count()}.")
    return tasks


def view(network: Any, task_id: int) -> Any:
    """What `status` prints."""
    from rich.console import Group
    from rich.table import Table

    from agents.storage.cid import cid_from_digest
    from scripts._shared.task_words import lane_rows, sentence

    tasks = tasks_of(network, task_id)
    task, appeal = tasks.task(task_id), tasks.appeal(task_id)
    title = f"Task {task_id}: {task.status.name}"
    table = Table("lane", "node", "state", "on chain", title=title)
    for row in lane_rows(task):
        table.add_row(*row)
    facts = (
        f"creator {task.creator}, fee {zoo(task.fee)}, {task.run_s} s to compute, class "
        f"{tasks.label(task.class_id)}, spec {cid_from_digest(task.spec)}"
    )
    expected, decided = tasks.expected(task_id), decision(network, task, appeal)
    text = sentence(task, appeal, network.chain.chain_time(), expected, decided=decided)
    return Group(table, facts, text)


def decision(network: Any, task: Any, appeal: Any) -> bool | None:
    """Whether the committee decided on the objection to a verdict; None where there was none, or
    it is open. Only the events tell: a verdict that is upheld looks like one that lapsed."""
    if task.status != TaskStatus.CLOSED or int(appeal.objector, 16) == 0:
        return None
    chain, contract = network.chain, network.appeals
    last, first = chain.head().number, network.deployment.block
    while last >= first:
        begin = max(first, last - _EVENT_BLOCKS + 1)
        for name in ("ObjectionResolved", "AppealLapsed"):
            if chain.events(contract, name, begin, last, {"task_id": task.task_id}):
                return name == "ObjectionResolved"
        last = begin - 1
    return None


def due(contracts: Contracts, task: Any, appeal: Any) -> tuple[Any, str] | None:
    """What moves a task on from its status, and in words; None where nothing does. Whether it is
    time for it the contract says."""
    tasks, appeals = contracts.RedundantTasks, contracts.TaskAppeals
    if task.status == TaskStatus.DRAWING:
        return tasks.draw, "capture the draw of"
    if task.status in (TaskStatus.RUNNING, TaskStatus.REVEALING):
        return tasks.advance, "slash who is late in, and go on with,"
    if task.status == TaskStatus.DECIDED:
        return tasks.finalize, "pay and slash, as decided, in"
    if task.status != TaskStatus.APPEALED:
        return None
    if appeal.standing:
        return appeals.finalize, "carry out the verdict on"
    return appeals.lapse, "end, without a decision, the appeal of"
