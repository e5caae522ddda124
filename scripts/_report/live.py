# SPDX-License-Identifier: Apache-2.0
"""The live view of a running job in a terminal: round, phase, countdown, loss, nodes, events."""

from __future__ import annotations

from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.protocol.numbers import ZOO, Phase
from scripts._report.history import History
from scripts._report.story import losses

_LINES = 10
_TONES = {"plain": "", "good": "green", "bad": "bold red"}
_STATES = {"suspended": "red", "banned": "bold red", "slashed": "red", "revealed": "green"}
_ROLES = {1: "trainer", 2: "verifier", 4: "aggregator"}
_BARS = "▁▂▃▄▅▆▇█"


def render(history: History, rounds: int) -> Group:
    """The whole view. `rounds`: how many the job has."""
    return Group(_headline(history, rounds), _nodes(history), _events(history))


def sparkline(values: list[float]) -> str:
    """The values as one line of bars."""
    if not values:
        return ""
    halves = [value / 2 for value in values]  # the difference of two floats can overflow
    low, high = min(halves), max(halves)
    span = (high - low) or 1.0
    return "".join(_BARS[int((half - low) / span * (len(_BARS) - 1))] for half in halves)


def _headline(history: History, rounds: int) -> Panel:
    done = sum(r.phase == Phase.FINALIZED for r in history.rounds.values())
    grid = Table.grid(padding=(0, 2))
    current = history.rounds[max(history.rounds)] if history.rounds else None
    if current is None:
        phase = Text("waiting for the first round: benchmarks are being checked")
    else:
        left = max(0, current.deadline - history.now)
        over = current.phase in (Phase.FINALIZED, Phase.VOID)
        countdown = "" if over else f"  {left} s left at most"
        acted = {Phase.COMMIT: current.committed, Phase.REVEAL: current.revealed}
        share = acted.get(current.phase)
        of = "" if share is None else f"  {len(share)}/{len(current.nodes)}"
        phase = Text(f"round {current.round_id}  {current.phase.name}{of}{countdown}")
    curve = losses(history)
    loss = "loss -" if not curve else f"loss {curve[-1]:.4f}  {sparkline(curve)}"
    grid.add_row(
        ProgressBar(total=rounds, completed=done, width=24), f"{done}/{rounds}", phase, loss
    )
    return Panel(grid, title="Menagerie", border_style="cyan")


def _nodes(history: History) -> Table:
    table = Table(expand=True, box=None, header_style="bold")
    scored = any(node.standing for node in history.nodes.values())
    for column, right in (
        ("node", False),
        ("role", False),
        ("stake ZOO", True),
        ("state", False),
        ("last verdict", False),
        *([("standing", True)] if scored else []),
        ("earned ZOO", True),
    ):
        table.add_column(column, justify="right" if right else "left")
    for node in history.nodes.values():
        table.add_row(
            node.name,
            _ROLES.get(node.roles, str(node.roles)),
            f"{node.stake / ZOO:,.2f}",
            Text(node.state, style=_STATES.get(node.state, "")),
            Text(node.verdict or "-", style="red" if node.verdict else "dim"),
            *([node.standing or "-"] if scored else []),
            f"{node.earned / ZOO:,.2f}",
        )
    return table


def _events(history: History) -> Panel:
    lines = Text()
    for item in history.happenings[-_LINES:]:
        lines.append(f"{item.text}\n", style=_TONES[item.tone])
    return Panel(lines, title="as it happens", border_style="dim", height=_LINES + 2)
