# SPDX-License-Identifier: Apache-2.0
"""When an executor answers that a task can't be run, so that all honest ones say the same.

Whoever serves a task's inputs can begin at any moment. Were there one moment at which who has no
result gives up, inputs that come just before it would come in time for one executor and too late
for another, and a third would outvote one of them. So there are two.

Rule: inputs that come in the first half of a task's time came in time. What they gave is committed
to at once. Who looked for them in vain after that, and found them later, has found them late: it
answers with what they gave where another executor has committed before the last part of the time,
who must have had them, and else that they can't be had. Nobody commits to that before the last
part. So the inputs of whoever had them in time are there for the others during the time between.
"""

from __future__ import annotations

from collections.abc import Set

from agents.protocol.numbers import LaneState, TaskStatus
from agents.runtime.pace import stretched
from agents.tasks.contract import Task

_IN_TIME_SHARE = 2  # of the time, in which inputs come in time
_LAST_SHARE = 7  # of the time, left when who has no result says so
_LAST_BLOCKS = 2.0  # and no less than these: what is sent in one of them is in the next
_TRIED_SHARE = 4  # of the time, which a run is counted to take at most


class GivingUp:
    """One node's jobs, by name. Times are the chain's, in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # when a job was first asked for
        self._failed: dict[str, int] = {}  # tries that brought nothing
        self._late: set[str] = set()  # a try brought nothing after the first half of the time

    def note(self, name: str, task: Task, failed: int, now: int) -> None:
        """What a look sees of a job that has brought nothing so far.

        `failed`: how many tries brought nothing.
        """
        self._since.setdefault(name, now)
        more = failed > self._failed.get(name, 0)
        self._failed[name] = failed
        second_half = task.time - now <= task.run_s // _IN_TIME_SHARE
        if more and second_half and task.status == TaskStatus.RUNNING:
            self._late.add(name)

    def keep(self, names: Set[str]) -> None:
        """Forget all other jobs."""
        self._since = {n: since for n, since in self._since.items() if n in names}
        self._failed = {n: failed for n, failed in self._failed.items() if n in names}
        self._late &= names

    def found_late(self, name: str) -> bool:
        """Whether what a job brings now has come too late to count by itself."""
        return name in self._late

    def in_vain(self, name: str, task: Task, now: int, block_s: float) -> bool:
        """Whether to answer that the task can't be run. `block_s`: seconds from block to block.

        It could not when last tried, or does not end; whoever has only just come to it may still be
        in time.
        """
        if not self.is_last(task, now, block_s):
            return False
        if name in self._late or self._failed.get(name, 0):
            return True
        return now - self._since.get(name, now) >= task.run_s // _TRIED_SHARE

    def is_last(self, task: Task, now: int, block_s: float) -> bool:
        """Whether the last part of a running task's time has begun."""
        last = max(task.run_s // _LAST_SHARE, stretched(_LAST_BLOCKS, block_s))
        return task.status == TaskStatus.RUNNING and task.time - now <= last


def had_by_another(task: Task, node_id: int, unavailable: bytes) -> bool:
    """Whether another executor has shown, before the last part of the time, that it had the inputs.

    `unavailable`: the tag that says that they can't be had.
    """
    lanes = zip(task.nodes, task.states, task.answers, strict=True)
    return any(
        state == LaneState.COMMITTED or (state == LaneState.REVEALED and answer != unavailable)
        for node, state, answer in lanes
        if node != node_id
    )
