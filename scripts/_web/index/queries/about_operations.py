# SPDX-License-Identifier: Apache-2.0
"""The committee's operations: which call, who agreed, and when it may be made."""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa

from scripts._web.index.models import Operation, Page
from scripts._web.index.queries.base import Row, behind, cursor_of, newest_first, within
from scripts._web.index.reading import NotFound, Reading
from scripts._web.index.tables import FACTS, OPERATIONS

_ORDER = (OPERATIONS.c.proposed_block, OPERATIONS.c.proposed_index)


def operations(
    look: Reading, grace: int, cursor: str | None = None, limit: int = 50
) -> Page[Operation]:
    """Operations, newest first. `grace`: seconds that a queued one stays executable (fixed by the
    deployment, so that no event says it). Raises BadCursor."""
    query = sa.select(OPERATIONS).where(*behind(cursor, *_ORDER))
    rows = look.all(query.order_by(*newest_first(*_ORDER)).limit(limit + 1))
    members, threshold = _committee(look)
    items = [_operation(row, members, threshold, look.at.time, grace) for row in rows[:limit]]
    following = cursor_of(rows[limit - 1], *_ORDER) if len(rows) > limit else None
    return Page[Operation](at=look.at, items=items, next=following)


def operation(look: Reading, grace: int, op_id: str) -> Operation:
    """An operation. Raises NotFound."""
    row = look.one(within(OPERATIONS, op_id=op_id.lower()))
    if row is None:
        raise NotFound(f"There is no operation {op_id}.")
    return _operation(row, *_committee(look), look.at.time, grace)


def _committee(look: Reading) -> tuple[list[str], int]:
    row = look.one(within(FACTS, name="committee"))
    return (row["value"]["members"], row["value"]["threshold"]) if row else ([], 0)


def _operation(row: Row, members: list[str], threshold: int, now: int, grace: int) -> Operation:
    approved = [member for member in row["approved"] if member in members]
    against = [member for member in row["against"] if member in members]
    # As the contract counts: a change of members may make votes that are there enough.
    stopped = bool(members) and len(against) > len(members) - threshold
    same = ("op_id", "target", "data", "salt", "proposer", "proposed_at", "executed_at")
    return Operation(
        **{name: row[name] for name in same},
        state=cast(Any, _state(row, len(approved) >= threshold, stopped, now, grace)),
        eta=row["eta"] or None,
        until=row["eta"] + grace if row["eta"] else None,
        approved=approved,
        lapsed=[member for member in row["approved"] if member not in members],
        against=against,
        threshold=threshold,
        executed_block=row["executed_block"],
        executed_tx=row["executed_tx"] or None,
    )


def _state(row: Row, quorum: bool, stopped: bool, now: int, grace: int) -> str:
    if row["executed_at"] is not None:
        return "executed"
    if row["cancelled"] or stopped:
        return "cancelled"
    if row["eta"] and now >= row["eta"] + grace:
        return "expired"
    if not row["eta"] or not quorum:
        return "proposed"
    return "ready" if now >= row["eta"] else "queued"
