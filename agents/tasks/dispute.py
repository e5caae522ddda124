# SPDX-License-Identifier: Apache-2.0
"""What a committee member does for redundant tasks: it runs those on which a verdict is contested.

Rule: a member names only a result that its own machine has computed. One whose machine computes in
another class than the task's leaves the case to the others.
"""

from __future__ import annotations

from agents.protocol.ended import Ended
from agents.protocol.network import Network
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.runtime.event_cursor import EventCursor, EventLog
from agents.tasks.contract import Task, Tasks
from agents.tasks.runner import TaskRunner


class TaskDisputes:
    """The contested verdicts, and the results that this member found. The process that runs tasks
    is started by the first case."""

    def __init__(self, network: Network, context: Context, device: str) -> None:
        self.tasks = Tasks(network)
        self.runner = TaskRunner(context, device)
        self._context = context
        first, names = network.deployment.block, ("VerdictContested",)
        self._contested = EventLog(EventCursor(network.chain, network.appeals, names, first))
        self._ended: Ended[int] = Ended()
        self._open: dict[int, Task] = {}
        self._results: dict[str, bytes] = {}
        self._said: set[int] = set()

    def step(self, head: Head) -> list[tuple[int, int]]:
        """The contested tasks with their deadlines; has those run that were not yet."""
        cases: list[tuple[int, int]] = []
        self._open = {}
        found = sorted({event.args["task_id"] for event in self._contested.read()})
        for number in self._ended.left(found, head.number):
            appeal = self.tasks.appeal(number)
            if not appeal.contested or head.timestamp > appeal.deadline:
                self._ended.add(number, head.number)
                continue
            self._ended.discard(number)
            self._open[number] = self.tasks.task(number)
            cases.append((number, appeal.deadline))
        while (ended := self.runner.take()) is not None:
            self._results[ended[0]] = ended[1].digest
        runs = {
            self._name(task): task
            for task in self._open.values()
            if self._name(task) not in self._results and self._can(task)
        }
        if runs or self.runner.running:
            self.runner.want(runs)
        return cases

    def result(self, task_id: int) -> bytes | None:
        """What running a contested task gave here, None while there is no result."""
        task = self._open.get(task_id)
        return None if task is None else self._results.get(self._name(task))

    def _can(self, task: Task) -> bool:
        label = self.runner.label
        if label is None or self.tasks.class_id(label) == task.class_id:
            return True
        if task.task_id not in self._said:
            self._said.add(task.task_id)
            why = f"it is in class {self.tasks.label(task.class_id)}, not in {label}"
            self._context.log.warning("cannot_judge", task=task.task_id, why=why)
        return False

    def _name(self, task: Task) -> str:
        return f"dispute-{task.task_id}-{self.tasks.inputs(task).hex()[:16]}"
