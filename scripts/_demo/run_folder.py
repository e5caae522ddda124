# SPDX-License-Identifier: Apache-2.0
"""Where a demo runs: a console, logs of its own, and no process left behind however it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from agents.training.documents import DataError
from agents.training.threads import one_thread
from scripts._net.compiled import ROOT
from scripts._net.deployment import DeploymentError
from scripts._net.processes import ProcessError, Supervisor, terminate_as_exit
from scripts._report.verdict import Check


def stage(logs: Path, play: Callable[[Supervisor, Console], int]) -> int:
    """Run `play` with its processes' logs in the folder `logs`, which is emptied first.

    What is computed in this process has one thread, since the agents' processes run beside it.
    Returns what `play` returns, 130 when it was stopped, 1 with a sentence when it failed.
    """
    console = Console()
    shutil.rmtree(logs, ignore_errors=True)
    try:
        with one_thread(), terminate_as_exit(), Supervisor(logs, ROOT) as supervisor:
            return play(supervisor, console)
    except (KeyboardInterrupt, SystemExit):
        console.print("stopped; no process is left behind")
        return 130
    except (ProcessError, DataError, DeploymentError) as error:
        console.print(f"[red]{error}[/red]")
        return 1


def check_gas(supervisor: Supervisor) -> Check:
    """Whether an agent's log says that a transaction of its had too little gas."""
    short = [process.name for process in supervisor if b"out of gas" in process.log.read_bytes()]
    return Check(
        not short,
        f"out of gas: {', '.join(short)}" if short else "no transaction ran out of gas",
    )
