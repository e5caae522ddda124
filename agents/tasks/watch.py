# SPDX-License-Identifier: Apache-2.0
"""Which tasks need somebody now; a look does not cost more when more tasks were ever made.

Rule: a task is read at every look from its creation until two agree, nobody does, or it is closed;
then once more it is returned, settled, and not read again unless it is appealed. Where too many
need somebody they are read by turns, which anybody can make long with tasks that nobody can be
drawn for. So what is new, what is appealed and what the node was drawn for is read without a turn.
What is older than this process is read once, from the newest down, a bounded number at each look. A
reorg brings back everything that left within the blocks that it can reach.
"""

from __future__ import annotations

from collections.abc import Set

from agents.protocol.numbers import TaskStatus
from agents.runtime.chain import ChainClient, Head
from agents.tasks.contract import Task, Tasks

PER_LOOK = 256
_REORG_BLOCKS = 128
_LOOK_BACK = 2_000  # blocks before this process in which the node may have been drawn
_NEEDY = (
    TaskStatus.DRAWING,
    TaskStatus.RUNNING,
    TaskStatus.REVEALING,
    TaskStatus.DECIDED,
    TaskStatus.APPEALED,
)


class TaskWatch:
    """Follows all tasks for one agent."""

    def __init__(self, tasks: Tasks, chain: ChainClient) -> None:
        self._tasks = tasks
        self._chain = chain
        self._active: set[int] = set()
        self._called: set[int] = set()  # the active ones that the node was drawn for, or appealed
        self._left: dict[int, int] = {}  # task -> block at which it was seen to need nobody
        self._known = 0  # highest id that was ever active
        self._unread = 0  # ids from here down are still to be read once
        self._seen: Head | None = None
        self._turn = 0

    def follow(self, task_ids: set[int]) -> None:
        """Read these at the next look, whatever they were."""
        self._active |= task_ids

    def look(self, head: Head, first: Set[int] = frozenset(), node: int = 0) -> list[Task]:
        """The tasks that need somebody, and those that have just stopped to, by ascending id.

        Args:
            first: which of them to read at every look, however many there are.
            node: whose draws to look for; 0: nobody's.
        """
        new = self._catch_up(head, self._tasks.count(), node)
        scanned = set(range(max(1, self._unread - PER_LOOK + 1), self._unread + 1))
        due = self._active & (first | self._called | new)
        tasks = self._tasks.many(sorted(self._turns() | due | scanned))
        self._unread -= len(scanned)
        for task in tasks:
            if task.status in _NEEDY:
                self._active.add(task.task_id)
                self._left.pop(task.task_id, None)
            else:
                self._active.discard(task.task_id)
                self._called.discard(task.task_id)
                self._left.setdefault(task.task_id, head.number)
        reach = head.number - _REORG_BLOCKS
        self._left = {n: block for n, block in self._left.items() if block >= reach}
        return tasks

    def _catch_up(self, head: Head, count: int, node: int) -> set[int]:
        """Add what is new since the last look; the newest of what was created since then."""
        seen, self._seen = self._seen, head
        if seen is None:
            self._known = self._unread = count
            self._call(self._drawn(node, max(0, head.number - _LOOK_BACK + 1), head.number))
            return set()
        first = seen.number + 1
        if head.hash != seen.hash and self._chain.block_hash(seen.number) != seen.hash:
            first = max(0, min(seen.number, head.number) - _REORG_BLOCKS)
            self._active |= self._left.keys()
            self._left.clear()
            self._known = min(self._known, count)
        new = range(self._known + 1, count + 1)
        self._active |= set(new)
        self._known = max(self._known, count)
        if first <= head.number:
            self._call(self._tasks.appealed(first, head.number))
            self._call(self._drawn(node, first, head.number))
        return set(new[-PER_LOOK:])

    def _drawn(self, node: int, first: int, last: int) -> set[int]:
        return self._tasks.drawn(node, first, last) if node else set()

    def _call(self, task_ids: set[int]) -> None:
        self._active |= task_ids
        self._called |= task_ids

    def _turns(self) -> set[int]:
        """All active tasks, or where there are too many as many as one look takes, by turns."""
        ordered = sorted(self._active)
        if len(ordered) <= PER_LOOK:
            return set(ordered)
        start = self._turn % len(ordered)
        self._turn += PER_LOOK
        return set((ordered + ordered)[start : start + PER_LOOK])
