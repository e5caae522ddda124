# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for strangers: so many connections at once, each for so long in all.

Rule: every connection is cut off after a total time, and only so many are open at once. One more
ends the oldest one of the address that has the most.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents.runtime.bounded_http import hang_up

_ENDING_S = 1.0  # more than a connection takes that was hung up


class BoundedServer(ThreadingHTTPServer):
    """Serves each connection in a thread, with a `BoundedHandler`. `connections`: open at once.

    Raises OSError if the address can't be listened on.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: Any, connections: int) -> None:
        self._most = connections
        self._slots = threading.BoundedSemaphore(2 * connections)  # some of which are ending
        self._open: dict[Any, str] = {}  # connection -> who has it, the oldest first
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection more."""
        # Those that are ending hold their slots for a moment more. Who comes now waits for one.
        if not self._slots.acquire(timeout=_ENDING_S):
            self.shutdown_request(request)
            return
        with self._lock:
            self._open[request] = client_address[0]
            gone = self._surplus()
        if gone is not None:
            hang_up(gone)
        super().process_request(request, client_address)

    def _surplus(self) -> socket.socket | None:
        """The connection that ends for the newest one: the oldest of whoever has the most. So a
        stranger that holds as many as there may be keeps nobody out."""
        if len(self._open) <= self._most:
            return None
        held = Counter(self._open.values())
        most = max(held.values())
        gone: socket.socket = next(one for one, who in self._open.items() if held[who] == most)
        del self._open[gone]
        return gone

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve it in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event."""


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers one connection. `timeout`: seconds in all that it may take."""

    connection: socket.socket

    def setup(self) -> None:
        """Begin."""
        super().setup()
        assert self.timeout is not None
        # The socket's own time-out restarts with every byte.
        self._bound = threading.Timer(self.timeout, hang_up, (self.connection,))
        self._bound.daemon = True
        self._bound.start()

    def finish(self) -> None:
        """End."""
        self._bound.cancel()
        super().finish()
