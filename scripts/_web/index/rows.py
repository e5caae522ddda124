# SPDX-License-Identifier: Apache-2.0
"""The rows that events change, written together: what a fold works on.

Rule: one writer. A row is read once, changed in memory and written when the batch ends. Where a
reorganisation may still remove a block, what a row was before that block is written too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from scripts._web.index.tables import FOLDED, LOGGED, UNDO

_CACHED = 100_000  # rows kept in memory between batches

Row = dict[str, Any]
_BY_NAME = {table.name: table for table in FOLDED}
_KEYS = {table.name: tuple(column.name for column in table.primary_key) for table in FOLDED}


class Rows:
    """The folded tables within batches of blocks. `begin` comes first and `write` last."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[Any, ...]], Row | None] = {}
        self._changed: dict[tuple[str, tuple[Any, ...]], None] = {}
        self._added: dict[str, list[Row]] = {table.name: [] for table in LOGGED}
        self._undo: list[Row] = []
        self._kept_of_block: set[tuple[str, tuple[Any, ...]]] = set()
        self._block = 0
        self._keeps = False
        self._connection: Connection

    def begin(self, connection: Connection) -> None:
        """Work in this transaction from now on."""
        self._connection = connection
        if len(self._known) > _CACHED:
            self._known.clear()

    def enter(self, block: int, keep: bool) -> None:
        """What changes from now on is of this block. `keep`: it may have to be taken back."""
        self._block, self._keeps = block, keep
        self._kept_of_block = set()

    def forget(self) -> None:
        """Drop what is in memory: the transaction was not committed, or the tables were changed."""
        self._known.clear()
        self._changed.clear()
        self._undo.clear()
        for rows in self._added.values():
            rows.clear()

    # -- reading and changing ------------------------------------------------------------------

    def get(self, table: sa.Table, *key: Any) -> Row | None:
        """The row with this primary key, None if there is none. It must not be changed."""
        place = table.name, key
        if place not in self._known:
            where = [c == value for c, value in zip(table.primary_key, key, strict=True)]
            found = self._connection.execute(sa.select(table).where(*where)).mappings().first()
            self._known[place] = None if found is None else dict(found)
        return self._known[place]

    def change(self, table: sa.Table, *key: Any, **values: Any) -> None:
        """Set columns of the row with this primary key, which is made if there is none."""
        self.row(table, *key).update(values)

    def row(self, table: sa.Table, *key: Any) -> Row:
        """The row with this primary key, to be changed; it is made if there is none."""
        place = table.name, key
        row = self.get(table, *key)
        if self._keeps and place not in self._kept_of_block:
            self._kept_of_block.add(place)
            before = None if row is None else json.dumps(row)
            self._undo.append(
                {
                    "block": self._block,
                    "place": len(self._kept_of_block),
                    "of": table.name,
                    "key": json.dumps(key),
                    "before": before,
                }
            )
        if row is None:
            row = self._known[place] = _fresh(table, key)
        self._changed[place] = None
        return row

    def add(self, table: sa.Table, row: Row) -> None:
        """Add a fact."""
        self._added[table.name].append(row)

    # -- writing -------------------------------------------------------------------------------

    def write(self) -> None:
        """Write everything that has changed since `begin`."""
        for table in LOGGED:
            if rows := self._added[table.name]:
                self._connection.execute(table.insert(), rows)
        if self._undo:
            self._connection.execute(UNDO.insert(), self._undo)
        for table in FOLDED:
            places = [place for place in self._changed if place[0] == table.name]
            changed = [row for place in places if (row := self._known[place]) is not None]
            if changed:
                self._connection.execute(_upsert(self._connection, table), changed)
        self._changed.clear()
        self._undo.clear()
        for rows in self._added.values():
            rows.clear()

    def roll_back(self, ancestor: int) -> None:
        """Bring every table back to what it was after block `ancestor`."""
        self.forget()
        connection = self._connection
        newest_first = (UNDO.c.block.desc(), UNDO.c.place.desc())
        kept = sa.select(UNDO).where(UNDO.c.block > ancestor).order_by(*newest_first)
        oldest: dict[tuple[str, str], str | None] = {}
        for entry in connection.execute(kept).mappings():
            oldest[entry["of"], entry["key"]] = entry["before"]
        for (name, key), before in oldest.items():
            table = _BY_NAME[name]
            if before is None:
                pairs = zip(table.primary_key, json.loads(key), strict=True)
                connection.execute(table.delete().where(*(c == value for c, value in pairs)))
            else:
                connection.execute(_upsert(connection, table), [json.loads(before)])
        connection.execute(UNDO.delete().where(UNDO.c.block > ancestor))
        for table in LOGGED:
            connection.execute(table.delete().where(table.c.block > ancestor))

    def clear(self) -> None:
        """Empty every table."""
        self.forget()
        for table in (*LOGGED, *FOLDED, UNDO):
            self._connection.execute(table.delete())

    def prune(self, before: int) -> None:
        """Forget what rows were before blocks that no reorganisation will remove any more."""
        self._connection.execute(UNDO.delete().where(UNDO.c.block < before))


def _fresh(table: sa.Table, key: Iterable[Any]) -> Row:
    """A new row: its key, and the default of every other column."""
    row: Row = dict(zip(_KEYS[table.name], key, strict=True))
    for column in table.columns:
        if column.name not in row:
            default = cast(Any, column.default)
            if default is None:
                row[column.name] = None
            else:
                row[column.name] = default.arg(None) if default.is_callable else default.arg
    return row


def _upsert(connection: Connection, table: sa.Table) -> Any:
    """The statement that inserts a row, or replaces the one with its primary key."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(table)
    keys = _KEYS[table.name]
    others = {c.name: insert.excluded[c.name] for c in table.columns if c.name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=others)
