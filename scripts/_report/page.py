# SPDX-License-Identifier: Apache-2.0
"""What all report pages are made of: one HTML file, readable without a network connection."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # the backend must be chosen first

from scripts._report.history import Happening
from scripts._report.verdict import Check

# Told apart by hue and lightness on white, the background of every plot in either colour scheme.
COLOURS = (
    "#0969da",
    "#1a7f37",
    "#8250df",
    "#57606a",
    "#bf8700",
    "#cf222e",
    "#bc4c00",
    "#e85aad",
    "#12a5b8",
    "#7d4e2d",
    "#a8b400",
    "#24292f",
)
_HOLDS = "Everything that must hold holds."
_FAILS = "Something does not hold: see below."
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .sub { color: #777; margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; } .good { color: var(--good); } .bad { color: var(--bad); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem; }
.plots div { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: .5rem; }
svg { width: 100%; height: auto; } code { word-break: break-all; }
ul { padding-left: 1.2rem; } .wrap { overflow-x: auto; }
"""


def head(title: str, heading: str, checks: Iterable[Check]) -> list[str]:
    """How a page begins: its title, and whether all that must hold holds."""
    good = all(check.holds for check in checks)
    return [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<meta name=viewport content='width=device-width'><title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{html.escape(heading)}</h1>",
        f"<p class='sub {'good' if good else 'bad'}'>{_HOLDS if good else _FAILS}</p>",
    ]


def plots(drawn: Iterable[str]) -> list[str]:
    """SVG texts side by side."""
    return ["<div class=plots>", *(f"<div>{plot}</div>" for plot in drawn), "</div>"]


def check_list(checks: Iterable[Check]) -> list[str]:
    """The checks, each with its mark."""
    return ["<ul>", *(_check(check) for check in checks), "</ul>"]


def _check(check: Check) -> str:
    mark = "good'>&#10003;" if check.holds else "bad'>&#10007;"
    return f"<li><span class='{mark}</span> {html.escape(check.sentence)}</li>"


def table(head: list[str], rows: list[list[str]], numbers: bool = True) -> str:
    """A table; `numbers`: all columns but the first are set flush right."""

    def cell(tag: str, index: int, text: str) -> str:
        kind = " class=n" if numbers and index else ""
        return f"<{tag}{kind}>{html.escape(text)}</{tag}>"

    lines = ["<div class=wrap><table>"]
    if any(head):
        lines.append("<tr>" + "".join(cell("th", i, text) for i, text in enumerate(head)) + "</tr>")
    for row in rows:
        lines.append("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>")
    return "\n".join([*lines, "</table></div>"])


def svg(figure: Any, axis: Any, legend: bool = False) -> str:
    """The figure as SVG text; it is closed."""
    axis.grid(alpha=0.25)
    if legend and axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, ncols=2)
    buffer = io.StringIO()
    figure.tight_layout()
    figure.savefig(buffer, format="svg")
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def event_list(happenings: Iterable[Happening], start: int) -> list[str]:
    """One line per happening; `start`: chain time that counts as 0."""
    kinds = {"plain": "", "good": " class=good", "bad": " class=bad"}
    lines = (
        f"<li{kinds[item.tone]}>{item.time - start} s: {html.escape(item.text)}</li>"
        for item in happenings
    )
    return ["<ul>", *lines, "</ul>"]
