# SPDX-License-Identifier: Apache-2.0
"""TCP ports for processes that are yet to be started, each given once on this machine.

A port is claimed by a lock on one byte of a file that all processes of this user share. The system
ends a process's claims with the process, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from scripts._net.processes import ProcessError

# Below the range that systems draw the ports of outgoing connections from.
_PORTS = range(15_000, 32_000)
_TRIES = 100
_given: set[int] = set()  # by this process: its own locks are no obstacle to it


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on, another one each time.

    Until this process ends, no other process of this user is given the same one, and no outgoing
    connection takes it. Raises ProcessError if hardly any port is free.
    """
    for _ in range(_TRIES):
        port = secrets.choice(_PORTS)
        if port in _given or not _claimed(port):
            continue
        _given.add(port)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ProcessError(f"no free TCP port found between {_PORTS[0]} and {_PORTS[-1]}.")


def _claimed(port: int) -> bool:
    """Claim a port; False when another process has."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


@cache
def _claims() -> int:
    """The file of the claims, open until this process ends: closing it would give them up."""
    file = Path(tempfile.gettempdir()) / f"menagerie-ports-{os.getuid()}"
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ProcessError(
            f"{file} must be a file of yours, for claims of TCP ports: {error}."
        ) from None
