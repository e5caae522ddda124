# SPDX-License-Identifier: Apache-2.0
"""A node's seat in the pool of executors.

A node with a seat may be drawn, and then silence costs stake. So it takes a seat only in the pool
of the class that its machine computes in. The operator key takes and gives up the seat. An agent
that is stopped keeps its seat. Leave the pool before you stop an agent for longer (`ape run task
leave`). One that finds no class for some minutes leaves by itself, and comes back with a class: its
device may be gone, and it could only be silent.

A draw passes over a node whose pay at risk is more than half of its stake. The agent's log says so.
"""

from __future__ import annotations

import time

from agents.protocol.network import Network
from agents.protocol.numbers import COVER, ZOO
from agents.runtime.chain import Head
from agents.runtime.context import Context
from agents.tasks.contract import Tasks

_COOLDOWN = 260  # blocks that a node that left waits
_CLASSLESS_S = 300.0  # that a class is waited for before the seat is given up


class TaskSeat:
    """Keeps one node seated where `executor.join` says so."""

    def __init__(self, network: Network, tasks: Tasks, context: Context) -> None:
        self._network = network
        self._tasks = tasks
        self._context = context
        self._looked = 0
        self._said = ""
        self._classless: float | None = None  # since when no class is known

    def step(self, head: Head, node_id: int, label: str | None) -> str | None:
        """Take or leave a seat if that is needed; `label`: the class of this machine, None as long
        as it is not found."""
        if label is None:
            return self._without_class(head, node_id)
        self._classless = None
        if not self._context.settings.executor.join:
            return None
        if head.number == self._looked:
            return None
        self._looked = head.number
        class_id, seat = self._tasks.class_id(label), self._tasks.seat(node_id)
        if seat.seated and seat.class_id == class_id:
            self._say_if_passed_over(node_id, seat.at_risk, head.timestamp)
            return None
        if seat.seated:
            found = self._tasks.label(seat.class_id)
            self._context.sender.send(self._network.tasks, "leave", node_id)
            return f"left: the pool of {found}; this machine computes in {label}"
        if class_id is None:
            remedy = f"the committee opens one with `ape run committee propose pool {label}`"
            self._say("cannot_join", f"there is no pool for the class {label}; {remedy}")
            return None
        if seat.left and head.number <= seat.left + _COOLDOWN:
            return None
        if not self._tasks.stay([node_id], head.timestamp)[0]:
            stake = self._tasks.terms().task_stake / ZOO
            what = f"{stake:g} ZOO at risk, no suspension and no exit begun"
            self._say("cannot_join", f"node {node_id} needs {what}")
            return None
        self._context.sender.ensure(
            lambda: self._tasks.seat(node_id).seated,
            self._network.tasks,
            "join",
            node_id,
            class_id,
        )
        return f"joined: the pool of {label}"

    def _without_class(self, head: Head, node_id: int) -> str | None:
        """Leave the pool once a class was waited for long enough. A seat that was taken by hand is
        left by hand."""
        if self._classless is None:
            self._classless = time.monotonic()
        waited = time.monotonic() - self._classless >= _CLASSLESS_S
        if not waited or head.number == self._looked:
            return None
        self._looked = head.number
        seat = self._tasks.seat(node_id)
        if not seat.seated:
            return None
        minutes = f"{_CLASSLESS_S / 60:g} minutes"
        if self._said != "no_class":
            self._said = "no_class"
            why = f"no determinism class was found on this machine in {minutes}; see its device"
            self._context.log.error("no_class", why=f"{why}, and `cannot_run_yet` in this log")
        if not self._context.settings.executor.join:
            return None
        self._context.sender.send(self._network.tasks, "leave", node_id)
        found = self._tasks.label(seat.class_id)
        return f"left: the pool of {found}; this machine found no class in {minutes}"

    def _say_if_passed_over(self, node_id: int, at_risk: int, now: int) -> None:
        stake = self._tasks.stakes([node_id], now)[0] if at_risk else 0
        if COVER * at_risk <= stake:
            self._said = ""
            return
        windows_h = 2 * self._tasks.terms().appeal_s / 3_600
        self._say(
            "passed_over",
            f"pay of node {node_id} that may still be appealed is more than 1/{COVER} of its stake "
            f"of {stake / ZOO:g} ZOO; draws take it again within {windows_h:g} hours, or once "
            "its owner has added stake (`ape run node add-stake`)",
        )

    def _say(self, event: str, why: str) -> None:
        if why != self._said:
            self._said = why
            self._context.log.warning(event, why=why)
