# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks as the pages show them: where each stands, its lanes, who acts next.

The words are those of `ape run task`. Tasks are read from the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from agents.protocol.network import Network
from agents.storage.cid import cid_from_digest
from agents.tasks.contract import Task, Tasks
from scripts._shared.task_words import lane_rows, sentence
from scripts._web.index.reading import Reading
from scripts._web.index.tables import EVENTS

_MOST = 20  # of a page


@dataclass(frozen=True)
class Lane:
    """An executor of a task. `answer`: what it has put on chain, None for nothing."""

    node_id: int
    state: str
    answer: str | None


@dataclass(frozen=True)
class Shown:
    """A task. `result`: what two executors agreed on, None without one. `appealable`,
    `contestable`: whether the outcome may be appealed, the verdict on it contested."""

    task_id: int
    status: str
    sentence: str
    lanes: tuple[Lane, ...]
    fee: int
    creator: str
    spec_cid: str
    result: str | None
    appealable: bool
    contestable: bool
    created_at: int = 0


@dataclass(frozen=True)
class Part:
    """Some tasks. `further`: the id before which older ones are, None at the end."""

    items: list[Shown]
    further: int | None


def newest(network: Network, now: int, before: int | None) -> Part:
    """Return the newest tasks, those before an id. Raises AgentError: the chain is silent."""
    tasks = Tasks(network)
    last = min(tasks.count(), before - 1 if before is not None else 2**62)
    ids = list(range(last, max(0, last - _MOST), -1))
    if not ids:
        return Part([], None)
    found, expected = tasks.many(ids), tasks.expected_many(ids)
    items = [_shown(tasks, each, now, expected[each.task_id]) for each in found]
    return Part(items, ids[-1] if ids[-1] > 1 else None)


def one(network: Network, look: Reading, task_id: int) -> Shown | None:
    """Return a task, None if there is no such task."""
    tasks = Tasks(network)
    if task_id > tasks.count():
        return None
    created = sa.select(EVENTS.c.time).where(EVENTS.c.task_id == task_id)
    row = look.one(created.order_by(EVENTS.c.block, EVENTS.c.log_index).limit(1))
    task = tasks.task(task_id)
    shown = _shown(tasks, task, look.at.time, tasks.expected(task_id))
    return Shown(**{**vars(shown), "created_at": 0 if row is None else row["time"]})


def _shown(tasks: Tasks, task: Task, now: int, expected: Sequence[int]) -> Shown:
    appeal = tasks.appeal(task.task_id)
    rows = lane_rows(task)
    return Shown(
        task_id=task.task_id,
        status=task.status.name.lower(),
        sentence=sentence(task, appeal, now, expected),
        lanes=tuple(
            Lane(node, row[2], f"0x{answer.hex()}" if answer.strip(b"\0") else None)
            for node, answer, row in zip(task.nodes, task.answers, rows, strict=True)
            if node
        ),
        fee=task.fee,
        creator=task.creator,
        spec_cid=cid_from_digest(task.spec),
        result=None if task.result is None else f"0x{task.result.hex()}",
        appealable=task.appealable(now),
        contestable=appeal.standing and now <= appeal.deadline,
    )
