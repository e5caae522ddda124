# SPDX-License-Identifier: Apache-2.0
"""What queries share: digests as CIDs, filters, and the cursors of lists."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from agents.storage.cid import cid_from_digest
from agents.storage.nesting import parse_json
from scripts._web.index.reading import BadCursor

Row = dict[str, Any]
_MOST = 2**62  # of a part of a cursor: what the databases hold


def cid_of(digest: str) -> str | None:
    """The CID of an artefact's digest, None where there is none."""
    raw = bytes.fromhex(digest.removeprefix("0x"))
    return cid_from_digest(raw) if raw.strip(b"\0") else None


def digest_of(digest: str) -> str | None:
    """A digest, None where the chain has zeros or nothing."""
    return digest if digest.removeprefix("0x").strip("0") else None


def within(table: sa.Table, **where: Any) -> sa.Select[Any]:
    """The rows whose columns have these values; a None asks for nothing."""
    wanted = {name: value for name, value in where.items() if value is not None}
    return sa.select(table).where(*(table.c[name] == value for name, value in wanted.items()))


def newest_first(*columns: sa.Column[Any]) -> list[Any]:
    """An order."""
    return [column.desc() for column in columns]


def cursor_of(row: Mapping[str, Any], *columns: sa.Column[Any]) -> str:
    """The cursor behind a row of a list that is ordered by these columns."""
    place = [row[column.name] for column in columns]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def behind(cursor: str | None, *columns: sa.Column[Any]) -> list[Any]:
    """The filter for what comes after a cursor, newest first. Raises BadCursor."""
    if cursor is None:
        return []
    return [sa.tuple_(*columns) < sa.tuple_(*map(sa.literal, place_of(cursor, len(columns))))]


def place_of(cursor: str, length: int) -> tuple[int, ...]:
    """What is in a cursor. Raises BadCursor."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = parse_json(raw)
    except (binascii.Error, ValueError, RecursionError):
        place = None
    whole = isinstance(place, list) and len(place) == length
    if not whole or not all(type(part) is int and 0 <= part < _MOST for part in place):
        raise BadCursor("The cursor is not one that this list gave.")
    return tuple(place)
