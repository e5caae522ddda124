# SPDX-License-Identifier: Apache-2.0
"""The page beside the drawings: what each figure measures, assumes and shows."""

from __future__ import annotations

from collections.abc import Sequence

from scripts._figures.figure import Cell, Figure
from scripts._report.page.document import document
from scripts._report.page.markup import definitions, folded, table, text

_FOLDED = 60  # rows; more are in the file only


def page(title: str, source: str, figures: Sequence[tuple[Figure, str]]) -> str:
    """The page as HTML. It stands in the folder of the figures' files.

    Args:
        source: a sentence about where the figures come from.
        figures: each with the command that makes it again.
    """
    opening = [f"<header><h1>{text(title)}</h1><p class='soft'>{text(source)}</p></header>"]
    sections = [
        (f"figure-{figure.name}", f"Figure {figure.name}", _body(figure, command))
        for figure, command in figures
    ]
    return document(title, opening, sections)


def _body(figure: Figure, command: str) -> list[str]:
    files = (
        f"<a href='{text(figure.drawing)}'>{text(figure.drawing)}</a>, "
        f"<a href='{text(figure.numbers)}'>{text(figure.numbers)}</a>"
    )
    said = [
        ("What came out", text(figure.found)),
        ("Measured", text(figure.measured)),
        ("The formula", text(figure.formula)),
        ("Assumed", text(figure.assumed)),
        ("Seeds", text(figure.seeds)),
        ("Command", f"<code>{text(command)}</code>"),
        ("Files", files),
    ]
    image = (
        f"<figure class='card'><img src='{text(figure.drawing)}' "
        f"alt='{text(f'{figure.title}. {figure.found}')}' style='max-width:100%;background:#fff'>"
        "</figure>"
    )
    lines = [image, definitions(said)]
    if len(figure.rows) <= _FOLDED:
        rows = [[text(_shown(cell)) for cell in row] for row in figure.rows]
        lines.append(folded("The numbers", [table(figure.columns, rows, figure.title)]))
    return lines


def _shown(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
