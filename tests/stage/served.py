# SPDX-License-Identifier: Apache-2.0
"""A server of Python's own that answers in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

_S = TypeVar("_S", bound=BaseServer)


@contextmanager
def serving(server: _S) -> Iterator[_S]:
    """It answers in a thread of its own until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
