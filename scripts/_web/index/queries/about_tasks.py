# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks: where each stands, and what its executors have done."""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa

from agents.protocol import numbers
from agents.tasks.contract import open_to_appeal
from scripts._web.index.models import Lane, Page, Task, TaskPage
from scripts._web.index.queries.base import Row, cid_of, digest_of, within
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import FACTS, LANES, TASKS


def tasks(
    look: Reading, before: int | None = None, creator: str | None = None, limit: int = 100
) -> Page[Task]:
    """Tasks, newest first, those with ids below `before`; of one creator."""
    query = within(TASKS, creator=creator).order_by(TASKS.c.task_id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(TASKS.c.task_id < before)
    rows = look.all(query)
    following = str(rows[limit - 1]["task_id"]) if len(rows) > limit else None
    return Page[Task](at=look.at, items=_tasks(look, rows[:limit]), next=following)


def task(look: Reading, task_id: int) -> TaskPage:
    """A task. Raises NotFound."""
    row = look.one(within(TASKS, task_id=task_id))
    if row is None:
        raise NotFound(f"There is no task {task_id}.")
    [found] = _tasks(look, [row])
    return TaskPage(at=look.at, task=found)


def _tasks(look: Reading, rows: list[Row]) -> list[Task]:
    ids = [row["task_id"] for row in rows]
    lanes: dict[int, list[Lane]] = {task_id: [] for task_id in ids}
    query = sa.select(LANES).where(LANES.c.task_id.in_(ids)).order_by(LANES.c.lane)
    for lane in look.all(query):
        lanes[lane["task_id"]].append(_lane(lane))
    classes = {
        row["name"]: row["value"]["name"]
        for row in look.all(sa.select(FACTS).where(FACTS.c.name.like("class %")))
    }
    return [
        _task(row, lanes[row["task_id"]], classes.get(f"class {row['class_id']}"), look.at.time)
        for row in rows
    ]


def _lane(row: Row) -> Lane:
    same = ("lane", "node_id", "drawn_at", "committed_at", "revealed_at", "slashed")
    state = numbers.LaneState(row["state"]).name.lower()
    return Lane(
        **{name: row[name] for name in same},
        state=cast(Any, state),
        answer=digest_of(row["answer"]),
    )


def _task(row: Row, lanes: list[Lane], label: str | None, now: int) -> Task:
    status = numbers.TaskStatus(row["status"])
    states = [numbers.LaneState[lane.state.upper()] for lane in lanes]
    same = ("task_id", "creator", "class_id", "fee", "run_s", "seed_block", "created_at")
    also = ("created_tx", "contested", "refund", "ended_at", "overturned", "seized")
    return Task(
        **{name: row[name] for name in (*same, *also)},
        class_name=label,
        spec_cid=cid_of(row["spec"]) or "",
        status=cast(Any, status.name.lower()),
        time=row["time"] or None,
        lanes=lanes,
        result=digest_of(row["result"]),
        appealable=now <= row["time"] and open_to_appeal(status, states),
        appellant=row["appellant"] or None,
        appeal_bond=row["appeal_bond"],
        appeal_until=row["appeal_deadline"] or None,
        verdict=digest_of(row["verdict"]),
        objector=row["objector"] or None,
    )
