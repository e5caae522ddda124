# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of the distribution's own package, in a folder of its own, for tests.

    with postgres() as server: server.database()     # the URL of a new, empty database

It listens on a socket in its folder and nowhere else, and is gone afterwards with everything in it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

_USER = "postgres"
_HINT = "PostgreSQL is not installed: apt-get install postgresql (see docs/web.md)"
_START_S = 60


@dataclass
class Server:
    """A running server. `folder`: its socket is there."""

    folder: Path
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"index_{next(self._numbers)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def _url(self, name: str) -> str:
        return f"postgresql://{_USER}@/{name}?host={quote(str(self.folder), safe='')}"


def programs() -> Path | None:
    """The folder of the server's programs, None where it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    newest = max(versions, key=lambda path: float(path.parents[1].name), default=None)
    return None if newest is None else newest.parent


@contextmanager
def postgres() -> Iterator[Server]:
    """Start a server. Skips the test where there is none, but for CI, where it fails."""
    found = programs()
    if found is None:
        assert not os.environ.get("CI"), _HINT
        pytest.skip(_HINT)
    # A socket's path may have 107 bytes at most, which pytest's folders would use up.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if os.geteuid() == 0:  # the server refuses to run as root
            os.chown(folder, pwd.getpwnam(_USER).pw_uid, -1)
        data, log = folder / "data", folder / "log"
        options = f"-c listen_addresses='' -k {folder} -c fsync=off"
        _run(found / "initdb", "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C")
        _run(found / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield Server(folder)
        finally:
            _run(found / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str | Path) -> None:
    words = list(map(str, command))
    if os.geteuid() == 0:
        words = ["runuser", "-u", _USER, "--", *words]
    # The server keeps what it inherits open: a pipe would never end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(words, cwd="/", stdout=said, stderr=said, timeout=_START_S)
        said.seek(0)
        assert done.returncode == 0, said.read().decode(errors="replace")
