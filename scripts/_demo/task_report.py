# SPDX-License-Identifier: Apache-2.0
"""The report of a run of redundant tasks: what ran, who was slashed for what, what deters and why.

Rule: the economics stand in three ways side by side: the article's table beside corrected bounds,
this network's own numbers, and, where they were recorded, figures from playing the contracts.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from agents.protocol.numbers import ZOO
from agents.tasks.deterrence import Deterrence
from scripts._demo.task_plan import Order
from scripts._net.compiled import ROOT
from scripts._report.economics_plot import write_plot
from scripts._report.page import check_list, event_list, head, plots, svg, table
from scripts._report.task_history import TaskHistory
from scripts._report.verdict import Check
from scripts._shared.economics import article_rows
from scripts._shared.task_words import result_lines

RECORDED = ROOT / "docs" / "redundancy.json"
_KINDS = {"train_steps": "#0969da", "evaluate": "#1a7f37", "generate": "#8250df"}
_ARTICLE = (
    "The article's eight rows, in dollars at $0.1 a task; its own stake is charged even when no "
    "node of the cheat was drawn. Corrected: k (p2 + p3) / p1 for three nodes at once, where the "
    "winning fakes bring k in all, and where they bring k each. Two, then one is what "
    "RedundantTasks runs: 3/2 of the corrected bound, because a lone cheat who would have been "
    "third is never drawn."
)
_PLAYED = (
    "Tasks played at random on the real contracts (docs/redundancy.json, made by "
    "`python -m tests.measure.studies.task_deterrence`): the exact figure, what was seen, and its "
    "95 % interval."
)


def write_report(
    directory: Path,
    history: TaskHistory,
    orders: Mapping[int, Order],
    payloads: Mapping[int, bytes],
    checks: Sequence[Check],
    facts: Mapping[str, str],
    verdict: Deterrence,
) -> Path:
    """Write index.html and the plot of the bounds into `directory`; returns the page's path.

    `payloads`: what came out, by task; `verdict`: what this network's numbers deter.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_plot(directory / "bounds.svg", verdict)
    bounds = (directory / "bounds.svg").read_text(encoding="utf-8")
    drawn = [
        _latency(history),
        _losses(orders, payloads),
        _earnings(history),
        bounds[bounds.index("<svg") :],
    ]
    parts = [
        *head("Menagerie: redundant tasks", "Redundant tasks", checks),
        *plots(drawn),
        "<h2>What must hold</h2>",
        *check_list(checks),
        "<h2>Figures</h2>",
        table(["", ""], [[key, value] for key, value in facts.items()], numbers=False),
        "<h2>Tasks</h2>",
        _tasks(history, orders, payloads),
        "<h2>Who was slashed, and why</h2>",
        _slashes(history),
        "<h2>What it takes to deter</h2><h3>The article's table, and corrected bounds</h3>",
        f"<p>{html.escape(_ARTICLE)}</p>",
        table(
            ["nodes", "honest", "fake", "chance", "article", "at once", "each", "two, then one"],
            [list(row) for row in article_rows()],
        ),
        "<h3>This network's numbers</h3><ul>",
        *(f"<li>{html.escape(sentence)}</li>" for sentence in verdict.sentences()),
        "</ul>",
        _shares(verdict),
        *_played(),
        "<h2>Nodes</h2>",
        _nodes(history),
        "<h2>Events</h2>",
        *event_list(history.happenings, history.began),
        "</html>",
    ]
    page = directory / "index.html"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


# -- plots -------------------------------------------------------------------------------------


def _latency(history: TaskHistory) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for kind, colour in _KINDS.items():
        stories = [s for s in history.tasks.values() if s.kind == kind and s.settled_at]
        for marker, plain in (("o", True), ("X", False)):
            chosen = [s for s in stories if _is_plain(s.drawn) == plain]
            axis.plot(
                [s.created_at - history.began for s in chosen],
                [s.latency for s in chosen],
                marker,
                color=colour,
                label=kind if plain else None,
            )
    axis.plot([], [], "X", color="#57606a", label="more than two executors")
    axis.set(title="From creation to agreement", xlabel="created at, s", ylabel="s")
    axis.set_ylim(bottom=0)
    return svg(figure, axis, legend=True)


