# SPDX-License-Identifier: Apache-2.0
"""A connection of the web server that ends readers who neither ask nor take what they asked for.

Rule: a request has to be whole `ASK_S` after its connection could begin it, and of what is sent
the reader has to take a buffer within `TAKE_S`. So whoever only holds connections open holds each
for seconds, and not for ever.

What is to be sent is sent at once: on a socket that asyncio was handed, it leaves Nagle's algorithm
on, and the end of each answer on a kept connection waits 40 ms for the reader's acknowledgement.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ASK_S = 15.0
TAKE_S = 60.0


class PatientConnection(H11Protocol):
    """HTTP/1.1 with two time limits."""

    ask_s, take_s = ASK_S, TAKE_S
    _asking: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A reader has come."""
        super().connection_made(transport)
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The reader has gone."""
        _stop(self._asking)
        _stop(self._taking)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Go on with what the reader has sent."""
        super().handle_events()
        if self.conn.their_state not in _ASKING:
            _stop(self._asking)

    def on_response_complete(self) -> None:
        """An answer was sent."""
        super().on_response_complete()
        if self.conn.their_state in _ASKING and not self.transport.is_closing():
            self._await_request()

    def pause_writing(self) -> None:
        """The reader is slower than the server."""
        super().pause_writing()
        _stop(self._taking)
        self._taking = self.loop.call_later(self.take_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader has taken what was waiting."""
        _stop(self._taking)
        super().resume_writing()

    def _await_request(self) -> None:
        _stop(self._asking)
        self._asking = self.loop.call_later(self.ask_s, self._asked_too_slowly)

    def _asked_too_slowly(self) -> None:
        if self.conn.their_state in _ASKING:
            self.transport.close()


_ASKING: tuple[Any, ...] = (h11.IDLE, h11.SEND_BODY)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
