# SPDX-License-Identifier: Apache-2.0
"""Lines of the tables that `make bench` and the studies print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table


@dataclass(frozen=True)
class Row:
    """A figure, what it is, what it should be, and a peer's. `met` is None without a goal."""

    figure: str
    measured: str
    goal: str = ""
    met: bool | None = None
    peer: str = ""


def gas_row(figure: str, gas: int, goal: int | None = None, peer: str = "") -> Row:
    """A gas figure; `goal` is an upper bound."""
    if goal is None:
        return Row(figure, f"{gas:,} gas", peer=peer)
    return Row(figure, f"{gas:,} gas", f"<= {goal:,}", gas <= goal, peer)


END = "<!-- end -->"


def put_between(page: Path, begin: str, text: str) -> None:
    """Write text between a mark of a page and the next `END`; nothing where the mark is missing."""
    head, mark, rest = page.read_text().partition(begin)
    if mark:
        page.write_text(f"{head}{begin}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


def text_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]] = (), left: int = 1
) -> Table:
    """The first `left` columns are words, the others figures."""
    table = Table(title=title)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*row)
    return table
