# SPDX-License-Identifier: Apache-2.0
"""Opens the index's database, SQLite or PostgreSQL, and brings its schema up to date."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from agents.runtime.errors import ConfigError

_MIGRATIONS = Path(__file__).with_name("migrations")
_POOL = {"pool_size": 10, "max_overflow": 40}  # the server's threads, and the indexer's
_BUSY_MS = 10_000
_LOCK = 0x6D656E6167657269  # of the one writer, in PostgreSQL: "menageri"


def open_database(url: str) -> Engine:
    """Return the database at `url`, with the newest schema.

    Every transaction sees the database as it was at its first statement. Raises ConfigError when
    the URL is of another kind, or the database can't be opened.
    """
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise ConfigError(
            "The database's URL can't be read; give one such as sqlite:///index.db or "
            "postgresql://user@host/name."
        ) from None
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise ConfigError(f"The index is kept in SQLite or PostgreSQL, not in {backend}.")
    try:
        if backend == "sqlite":
            if parsed.database not in (None, "", ":memory:"):
                Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            engine = sa.create_engine(parsed, hide_parameters=True, **_POOL)
            _prepare(engine)
        else:
            # A plain postgresql:// names no driver; psycopg 3 is the one that is installed.
            engine = sa.create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                isolation_level="REPEATABLE READ",
                pool_pre_ping=True,
                hide_parameters=True,
                **_POOL,
            )
        upgrade(engine)
    except (SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise ConfigError(
            f"The index's database {parsed.render_as_string(hide_password=True)} can't be opened: "
            f"{reason}. It is a cache: another one may be given with --database."
        ) from None
    return engine


def _prepare(engine: Engine) -> None:
    """Let readers of SQLite go on while the indexer writes, each in a transaction of its own."""

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin no transaction for a SELECT
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")

    @sa.event.listens_for(engine, "begin")
    def began(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def only_writer(engine: Engine) -> Iterator[None]:
    """Be the only one that writes to the database, while entered. Raises ConfigError if another
    process is."""
    refusal = ConfigError(
        "Another process keeps this database's index already. Give this one a database of its "
        "own with --database, or end the other."
    )
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            connection.detach()  # its session ends with it, and the lock with the session
            taken = sa.select(sa.func.pg_try_advisory_lock(_LOCK))
            if not connection.execute(taken).scalar():
                raise refusal
            connection.commit()  # the lock is the session's, and stays
            yield
        return
    with Path(f"{engine.url.database}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise refusal from None
        yield


def upgrade(engine: Engine) -> None:
    """Run the migrations that the database has not had yet."""
    with engine.begin() as connection:
        command.upgrade(migrations(connection), "head")


def migrations(connection: Any) -> Config:
    """Return Alembic's settings for one connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
