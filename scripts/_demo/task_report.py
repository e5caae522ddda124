# SPDX-License-Identifier: Apache-2.0
"""The report of a run of redundant tasks: what ran, who was slashed for what, what deters and why.

Rule: the economics stand in three ways side by side: the article's table beside corrected bounds,
this network's own numbers, and, where they were recorded, figures from playing the contracts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from agents.protocol.numbers import ZOO, Violation
from agents.tasks.deterrence import Deterrence
from scripts._demo.task_plan import Order
from scripts._net.compiled import ROOT
from scripts._report.amounts import zoo
from scripts._report.economics_plot import write_plot
from scripts._report.page.chart import Curve, chart
from scripts._report.page.document import document
from scripts._report.page.lanes import Cell, grid
from scripts._report.page.markup import (
    amount,
    count,
    definitions,
    folded,
    listing,
    short,
    table,
    text,
)
from scripts._report.page.money import bar, slashed
from scripts._report.page.style import CURVES
from scripts._report.page.summary import PROVES_NOTHING, failure, opening
from scripts._report.page.tables import check_list, events, nodes
from scripts._report.page.tables import facts as fact_table
from scripts._report.task_history import TaskHistory, TaskStory
from scripts._report.verdict import Check
from scripts._shared.economics import article_rows
from scripts._shared.task_words import result_lines

RECORDED = ROOT / "docs" / "redundancy.json"
_KINDS = ("train_steps", "evaluate", "generate")
_FEW = 4  # slashes that a card shows without a click
_PROVES = (
    "It proves that the chain alone compared the results, paid those who agreed and slashed those "
    "who did not. Verifiers ran a task again only where somebody appealed or a draw said so."
)
_WHY = {
    Violation.ABORT: ("silent until the deadline had passed", "the deadline"),
    Violation.REDUNDANCY_MISMATCH: ("alone with its result", "the comparison"),
    Violation.COLLUSION: ("agreed on a result that verifiers found false", "verifiers"),
}
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
    page = directory / "index.html"
    learnt = [
        "<div class='charts'>",
        _losses(orders, payloads),
        _latency(history),
        _earnings(history),
        "</div>",
    ]
    page.write_text(
        document(
            "Menagerie: redundant tasks",
            opening(
                "Menagerie: strangers run deterministic tasks, the chain compares",
                _headline(history, checks),
                PROVES_NOTHING if failure(checks) else _PROVES,
                checks,
            ),
            [
                ("cheats", "Who cheated, and what came of it", _cheats(history)),
                ("lanes", "Who did what in each task", _lanes(history)),
                ("money", "Where the money went", _money(history)),
                ("curves", "What came of it", learnt),
                ("checks", "What must hold", [check_list(checks)]),
                ("tasks", "Tasks", [_tasks(history, orders, payloads)]),
                ("deterrence", "What it takes to deter", _deterrence(directory, verdict)),
                ("nodes", "Nodes", [nodes(history)]),
                ("figures", "Figures", [fact_table(facts)]),
                ("events", "Events", [events(history.happenings, history.began)]),
            ],
        ),
        encoding="utf-8",
    )
    return page


def _headline(history: TaskHistory, checks: Sequence[Check]) -> str:
    if failed := failure(checks):
        return failed
    guilty = {slash.node_id for slash in history.slashes}
    executors = {node for story in history.tasks.values() for node in story.drawn}
    wei = sum(slash.amount for slash in history.slashes)
    caught = f"{count(len(guilty), 'cheat')} caught and slashed {zoo(wei)} ZOO"
    return (
        f"{count(len(executors), 'executor')}, strangers to each other, ran "
        f"{count(len(history.tasks), 'task')}; {caught if guilty else 'nobody was slashed'}; all "
        f"{count(len(checks), 'check')} of results, slashes and money hold."
    )


# -- what happened -----------------------------------------------------------------------------


def _cheats(history: TaskHistory) -> list[str]:
    """One card for each node that was slashed."""
    guilty = sorted({slash.node_id for slash in history.slashes})
    if not guilty:
        return ["<p>Nobody was slashed.</p>"]
    return ["<div class='cards'>", *(_card(history, node) for node in guilty), "</div>"]


def _card(history: TaskHistory, node_id: int) -> str:
    node = history.nodes[node_id]
    did: dict[str, list[int]] = {}
    found: dict[str, list[int]] = {}
    for number, story in sorted(history.tasks.items()):
        for who, violation, _ in story.slashed:
            if who == node_id:
                did.setdefault(_WHY[violation][0], []).append(number)
                found.setdefault(_finder(story, violation), []).append(number)
    mine = [slash for slash in history.slashes if slash.node_id == node_id]
    proofs = [
        f"<li>{slash.violation.name} in block {slash.block} (transaction {short(slash.tx)})</li>"
        for slash in mine
    ]
    proof = ["<ul>", *proofs, "</ul>"]
    if len(mine) > _FEW:
        proof = [folded(count(len(mine), "slash", "es"), proof)]
    pairs = [
        ("What it did", _by_task(did)),
        ("Who caught it", _by_task(found)),
        ("The proof", "".join(proof)),
        (
            "What it cost",
            f"{amount(sum(slash.amount for slash in mine))} ZOO of its stake of "
            f"{zoo(node.stakes[0][1])}. It earned {amount(node.earned)} ZOO in all.",
        ),
    ]
    return (
        f"<article class='card'><h3>{text(node.name)} <span class='soft small'>node {node_id}"
        f"</span></h3>{definitions(pairs)}</article>"
    )


def _by_task(given: Mapping[str, Sequence[int]]) -> str:
    return _list(
        f"{words}: task{'s' if len(numbers) > 1 else ''} {listing(list(map(str, numbers)))}"
        for words, numbers in given.items()
    )


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(item)}</li>' for item in items)}</ul>"


def _finder(story: TaskStory, violation: Violation) -> str:
    if story.verdict is not None and violation != Violation.ABORT:
        return "verifiers, on appeal"
    return _WHY[violation][1]


def _lanes(history: TaskHistory) -> list[str]:
    """Executors by task."""
    numbers = sorted(history.tasks)
    drawn = {node for story in history.tasks.values() for node in story.drawn}
    rows = [
        (
            node.name,
            [_cell(history.tasks[number], node.node_id) for number in numbers],
            place == 0,
        )
        for place, node in enumerate(n for n in history.nodes.values() if n.node_id in drawn)
    ]
    return grid("What each executor did, by task", "task", list(map(str, numbers)), rows)


def _cell(story: TaskStory, node: int) -> Cell:
    slashes = [(violation, wei) for who, violation, wei in story.slashed if who == node]
    if slashes:
        wei = sum(wei for _, wei in slashes)
        names = ", ".join(violation.name for violation, _ in slashes)
        return Cell("slashed", f"slashed {zoo(wei)} ZOO: {names}", f"-{zoo(wei)}")
    if node not in story.drawn:
        return Cell("stood by", "not drawn")
    if story.unavailable:
        return Cell("revealed", "drawn; two agreed that the inputs can't be had")
    if story.stands is None:
        return Cell("revealed", "drawn; no two agreed")
    return Cell("paid", "drawn and not found wrong")


def _money(history: TaskHistory) -> list[str]:
    """Fees and slashed stakes."""
    fees = sum(story.fee for story in history.tasks.values())
    owners = {node.payout for node in history.nodes.values()}
    creators = {story.creator for story in history.tasks.values()}
    parts = {"executors, for results": 0, "back to who asked": 0, "to the treasury": 0}
    for account, wei in history.fee_credits.items():
        known = "executors, for results" if account in owners else "back to who asked"
        parts[known if account in owners | creators else "to the treasury"] += wei
    return [*bar("What was paid in fees", fees, list(parts.items())), *slashed(history)]


# -- plots -------------------------------------------------------------------------------------


def _latency(history: TaskHistory) -> str:
    curves = []
    for place, kind in enumerate(_KINDS):
        stories = [s for s in history.tasks.values() if s.kind == kind and s.settled_at]
        for more, name in ((False, kind), (True, f"{kind}, more than two executors")):
            points = [
                (float(s.created_at - history.began), float(s.latency))
                for s in stories
                if (len(s.drawn) > 2) == more
            ]
            curves.append(Curve(name, points, place + more * CURVES, joined=False))
    title = "From creation to agreement"
    return chart(title, curves, "created at, s", "seconds until two agreed")


def _losses(orders: Mapping[int, Order], payloads: Mapping[int, bytes]) -> str:
    curves: dict[int, dict[int, float]] = {}
    for task_id, payload in payloads.items():
        order = orders[task_id]
        if order.spec.kind == "evaluate" and b'"loss"' in payload:
            loss = float.fromhex(json.loads(payload)["loss"])
            curves.setdefault(order.line, {})[order.number] = loss
    drawn = [
        Curve(f"model {line + 1}", sorted(curve.items()), line)
        for line, curve in sorted(curves.items())
    ]
    title = "Loss on text held out, measured by tasks"
    return chart(title, drawn, "tasks of training", "nats per token")


def _earnings(history: TaskHistory) -> str:
    curves = []
    for place, node in enumerate(node for node in history.nodes.values() if node.payouts):
        points = [(0.0, 0.0)]
        points += [(float(time - history.began), wei / ZOO) for time, wei in node.payouts]
        curves.append(Curve(node.name, points, place, step=True))
    return chart("Credited by tasks and appeals", curves, "chain time, s", "ZOO so far")


# -- tables ------------------------------------------------------------------------------------


def _tasks(history: TaskHistory, orders: Mapping[int, Order], payloads: Mapping[int, bytes]) -> str:
    rows = []
    for number, story in sorted(history.tasks.items()):
        payload = payloads.get(number)
        lines = ["-"] if payload is None else result_lines(story.kind, payload)
        shown = (
            lines[-1] if story.kind == "generate" else lines[0].partition(" CID")[0].rstrip(",;")
        )
        cells = [
            str(number),
            orders[number].title,
            ", ".join(map(history.label, story.drawn)),
            story.state,
            str(story.latency),
            f"{story.gas:,}",
            shown,
        ]
        rows.append(list(map(text, cells)))
    columns = ["task", "what", "executors", "state", "seconds", "gas", "result"]
    return table(columns, rows, "Tasks", numbers=False)


def _deterrence(directory: Path, verdict: Deterrence) -> list[str]:
    """The bounds, this network's numbers and what was played."""
    bounds = (directory / "bounds.svg").read_text(encoding="utf-8")
    article = ["nodes", "honest", "fake", "chance", "article", "at once", "each", "two, then one"]
    return [
        "<figure class='card paper'><figcaption>What a fake must cost</figcaption>",
        "<div class='wrap' tabindex='0' role='img' aria-label='The penalty that deters, in fees, "
        "against the share of the nodes that is the attacker&#x27;s'>",
        bounds[bounds.index("<svg") :],
        "</div></figure>",
        "<h3>The article's table, and corrected bounds</h3>",
        f"<p>{text(_ARTICLE)}</p>",
        table(article, [list(map(text, row)) for row in article_rows()], "The article's rows"),
        "<h3>This network's numbers</h3>",
        _list(verdict.sentences()),
        _shares(verdict),
        *_played(),
    ]


def _shares(verdict: Deterrence) -> str:
    def figure(value: Fraction | None) -> str:
        return "-" if value is None else f"{float(value) / ZOO:,.3g}"

    rows = [
        [
            f"{float(row.share):.0%}",
            figure(row.fake.profit),
            figure(row.leave.profit),
            figure(row.pair),
            figure(row.honest),
        ]
        for row in verdict.rows
    ]
    columns = ["attacker's share", "always fakes", "fakes or leaves", "fakes own pairs", "honest"]
    columns = [f"{name}{', ZOO a task' if place else ''}" for place, name in enumerate(columns)]
    return table(columns, rows, "What an attacker gains, by its share of the nodes")


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
        f"<p>{text(_PLAYED)}</p>",
        table(columns, [list(map(text, row)) for row in rows], "Tasks played", numbers=False),
    ]


def _seen(figure: dict[str, Any]) -> str:
    low, high = figure["interval"]
    mark = "" if figure["inside"] else ", outside"
    return f"{figure['exact']:.3g}: {figure['seen']:.3g} ({low:.3g} to {high:.3g}{mark})"
