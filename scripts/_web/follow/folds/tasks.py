# SPDX-License-Identifier: Apache-2.0
"""RedundantTasks and TaskAppeals: a task, its executors' lanes, and the appeal against it."""

from __future__ import annotations

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState, TaskStatus
from scripts._web.index.entry import Entry, Folds
from scripts._web.index.rows import Row, Rows
from scripts._web.index.tables import FACTS, LANES, NODES, TASKS
from scripts._web.index.words import hexed

_LANES = 5  # of a task at most (the contracts' module `task_word`)


def _task(rows: Rows, entry: Entry) -> Row:
    return rows.row(TASKS, entry.args["task_id"])


def _lane(rows: Rows, entry: Entry) -> Row:
    return rows.row(LANES, entry.args["task_id"], entry.args["lane"])


def created(rows: Rows, entry: Entry) -> None:
    """Somebody pays for a task; its executors are to be drawn."""
    args = entry.args
    task = _task(rows, entry)
    task.update({n: args[n] for n in ("creator", "class_id", "fee", "run_s", "seed_block")})
    task.update(spec=hexed(args["spec"]), status=int(TaskStatus.DRAWING), time=entry.time)
    task.update(created_at=entry.time, created_tx=entry.tx)


def requested(rows: Rows, entry: Entry) -> None:
    """Further executors are to be drawn, or the draw was lost."""
    drawing = {"status": int(TaskStatus.DRAWING), "time": entry.time}
    _task(rows, entry).update(seed_block=entry.args["seed_block"], **drawing)


def drawn(rows: Rows, entry: Entry) -> None:
    """An executor was drawn."""
    args = entry.args
    _task(rows, entry).update(status=int(TaskStatus.RUNNING), time=args["deadline"])
    state = int(LaneState.RUNNING)
    _lane(rows, entry).update(node_id=args["node_id"], state=state, drawn_at=entry.time)


def committed(rows: Rows, entry: Entry) -> None:
    """An executor committed to its result."""
    answer, state = hexed(entry.args["commitment"]), int(LaneState.COMMITTED)
    _lane(rows, entry).update(state=state, answer=answer, committed_at=entry.time)


def reveal_opened(rows: Rows, entry: Entry) -> None:
    """All have committed: they may show what to."""
    revealing = int(TaskStatus.REVEALING)
    _task(rows, entry).update(status=revealing, time=entry.args["deadline"])


def revealed(rows: Rows, entry: Entry) -> None:
    """An executor opened its commitment."""
    answer, state = hexed(entry.args["tag"]), int(LaneState.REVEALED)
    _lane(rows, entry).update(state=state, answer=answer, revealed_at=entry.time)


def aborted(rows: Rows, entry: Entry) -> None:
    """An executor missed its deadline."""
    _lane(rows, entry).update(state=int(LaneState.ABORTED), slashed=entry.args["slashed"])


def agreed(rows: Rows, entry: Entry) -> None:
    """Two executors found the same result."""
    args = entry.args
    result = hexed(args["result"])
    status = TaskStatus.DECIDED if args["contested"] else TaskStatus.AGREED
    task = _task(rows, entry)
    task.update(status=int(status), time=args["appeal_deadline"], result=result)
    task["contested"] = args["contested"]
    first, second = args["lanes"]
    _agree(rows, args["task_id"], first, second, result)


def unavailable(rows: Rows, entry: Entry) -> None:
    """Two executors agree that the inputs can't be had."""
    task = _task(rows, entry)
    task.update(status=int(TaskStatus.CLOSED), time=0, refund=entry.args["refund"])
    task.update(result=_UNAVAILABLE, ended_at=entry.time)
    # The event names no lanes: the one that revealed last agrees with the first of its tag.
    number = entry.args["task_id"]
    lanes = [rows.get(LANES, number, lane) for lane in range(_LANES)]
    shown = [row for row in lanes if row is not None and row["state"] == LaneState.REVEALED]
    last = max(shown, key=lambda row: (row["revealed_at"], row["lane"]))
    first = next(r for r in shown if r["answer"] == last["answer"] and r is not last)
    _agree(rows, number, first["lane"], last["lane"], _UNAVAILABLE)


_UNAVAILABLE = hexed(UNAVAILABLE)


