# SPDX-License-Identifier: Apache-2.0
"""One HTTP request to a stranger, bounded in bytes and in total time.

Redirects are not followed, and nothing of the environment (proxies, credentials) is used.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from agents.runtime.lookup import addresses_of

_ADDRESSES = 2


def ask(
    method: str, url: str, body: bytes | None, timeout_s: float, max_reply: int
) -> tuple[int, bytes]:
    """Status and body of the reply; all of it within `timeout_s`, however it trickles in.

    Before that the lookup of a name has `timeout_s` for itself, connecting has twice as long (of
    the addresses that a name has, the first two are tried), and the handshake of TLS as long again.

    Raises:
        OSError, http.client.HTTPException: nobody answers, not in time, or not in HTTP.
        ValueError: the address can't be used, or the reply has more than `max_reply` bytes.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    connection._create_connection = partial(_reached, timeout_s)  # type: ignore[attr-defined]
    connection.connect()
    # A timeout on the socket restarts with every byte; only a shutdown bounds the whole.
    bound = threading.Timer(timeout_s, hang_up, (connection.sock,))
    bound.daemon = True
    bound.start()
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # Who refuses a body may say so, and hang up, before it has read all of it.
            connection.request(method, parts.path, body)
        reply = connection.getresponse()
        found = reply.read(max_reply + 1)
    finally:
        bound.cancel()
        connection.close()
    if len(found) > max_reply:
        raise ValueError(f"The reply has more than {max_reply} bytes.")
    return reply.status, found


def _reached(lookup_s: float, place: tuple[str, int], *options: Any) -> socket.socket:
    """As `socket.create_connection`, which would try any number of addresses, each for a whole
    time-out: the owner of a name chooses how many it has."""
    found = addresses_of(*place, lookup_s)[:_ADDRESSES]
    for at, (*_, address) in enumerate(found):
        try:
            return socket.create_connection((str(address[0]), place[1]), *options)
        except OSError:
            if at == len(found) - 1:
                raise
    raise OSError(f"{place[0]} has no address")


def hang_up(connected: socket.socket) -> None:
    """End a connection that another thread uses, which then sees its end."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
