# SPDX-License-Identifier: Apache-2.0
"""Whose work was invalid when a round opened.

Rule: what a round is built on must be the same for everybody for ever. A node's work is found
invalid while its round is in CHALLENGE or DISPUTED (`TrainingResults.invalidate`), and rounds of
one job don't overlap (`TrainingJobs.begin_round`). So every such mark of the earlier rounds is set
before a round opens, and none comes after. But an appeal that is upheld, or that nobody decides in
time, takes a mark away at any later moment (`TrainingResults.clear`). For a round those marks count
that stood at the place of its RoundOpened, whatever became of them since. Within one block the
order of the events decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.runtime.contracts import Event

Marks = frozenset[tuple[int, int]]
"""(round, node) of work that was invalid."""

CHANGES = ("NodeInvalidated", "NodeCleared")


def marks_at(changes: Iterable[Event], job_id: int, at: Event) -> Marks:
    """The marks of a job that stood when `at` happened.

    `changes`: the events of CHANGES, in any order, of this job and others.
    """
    found: set[tuple[int, int]] = set()
    for event in sorted(changes, key=_place):
        if event.args["job_id"] != job_id or _place(event) >= _place(at):
            continue
        mark = event.args["round_id"], event.args["node_id"]
        if event.name == "NodeInvalidated":
            found.add(mark)
        else:
            found.discard(mark)
    return frozenset(found)


def nodes_found(changes: Iterable[Event], job_id: int, round_id: int) -> set[int]:
    """The nodes that were marked in a round at any time."""
    place = job_id, round_id
    return {
        event.args["node_id"]
        for event in changes
        if event.name == "NodeInvalidated"
        and (event.args["job_id"], event.args["round_id"]) == place
    }


def nodes_of(marks: Marks, round_id: int) -> set[int]:
    """The nodes that are marked in a round."""
    return {node for number, node in marks if number == round_id}


def _place(event: Event) -> tuple[int, int]:
    return event.block, event.log_index
