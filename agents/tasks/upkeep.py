# SPDX-License-Identifier: Apache-2.0
"""The permissionless duties of redundant tasks: any agent that is running moves them on.

Rule: every transition can be sent by anyone (`agents.runtime.duties`). A draw is left to those who
are drawn, whose first commitment captures it, for a few blocks; then it is captured, long before
the chain forgets the hash it comes from. While all executors are busy a task waits, and costs no
agent gas: a forgotten draw is requested again by who has a lane free, or by all where executors
have their lanes in the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agents.protocol.network import Network
from agents.protocol.numbers import MAX_OPEN, TaskStatus
from agents.runtime.chain import Head
from agents.runtime.contracts import Contract
from agents.runtime.duties import Due, Duties
from agents.runtime.sender import Sender
from agents.runtime.transaction import Order
from agents.tasks.contract import Task, Tasks

DRAW_BLOCKS = 16  # after the seed's block
_REMEMBERED = 256  # blocks whose hash the chain knows
_SEAT_BLOCKS = 4  # between two looks at seats
_SEATS_PER_LOOK = 16
_CREDIT_BLOCKS = 32
_COMPACT_BLOCKS = 256


class TaskUpkeep:
    """Moves tasks on when nobody else does.

    `patience_s`: seconds to leave to roles that should be first. `jitter_s`: spread after that.
    """

    def __init__(
        self,
        network: Network,
        tasks: Tasks,
        sender: Sender,
        patience_s: float,
        jitter_s: float,
    ) -> None:
        self._network = network
        self._tasks = tasks
        self._address = sender.address
        self._duties = Duties(sender, patience_s, jitter_s)
        self._others = Duties(sender, patience_s, jitter_s)  # of seats and bonds
        self._looked = -_SEAT_BLOCKS  # the last block at which seats were looked at
        self._place = 0
        self._idle: set[int] = set()  # seated nodes without the stake for it
        self._swept = [0, 0]  # seats looked at in this sweep of the pool, and empty ones
        self._sparse = False  # whether more seats were empty than held in the last one
        self._compacted = -_COMPACT_BLOCKS
        self._credit = False
        self._credit_looked = -_CREDIT_BLOCKS

    def step(
        self, seen: Sequence[Task], head: Head, class_id: int | None = None, node_id: int = 0
    ) -> str | None:
        """Send what is due; returns what was sent, None if nothing was.

        `seen`: of the tasks that need somebody, those that were read now. `class_id`: the pool
        whose seats to look after. `node_id`: the executor that sends, 0 if it is none.
        """
        drawing = [t for t in seen if t.status == TaskStatus.DRAWING]
        due = [*self._draws(drawing, head, class_id, node_id), *self._due(seen, head)]
        did = self._duties.step(due, looked={task.task_id for task in seen})
        return did or self._others.step([*self._seats(head, class_id), *self._own(head)])

    def _call(self, contract: Contract, function: str, *args: Any) -> Callable[[], Order]:
        return lambda: Order(contract, function, args)

    # -- what is due ---------------------------------------------------------------------------

    def _draws(
        self, drawing: Sequence[Task], head: Head, class_id: int | None, node_id: int
    ) -> Iterator[Due]:
        """Draws that would find enough executors, that are forgotten, or whose time is over."""
        drawing = [t for t in drawing if head.number > t.seed_block + DRAW_BLOCKS]
        lost = {t.task_id for t in drawing if head.number >= t.seed_block + _REMEMBERED}
        found = self._tasks.expected_many([t.task_id for t in drawing]) if drawing else {}
        free = lost and node_id and self._tasks.seat(node_id).open < MAX_OPEN
        for task in drawing:
            number = task.task_id
            again = number in lost and (task.nodes or (free and task.class_id == class_id))
            if found[number] or again or head.timestamp > task.draw_until:
                # A draw that is requested again is due again later.
                name = f"draw: task {number}, block {task.seed_block}"
                yield name, number, self._call(self._network.tasks, "draw", number)

    def _due(self, seen: Sequence[Task], head: Head) -> Iterator[Due]:
        tasks, appeals = self._network.tasks, self._network.appeals
        for task in seen:
            number, late = task.task_id, head.timestamp > task.time
            if task.status in (TaskStatus.RUNNING, TaskStatus.REVEALING) and late:
                name = f"advance: task {number}, {task.status.name}, {len(task.nodes)} lanes"
                yield name, number, self._call(tasks, "advance", number)
            elif task.status == TaskStatus.DECIDED and late:
                yield f"finalize: task {number}", number, self._call(tasks, "finalize", number)
            elif task.status == TaskStatus.APPEALED:
                appeal = self._tasks.appeal(number)
                if appeal.deadline and head.timestamp > appeal.deadline:
                    end = "finalize" if appeal.standing else "lapse"
                    name = f"{end}: appeal of task {number}, until {appeal.deadline}"
                    yield name, number, self._call(appeals, end, number)

    def _seats(self, head: Head, class_id: int | None) -> Iterator[Due]:
        """Seats whose holders lack the stake, of which a few are looked at every few blocks, by
        turns; and pools that many have left."""
        contract = self._network.tasks
        if class_id is not None and head.number >= self._looked + _SEAT_BLOCKS:
            self._looked = head.number
            size = self._network.chain.call(contract, "pool_size", class_id)
            places = {(self._place + i) % size for i in range(_SEATS_PER_LOOK)} if size else set()
            self._place += _SEATS_PER_LOOK
            calls = [(contract, "seat", (class_id, place)) for place in sorted(places)]
            seats = [tuple(seat) for seat in self._network.chain.call_many(calls)]
            nodes = sorted(self._idle | {seat[0] for seat in seats if not seat[3]})
            staying = self._tasks.stay(nodes, head.timestamp)
            idle = [node for node, good in zip(nodes, staying, strict=True) if not good]
            seated = {node for node in idle if self._tasks.seat(node).seated}
            self._idle = seated
            self._swept[0] += len(seats)
            self._swept[1] += sum(bool(seat[3]) for seat in seats)
            if self._swept[0] >= size:
                self._sparse = 2 * self._swept[1] > self._swept[0]
                self._swept = [0, 0]
        due = head.number >= self._compacted + _COMPACT_BLOCKS
        if class_id is not None and self._sparse and due:
            # It may take two: a holder's old seat is dropped when no draw can mean it any more.
            yield f"compact: class {class_id}", class_id, partial(self._compact, class_id, head)
        for node in sorted(self._idle):
            yield f"evict: node {node}", node, self._call(contract, "evict", node)

    def _compact(self, class_id: int, head: Head) -> Order:
        self._compacted = head.number
        return Order(self._network.tasks, "compact", (class_id,))

    def _own(self, head: Head) -> Iterator[Due]:
        """The bond of an appeal that is over goes back into the wallet, for the next one."""
        contract, address = self._network.appeals, self._address
        if self._credit or head.number >= self._credit_looked + _CREDIT_BLOCKS:
            self._credit_looked = head.number
            self._credit = bool(self._network.chain.call(contract, "bond_credit", address))
        if self._credit:
            yield "withdrawn: bond", 0, self._call(contract, "withdraw_bond")
