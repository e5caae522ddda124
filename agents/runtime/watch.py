# SPDX-License-Identifier: Apache-2.0
"""The main thread watches over the agent's loop, which runs in a thread of its own.

Rule: a process that is asked to stop ends within `grace_s`, whatever its agent is doing: what must
survive is on disk already, so an agent may end at any line. And a step that takes long is named in
the log, with the line that it is at, as long as it lasts.

Python delivers signals to the main thread. If the loop ran there, a signal would wait until a long
call into a library returns.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from agents.runtime.logs import Log

GRACE_S = 4.0
_LOOK_S = 0.25
_SLOW_S = 60.0
_LINES = 6


def run_watched(
    run: Callable[[], None],
    busy_since: Callable[[], float | None],
    stop: threading.Event,
    log: Log,
    slow_s: float = _SLOW_S,
    grace_s: float = GRACE_S,
) -> bool:
    """Run `run` in a thread until it returns. Call from the main thread.

    `busy_since` says on `time.monotonic` since when the step in hand has lasted, None if there is
    none. Returns whether `run` has ended. If not, it is still at work `grace_s` after `stop` was
    set, and the caller ends the process. Raises what `run` raised.
    """
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="loop", daemon=True)
    thread.start()
    asked: float | None = None
    next_word = slow_s
    while thread.is_alive():
        thread.join(_LOOK_S)
        now = time.monotonic()
        asked = now if stop.is_set() and asked is None else asked
        since = busy_since()
        lasted = 0.0 if since is None else now - since
        if asked is not None and now - asked > grace_s and thread.is_alive():
            log.warning("stopped_in_a_step", after_s=round(lasted, 1), at=_place(thread))
            return False
        if lasted < slow_s:
            next_word = slow_s
        elif lasted >= next_word:
            log.warning("slow_step", after_s=round(lasted, 1), at=_place(thread))
            next_word = 2 * lasted
    if errors:
        raise errors[0]
    return True


def _place(thread: threading.Thread) -> str:
    """The innermost lines that a thread is at."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "it has ended"
    return "".join(traceback.format_stack(frame)[-_LINES:])
