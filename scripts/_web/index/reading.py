# SPDX-License-Identifier: Apache-2.0
"""One look at the index: everything that is read through it is of one block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from agents.runtime.errors import AgentError
from scripts._web.index.models import At
from scripts._web.index.tables import BLOCKS


class NotFound(AgentError):
    """The index has no such thing, as a sentence."""


class BadCursor(AgentError):
    """A cursor that this index never gave."""


class NotReady(AgentError):
    """The index has read no block yet."""


class Reading:
    """A transaction that reads the index as it is after block `at`."""

    def __init__(self, connection: Connection, at: At) -> None:
        self._connection = connection
        self.at = at

    def all(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        """Every row, by column name."""
        return [dict(row) for row in self._connection.execute(query).mappings()]

    def one(self, query: sa.Select[Any]) -> dict[str, Any] | None:
        """The first row, None if there is none."""
        row = self._connection.execute(query).mappings().first()
        return None if row is None else dict(row)

    def number(self, query: sa.Select[Any]) -> int:
        """The only number of the only row; 0 where there is nothing to count."""
        return int(self._connection.execute(query).scalar() or 0)


@contextmanager
def reading(engine: Engine) -> Iterator[Reading]:
    """Look at the index. Raises NotReady while it is empty."""
    with engine.connect() as connection:
        newest = sa.select(BLOCKS).order_by(BLOCKS.c.number.desc()).limit(1)
        row = connection.execute(newest).mappings().first()
        if row is None:
            raise NotReady("The index is empty: it has not read a block of the chain yet.")
        yield Reading(connection, At(block=row["number"], hash=row["hash"], time=row["time"]))
