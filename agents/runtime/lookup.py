# SPDX-License-Identifier: Apache-2.0
"""The addresses of a name that a stranger has chosen, in bounded time.

Rule: the system's resolver takes as long as the name's own servers make it wait, which may be a
minute, and it can't be ended. So it works in a thread of its own that nobody waits for any longer
than said. Of such threads there are a bounded number.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future
from typing import Any

_MOST = 256
_slots = threading.BoundedSemaphore(_MOST)


def addresses_of(host: str, port: int, within_s: float) -> list[Any]:
    """What `socket.getaddrinfo` gives for a stream. OSError: nothing, or not in time."""
    try:
        # An address that is written in numbers takes no resolver.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return _looked_up(host, port, within_s)


def _looked_up(host: str, port: int, within_s: float) -> list[Any]:
    slots = _slots
    if not slots.acquire(blocking=False):
        raise OSError(f"{_MOST} other names are being looked up, so {host} is not")
    found: Future[list[Any]] = Future()

    def work() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except BaseException as error:
            found.set_exception(error)
        finally:
            slots.release()

    threading.Thread(target=work, name="lookup", daemon=True).start()
    try:
        return found.result(within_s)
    except TimeoutError:
        raise OSError(f"the addresses of {host} did not come within {within_s:g} s") from None
