# SPDX-License-Identifier: Apache-2.0
"""Fault injection: die at a named point, as a power cut would.

While `MENAGERIE_CRASH_AT` is unset (always, outside tests) this does nothing. Set to a point's
name, the process sends itself SIGKILL there: no handler, no flush, no exit hook. Tests of crash
safety use it to stop an agent between two effects whose order matters.
"""

from __future__ import annotations

import os
import signal

CRASH_VARIABLE = "MENAGERIE_CRASH_AT"


def crashpoint(name: str) -> None:
    """Kill this process at once when `MENAGERIE_CRASH_AT` equals `name`."""
    if os.environ.get(CRASH_VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
