# SPDX-License-Identifier: Apache-2.0
"""One event of the chain: its row, and what it changes in the tables of state."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from scripts._web.follow.folds import (
    benchmarks,
    jobs,
    network,
    nodes,
    payments,
    reports,
    rounds,
    scores,
    tasks,
)
from scripts._web.index.entry import Entry, Fold
from scripts._web.index.rows import Rows
from scripts._web.index.tables import EVENTS, MOST_ID
from scripts._web.index.words import plain

_FOLDS: dict[str, list[Fold]] = defaultdict(list)
for _part in (network, jobs, rounds, reports, scores, nodes, benchmarks, payments, tasks):
    for _name, _fold in _part.FOLDS.items():
        _FOLDS[_name].append(_fold)


def fold(rows: Rows, entry: Entry) -> None:
    """Write an event and what follows from it."""
    rows.add(EVENTS, _row(entry))
    for change in _FOLDS.get(entry.event.name, ()):
        change(rows, entry)


def _id(value: Any) -> int | None:
    """A number by which events are looked up. One that no chain counts to is a stranger's, such as
    the round of a file of keys: `args` has it, and no column could hold it."""
    return value if isinstance(value, int) and 0 <= value <= MOST_ID else None


def _row(entry: Entry) -> dict[str, Any]:
    args = entry.args
    actor = args.get("verifier_id", args.get("proposer"))
    return {
        "block": entry.block,
        "log_index": entry.event.log_index,
        "time": entry.time,
        "tx": entry.tx,
        "contract": entry.contract,
        "name": entry.event.name,
        "job_id": _id(args.get("job_id")),
        "round_id": _id(args.get("round_id")),
        "node_id": _id(args.get("node_id")),
        "actor_id": _id(actor),
        "task_id": _id(args.get("task_id")),
        "args": plain(args),
    }
