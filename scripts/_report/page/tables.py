# SPDX-License-Identifier: Apache-2.0
"""The tables and lists that every page ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.protocol.numbers import Phase
from scripts._report.page.markup import amount, definitions, folded, table, text
from scripts._report.story import Happening, NodeStory, Story
from scripts._report.verdict import Check


def check_list(checks: Iterable[Check]) -> str:
    """What must hold, each with its mark; the exact amounts of a check are behind a click."""
    return f"<ul class='plain'>{''.join(map(_check, checks))}</ul>"


def _check(check: Check) -> str:
    kind, mark, words = ("good", "✓", "holds") if check.holds else ("bad", "✗", "FAILS")
    exact = ""
    if check.exact:
        exact = (
            " <details class='exact small soft'><summary>in wei</summary>"
            f"<code>{text(check.exact)}</code></details>"
        )
    return (
        f"<li><span class='{kind}'><span aria-hidden='true'>{mark}</span>"
        f"<span class='unseen'>{words}:</span></span> {text(check.sentence)}{exact}</li>"
    )


def facts(given: Mapping[str, str]) -> str:
    """Figures by name; nothing of none."""
    return definitions((name, text(value)) for name, value in given.items())


def nodes(story: Story) -> str:
    """Everybody's stake, state and earnings."""
    scored = any(node.standing for node in story.nodes.values())

    def row(node: NodeStory) -> list[str]:
        return [
            text(node.name),
            amount(node.stakes[0][1]),
            amount(node.stake),
            text(node.state),
            text(node.verdict or "-"),
            *([text(node.standing or "-")] if scored else []),
            amount(node.earned),
        ]

    head = ["node", "stake at first, ZOO", "stake now", "state", "last verdict"]
    head += [*(["standing"] if scored else []), "earned, ZOO"]
    return table(head, [row(node) for node in story.nodes.values()], "Nodes")


def rounds(story: Story) -> str:
    """How each round went."""
    rows = []
    for round_ in story.rounds.values():
        rows.append(
            [
                str(round_.round_id),
                Phase(round_.phase).name,
                str(len(round_.nodes)),
                str(len(round_.committed)),
                str(len(round_.revealed)),
                f"{round_.report.val_loss:.4f}" if round_.report else "-",
                str(round_.ended_at - round_.opened_at) if round_.ended_at else "-",
            ]
        )
    head = ["round", "phase", "expected", "committed", "revealed", "loss", "seconds"]
    return table(head, rows, "Rounds")


def events(happenings: Iterable[Happening], start: int) -> str:
    """One line each, folded; `start`: chain time that counts as 0."""
    kinds = {"plain": "", "good": " class='good'", "bad": " class='bad'"}
    lines = [
        f"<li{kinds[item.tone]}>{item.time - start} s: {text(item.text)}</li>"
        for item in happenings
    ]
    return folded(f"Events: {len(lines)}", ["<ul>", *lines, "</ul>"])
