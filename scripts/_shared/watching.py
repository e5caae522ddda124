# SPDX-License-Identifier: Apache-2.0
"""Shows something once, or again and again.

A terminal gets each look in the place of the last, a pipe or a file gets them one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def show(
    view: Callable[[], Any], every: float | None, over: Callable[[], bool] | None = None
) -> None:
    """Print `view()`; with `every`, in seconds, until `over()` or Ctrl-C.

    A pipe or a file gets each look as lines of its own: a live display would write nothing there.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if every is None:
        console.print(view())
        return
    try:
        if console.is_terminal:
            with Live(view(), console=console, auto_refresh=False) as live:
                while not (over and over()):
                    time.sleep(every)
                    live.update(view(), refresh=True)
            return
        console.print(view())
        while not (over and over()):
            time.sleep(every)
            console.print(view())
    except KeyboardInterrupt:
        return