def _losses(orders: Mapping[int, Order], payloads: Mapping[int, bytes]) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    curves: dict[int, dict[int, float]] = {}
    for task_id, payload in payloads.items():
        order = orders[task_id]
        if order.spec.kind == "evaluate" and b'"loss"' in payload:
            loss = float.fromhex(json.loads(payload)["loss"])
            curves.setdefault(order.line, {})[order.number] = loss
    for line, curve in sorted(curves.items()):
        axis.plot(*zip(*sorted(curve.items()), strict=True), marker="o", label=f"model {line + 1}")
    axis.set(
        title="Loss on text held out, measured by tasks",
        xlabel="tasks of training",
        ylabel="nats per token",
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return svg(figure, axis, legend=True)


def _earnings(history: TaskHistory) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for node in history.nodes.values():
        if node.payouts:
            times = [0, *(time - history.began for time, _ in node.payouts)]
            amounts = [0.0, *(amount / ZOO for _, amount in node.payouts)]
            axis.step(times, amounts, where="post", label=node.name)
    axis.set(title="Credited by tasks and appeals", xlabel="chain time, s", ylabel="ZOO")
    return svg(figure, axis, legend=True)


# -- tables ------------------------------------------------------------------------------------


def _is_plain(drawn: Sequence[int]) -> bool:
    return len(drawn) <= 2


def _tasks(history: TaskHistory, orders: Mapping[int, Order], payloads: Mapping[int, bytes]) -> str:
    rows = []
    for number, story in sorted(history.tasks.items()):
        payload = payloads.get(number)
        lines = ["-"] if payload is None else result_lines(story.kind, payload)
        shown = (
            lines[-1] if story.kind == "generate" else lines[0].partition(" CID")[0].rstrip(",;")
        )
        rows.append(
            [
                str(number),
                orders[number].title,
                ", ".join(map(history.label, story.drawn)),
                story.state,
                str(story.latency),
                f"{story.gas:,}",
                shown,
            ]
        )
    columns = ["task", "what", "executors", "state", "seconds", "gas", "result"]
    return table(columns, rows, numbers=False)


def _slashes(history: TaskHistory) -> str:
    rows = []
    for number, story in sorted(history.tasks.items()):
        for node, violation, amount in story.slashed:
            why = {
                "ABORT": "silent until the deadline had passed",
                "REDUNDANCY_MISMATCH": "alone with its result",
                "COLLUSION": "agreed on a result that verifiers found false",
            }[violation.name]
            by = "verifiers, on appeal" if story.verdict is not None else "the comparison"
            by = "the deadline" if violation.name == "ABORT" else by
            label = history.label(node)
            rows.append([label, violation.name, f"{amount / ZOO:,.4f}", str(number), why, by])
    columns = ["node", "row of the table", "ZOO", "task", "why", "found by"]
    return table(columns, rows, numbers=False)


def _shares(verdict: Deterrence) -> str:
    def amount(value: Fraction | None) -> str:
        return "-" if value is None else f"{float(value) / ZOO:,.3g}"

    rows = [
        [
            f"{float(row.share):.0%}",
            amount(row.fake.profit),
            amount(row.leave.profit),
            amount(row.pair),
            amount(row.honest),
        ]
        for row in verdict.rows
    ]
    columns = ["attacker's share", "always fakes", "fakes or leaves", "fakes own pairs", "honest"]
    return table([f"{name}{', ZOO a task' if i else ''}" for i, name in enumerate(columns)], rows)


def _played() -> list[str]:
    """The recorded figures of playing the contracts; nothing if there are none."""
    if not RECORDED.is_file():
        return []
    rows = []
    for row in json.loads(RECORDED.read_text(encoding="utf-8"))["rows"]:
        scenario = row["scenario"]
        strategy = scenario["strategy"]
        if Fraction(scenario["rate"]):
            strategy = f"{strategy}, {float(Fraction(scenario['rate'])):.0%} audited"
        rows.append(
            [
                f"{strategy}, {scenario['dishonest']} of {scenario['nodes']} nodes",
                f"{scenario['fee'] / ZOO:.3g}",
                f"{row['tasks']:,}",
                *(_seen(row[name]) for name in ("success", "profit", "honest")),
            ]
        )
    columns = ["strategy", "fee", "tasks", "fake stands", "cheat, ZOO a task", "honest, ZOO a task"]
    return [
        "<h3>Played on the contracts</h3>",
        f"<p>{html.escape(_PLAYED)}</p>",
        table(columns, rows, numbers=False),
    ]


def _seen(figure: dict[str, Any]) -> str:
    low, high = figure["interval"]
    mark = "" if figure["inside"] else ", outside"
    return f"{figure['exact']:.3g}: {figure['seen']:.3g} ({low:.3g} to {high:.3g}{mark})"


def _nodes(history: TaskHistory) -> str:
    rows = [
        [
            node.name,
            f"{node.stakes[0][1] / ZOO:,.2f}",
            f"{node.stake / ZOO:,.2f}",
            node.state,
            node.verdict or "-",
            str(sum(node.node_id in story.drawn for story in history.tasks.values())),
            f"{node.earned / ZOO:,.4f}",
        ]
        for node in history.nodes.values()
    ]
    columns = ["node", "stake at first", "stake now", "state", "slashed for", "drawn", "earned ZOO"]
    return table(columns, rows)
