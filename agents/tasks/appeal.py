# SPDX-License-Identifier: Apache-2.0
"""Files an appeal against a task's outcome, or an objection to verifiers' verdict on it, with a
bond from the operator's wallet.

An agent appeals or objects only if it has run the task itself, found the outcome or the verdict
wrong, and it can still be overturned. Otherwise it would lose the bond.

Rule: that a task's inputs can be had now proves nothing about then. A verdict on an undecided task
slashes whoever revealed another result, also who said that the inputs could not be had. Where it
would slash nobody else, nobody honest asks for it or gives it: whoever withheld the inputs until
then would be paid for that.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.network import Network
from agents.protocol.numbers import TaskStatus
from agents.runtime.context import Context
from agents.runtime.errors import Reverted
from agents.runtime.faults import crashpoint
from agents.tasks.contract import Task, Tasks


def is_wrong(tasks: Tasks, task: Task, result: bytes) -> bool:
    """Whether to have the outcome overturned by a verdict for `result`: two agreed on another, or
    nobody agreed and somebody revealed another, and did not say that the inputs can't be had."""
    if task.status in (TaskStatus.AGREED, TaskStatus.DECIDED):
        return task.result != result
    said = {tasks.tag(task.task_id, result), tasks.tag(task.task_id, UNAVAILABLE)}
    return task.status == TaskStatus.UNDECIDED and any(t not in said for t in task.revealed())


def slashes_denials_only(tasks: Tasks, task: Task, status: TaskStatus, result: bytes) -> bool:
    """Whether a verdict for `result` would slash those who said that the inputs can't be had, and
    nobody else. `status`: the task's before its appeal."""
    right, denied = (tasks.tag(task.task_id, what) for what in (result, UNAVAILABLE))
    revealed = task.revealed()
    undecided = status == TaskStatus.UNDECIDED
    return undecided and denied in revealed and all(t in (right, denied) for t in revealed)


class TaskAppeals:
    """One operator's appeals."""

    def __init__(self, network: Network, tasks: Tasks, context: Context) -> None:
        self._network = network
        self._tasks = tasks
        self._context = context
        self._said: set[tuple[int, str]] = set()

    def file(self, task: Task, why: str) -> str | None:
        """Appeal; returns what was done, None if it cannot be (said once)."""
        done = self._bonded(
            task,
            "appeal",
            lambda: self._tasks.task(task.task_id).status == TaskStatus.APPEALED,
        )
        return f"appealed: task {task.task_id}: {why}" if done else None

    def contest(self, task: Task, why: str) -> str | None:
        """Object to the verdict on an appealed task; returns as `file` does."""
        done = self._bonded(task, "contest", lambda: not self._tasks.appeal(task.task_id).standing)
        return f"contested: the verdict on task {task.task_id}: {why}" if done else None

    def _bonded(self, task: Task, function: str, done: Callable[[], bool]) -> bool:
        """Send what needs the bond; whether it was done."""
        bond = self._tasks.terms().appeal_bond
        chain, sender = self._context.chain, self._context.sender
        token, appeals = self._network.token, self._network.appeals
        address = self._context.wallet.address
        if chain.call(token, "balanceOf", address) < bond:
            self._say(task, function, f"{address} lacks the bond of {bond / 10**18:g} ZOO")
            return False
        try:
            if chain.call(token, "allowance", address, appeals.address) < bond:
                sender.send(token, "approve", appeals.address, bond)
            crashpoint("appellant-before-appeal")
            sender.ensure(done, appeals, function, task.task_id)
        except Reverted as error:
            self._say(task, function, error.reason)
            return False
        return True

    def _say(self, task: Task, function: str, why: str) -> None:
        if (task.task_id, function) not in self._said:
            self._said.add((task.task_id, function))
            self._context.log.error(f"cannot_{function}", task=task.task_id, why=why)
