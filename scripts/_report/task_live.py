# SPDX-License-Identifier: Apache-2.0
"""The live view of redundant tasks in a terminal: how many, which run, who is slashed, events."""

from __future__ import annotations

from collections import Counter

from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.protocol.numbers import ZOO
from scripts._report.task_history import TaskHistory

_LINES = 10
_RUNNING = 8
_TONES = {"plain": "", "good": "green", "bad": "bold red"}
_EXECUTOR = 1


def render(history: TaskHistory, tasks: int) -> Group:
    """The whole view. `tasks`: how many are wanted."""
    return Group(_headline(history, tasks), _tasks(history), _nodes(history), _events(history))


def _headline(history: TaskHistory, tasks: int) -> Panel:
    done = sum(bool(story.settled_at) for story in history.tasks.values())
    states = Counter(story.state for story in history.tasks.values())
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        ProgressBar(total=max(tasks, done), completed=done, width=24),
        f"{done}/{tasks}",
        ", ".join(f"{count} {state}" for state, count in sorted(states.items())),
    )
    return Panel(grid, title="Menagerie: redundant tasks", border_style="cyan")


def _tasks(history: TaskHistory) -> Table:
    table = Table("task", "kind", "state", "executors", expand=True, box=None, header_style="bold")
    running = [story for story in history.tasks.values() if not story.settled_at]
    for story in running[-_RUNNING:]:
        who = ", ".join(map(history.label, story.drawn))
        table.add_row(str(story.task_id), story.kind, story.state, who or "-")
    return table


def _nodes(history: TaskHistory) -> Table:
    table = Table("node", "stake ZOO", "state", "slashed for", "earned ZOO", expand=True, box=None)
    for node in history.nodes.values():
        if node.roles == _EXECUTOR:
            table.add_row(
                node.name,
                f"{node.stake / ZOO:,.2f}",
                node.state,
                Text(node.verdict or "-", style="red" if node.verdict else "dim"),
                f"{node.earned / ZOO:,.2f}",
            )
    return table


def _events(history: TaskHistory) -> Panel:
    lines = Text()
    for item in history.happenings[-_LINES:]:
        lines.append(f"{item.text}\n", style=_TONES[item.tone])
    return Panel(lines, title="as it happens", border_style="dim", height=_LINES + 2)
