# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks as the pages show them: where each stands, its lanes, who acts next.

The words are those of `ape run task`. Tasks are read from the index; only who a draw would take
next is asked of the chain, for the tasks that are being drawn: the draw looks at every seat of its
pool, which no event says at once. A chain that does not answer leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, LaneState, TaskStatus
from agents.runtime.errors import AgentError
from agents.storage.cid import digest_of
from agents.tasks.contract import Appeal, Task, Tasks
from scripts._shared.task_words import lane_rows, sentence
from scripts._web.index import models, queries
from scripts._web.index.reading import Reading

_MOST = 20  # of a page
Asked = Callable[[], AbstractContextManager[Network]]  # `Site.asked`


@dataclass(frozen=True)
class Lane:
    """An executor of a task. `answer`: what it has put on chain, None for nothing."""

    node_id: int
    state: str
    answer: str | None


_NOBODY = f"0x{0:040x}"
_UNKNOWN = (
    "Executors are being drawn. Whom the draw takes is the chain's to say, and its node does not "
    "answer."
)


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
    created_at: int


@dataclass(frozen=True)
class Part:
    """Some tasks. `further`: the id before which older ones are, None at the end. `whole`: nothing
    is left open because the chain did not answer."""

    items: list[Shown]
    further: int | None
    whole: bool


def newest(asked: Asked, look: Reading, before: int | None) -> Part:
    """Return the newest tasks, those before an id."""
    found = queries.tasks(look, before, limit=_MOST)
    items, whole = _all(asked, look, found.items)
    return Part(items, int(found.next) if found.next else None, whole)


def one(asked: Asked, look: Reading, task_id: int) -> tuple[Shown, bool]:
    """Return a task, and whether nothing of it is left open. Raises NotFound."""
    [shown], whole = _all(asked, look, [queries.task(look, task_id).task])
    return shown, whole


def _all(asked: Asked, look: Reading, found: Sequence[models.Task]) -> tuple[list[Shown], bool]:
    drawing = [each.task_id for each in found if each.status == "drawing"]
    told: dict[int, Task] = {}
    expected: dict[int, list[int]] = {}
    if drawing:
        try:
            with asked() as network:
                tasks = Tasks(network)
                told = {task.task_id: task for task in tasks.many(drawing)}
                expected = tasks.expected_many(drawing)
        except AgentError:
            told = {}
    now = look.at.time
    items = [_shown(each, told.get(each.task_id), expected, now) for each in found]
    return items, len(told) == len(drawing)


def _shown(
    found: models.Task, asked: Task | None, expected: dict[int, list[int]], now: int
) -> Shown:
    task, appeal = task_of(found), appeal_of(found)
    words = _UNKNOWN
    if task.status != TaskStatus.DRAWING:
        words = sentence(task, appeal, now, ())
    elif asked is not None:
        words = sentence(asked, appeal, now, expected[found.task_id])
    lanes = zip(found.lanes, lane_rows(task), strict=True)
    return Shown(
        task_id=found.task_id,
        status=found.status,
        sentence=words,
        lanes=tuple(Lane(lane.node_id, row[2], lane.answer) for lane, row in lanes),
        fee=found.fee,
        creator=found.creator,
        spec_cid=found.spec_cid,
        result=found.result,
        appealable=found.appealable,
        contestable=appeal.standing and now <= appeal.deadline,
        created_at=found.created_at,
    )


def task_of(found: models.Task) -> Task:
    """Return a task of the index as the contract has it, but for what only a draw needs."""
    return Task(
        task_id=found.task_id,
        status=TaskStatus[found.status.upper()],
        creator=found.creator,
        class_id=found.class_id,
        spec=digest_of(found.spec_cid),
        fee=found.fee,
        run_s=found.run_s,
        time=found.time or 0,
        seed_block=found.seed_block,
        draw_until=0,
        nodes=tuple(lane.node_id for lane in found.lanes),
        states=tuple(LaneState[lane.state.upper()] for lane in found.lanes),
        answers=tuple(_digests(lane.answer for lane in found.lanes)),
        wanted=0,
    )


def appeal_of(found: models.Task) -> Appeal:
    """Return the appeal against a task of the index; all zero where there was none."""
    [verdict] = _digests([found.verdict])
    appealed = found.appellant is not None
    return Appeal(
        appellant=found.appellant or _NOBODY,
        status=TaskStatus[found.status.upper()] if appealed else TaskStatus.NONE,
        decided_at=int(appealed),
        deadline=found.appeal_until or 0,
        result=verdict,
        overturned=found.overturned,
        objector=found.objector or _NOBODY,
    )


def _digests(said: Iterable[str | None]) -> Iterable[bytes]:
    return (ZERO_DIGEST if each is None else bytes.fromhex(each[2:]) for each in said)