def _agree(rows: Rows, task_id: int, first: int, second: int, result: str) -> None:
    rows.change(LANES, task_id, first, state=int(LaneState.AGREED))
    rows.change(LANES, task_id, second, state=int(LaneState.OPENED), answer=result)


def undecided(rows: Rows, entry: Entry) -> None:
    """Nobody agreed with anybody: the fee goes back."""
    args = entry.args
    undecided = int(TaskStatus.UNDECIDED)
    _task(rows, entry).update(status=undecided, time=args["appeal_deadline"], refund=args["refund"])


def slashed(rows: Rows, entry: Entry) -> None:
    """An executor lost stake for a result that others outvoted, or that was judged wrong."""
    for lane in range(_LANES):
        row = rows.get(LANES, entry.args["task_id"], lane)
        if row is not None and row["node_id"] == entry.args["node_id"]:
            rows.row(LANES, entry.args["task_id"], lane)["slashed"] += entry.args["amount"]


def closed(rows: Rows, entry: Entry) -> None:
    """Nothing can change it any more."""
    _task(rows, entry).update(status=int(TaskStatus.CLOSED), time=0, ended_at=entry.time)


# -- appeals -----------------------------------------------------------------------------------


def appeal_begun(rows: Rows, entry: Entry) -> None:
    """Verifiers are to run it again."""
    _task(rows, entry)["status"] = int(TaskStatus.APPEALED)


def appealed(rows: Rows, entry: Entry) -> None:
    """Who appealed, with what bond, and until when verifiers have."""
    args = entry.args
    task = _task(rows, entry)
    task.update(appellant=args["appellant"], appeal_bond=args["bond"], time=args["deadline"])
    task["appeal_deadline"] = args["deadline"]


def verdict_given(rows: Rows, entry: Entry) -> None:
    """Verifiers say what the result is."""
    verdict, deadline = hexed(entry.args["result"]), entry.args["deadline"]
    _task(rows, entry).update(verdict=verdict, appeal_deadline=deadline)


def contested(rows: Rows, entry: Entry) -> None:
    """Somebody objects to the verdict: the committee decides."""
    args = entry.args
    _task(rows, entry).update(objector=args["objector"], appeal_deadline=args["deadline"])


def judged(rows: Rows, entry: Entry) -> None:
    """The appeal has its end."""
    args = entry.args
    task = _task(rows, entry)
    task.update(verdict=hexed(args["result"]), overturned=args["overturned"])
    task.update(seized=args["seized"], appeal_deadline=0)


def appeal_lapsed(rows: Rows, entry: Entry) -> None:
    """Nobody decided in time."""
    _task(rows, entry)["appeal_deadline"] = 0


# -- executors ---------------------------------------------------------------------------------


def class_added(rows: Rows, entry: Entry) -> None:
    """There is another determinism class."""
    name = entry.args["name"].rstrip(b"\0").decode("ascii", "replace")
    rows.change(FACTS, f"class {entry.args['class_id']}", value={"name": name})


def joined(rows: Rows, entry: Entry) -> None:
    """A node runs tasks of a class."""
    rows.change(NODES, entry.args["node_id"], class_id=entry.args["class_id"])


def left(rows: Rows, entry: Entry) -> None:
    """It does not any more."""
    rows.change(NODES, entry.args["node_id"], class_id=None)


def declared(rows: Rows, entry: Entry) -> None:
    """A verifier says which classes it runs again, one bit each."""
    rows.change(NODES, entry.args["node_id"], recheck_classes=entry.args["classes"])


FOLDS: Folds = {
    "TaskCreated": created,
    "DrawRequested": requested,
    "ExecutorDrawn": drawn,
    "ResultCommitted": committed,
    "RevealOpened": reveal_opened,
    "ResultRevealed": revealed,
    "ExecutorAborted": aborted,
    "TaskAgreed": agreed,
    "TaskUnavailable": unavailable,
    "TaskUndecided": undecided,
    "ExecutorSlashed": slashed,
    "TaskClosed": closed,
    "AppealBegun": appeal_begun,
    "TaskAppealed": appealed,
    "VerdictGiven": verdict_given,
    "VerdictContested": contested,
    "TaskJudged": judged,
    "AppealLapsed": appeal_lapsed,
    "ClassAdded": class_added,
    "ExecutorJoined": joined,
    "ExecutorLeft": left,
    "ClassesDeclared": declared,
}
