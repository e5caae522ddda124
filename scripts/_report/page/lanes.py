# SPDX-License-Identifier: Apache-2.0
"""A lane per node over the rounds: what it did in each, as a mark that words explain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.protocol.numbers import Phase, Role
from scripts._report.amounts import zoo
from scripts._report.page.markup import listing, text
from scripts._report.story import NodeStory, RoundStory, Story

# By what a node did: its mark, its colour, what the legend says. Each has a mark of its own.
KINDS = {
    "paid": ("●", "c2", "revealed and paid"),
    "revealed": ("◐", "c1", "revealed, not paid"),
    "committed": ("○", "c1", "committed, never revealed"),
    "slashed": ("✖", "c4", "slashed for it"),
    "verified": ("✔", "c0", "verified: attested, reported or scored"),
    "proposed": ("◆", "c3", "merged and proposed the model"),
    "stood by": ("·", "c6", "had no duty"),
    "absent": ("–", "c6", "absent"),
    "suspended": ("⊘", "c6", "suspended or banned"),
}
_ROLES = ((Role.TRAINER, "trainer"), (Role.VERIFIER, "verifier"), (Role.AGGREGATOR, "aggregator"))


@dataclass(frozen=True)
class Cell:
    """What a node did at one place of its lane. `note`: a few characters under the mark."""

    kind: str
    words: str
    note: str = ""


def lanes(story: Story) -> list[str]:
    """Trainers, verifiers and aggregators by round."""
    rounds = [story.rounds[number] for number in sorted(story.rounds)]
    rows = []
    for role, _ in _ROLES:
        members = [node for node in story.nodes.values() if node.roles & role]
        for place, node in enumerate(sorted(members, key=lambda node: node.node_id)):
            cells = [_cell(story, node, role, round_) for round_ in rounds]
            rows.append((node.name, cells, place == 0))
    columns = [f"{round_.round_id}" for round_ in rounds]
    return grid("What each node did, by round", "round", columns, rows)


def grid(
    caption: str,
    what: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Cell], bool]],
) -> list[str]:
    """Lanes as a table. A row is a name, its cells, and whether a group begins with it."""
    heads = "".join(
        f"<th scope='col'><span class='unseen'>{text(what)} </span>{text(name)}</th>"
        for name in columns
    )
    lines = [
        f"<div class='wrap lanes' tabindex='0' role='region' aria-label='{text(caption)}'><table>",
        f"<caption class='unseen'>{text(caption)}</caption>",
        f"<thead><tr><th scope='col'>{text(what)}</th>{heads}</tr></thead><tbody>",
    ]
    for name, cells, first in rows:
        kind = " class='first'" if first else ""
        drawn = "".join(map(_draw, cells))
        lines.append(f"<tr{kind}><th scope='row'>{text(name)}</th>{drawn}</tr>")
    used = {cell.kind for _, cells, _ in rows for cell in cells}
    return [*lines, "</tbody></table></div>", _legend(used)]


def _draw(cell: Cell) -> str:
    mark, colour, _ = KINDS[cell.kind]
    note = f"<small aria-hidden='true'>{text(cell.note)}</small>" if cell.note else ""
    return (
        f"<td class='lane {colour}' title='{text(cell.words)}' data-kind='{cell.kind}'>"
        f"<span aria-hidden='true'>{mark}</span>{note}"
        f"<span class='unseen'>{text(cell.words)}</span></td>"
    )


def _legend(used: Iterable[str]) -> str:
    items = (
        f"<li><span class='{colour}' aria-hidden='true'>{mark}</span> {words}</li>"
        for kind, (mark, colour, words) in KINDS.items()
        if kind in used
    )
    return f"<ul class='legend' aria-label='Marks'>{''.join(items)}</ul>"


def _cell(story: Story, node: NodeStory, role: Role, round_: RoundStory) -> Cell:
    slashes = [
        slash
        for slash in story.slashes
        if slash.node_id == node.node_id and slash.round_id == round_.round_id
    ]
    if slashes:
        amount = zoo(sum(slash.amount for slash in slashes))
        names = listing([slash.violation.name for slash in slashes])
        return Cell("slashed", f"slashed {amount} ZOO: {names}", f"-{amount}")
    if role == Role.TRAINER:
        return _trainer(story, node, round_)
    return _verifier(story, node, round_) if role == Role.VERIFIER else _aggregator(node, round_)


def _trainer(story: Story, node: NodeStory, round_: RoundStory) -> Cell:
    number = node.node_id
    if number not in round_.nodes:
        out = any(
            slash.node_id == number
            and slash.time <= (round_.ended_at or story.now)
            and (slash.banned or slash.suspended_until > round_.opened_at)
            for slash in story.slashes
        )
        return Cell("suspended", "suspended") if out else Cell("absent", "not in this round")
    if paid := round_.paid.get(number, 0):
        return Cell("paid", f"revealed, paid {zoo(paid)} ZOO", zoo(paid))
    if number in round_.revealed:
        return Cell("revealed", "revealed, not paid")
    if number in round_.committed:
        return Cell("committed", "committed, never revealed")
    return Cell("absent", "was expected and did not commit")


def _verifier(story: Story, node: NodeStory, round_: RoundStory) -> Cell:
    number = node.node_id
    reported = sorted(
        accusation.node_id
        for accusation in story.accusations.values()
        if accusation.round_id == round_.round_id
        and any(voice.verifier == number for voice in accusation.voices)
    )
    did = ["attested"] if number in round_.attested else []
    did += [f"reported {story.label(other)}" for other in reported]
    did += ["scored"] if number in round_.records else []
    if did:
        return Cell("verified", listing(did), f"⚑{len(reported)}" if reported else "")
    if round_.phase == Phase.VOID:
        return Cell("stood by", "the round was void")
    return Cell("absent", "did not attest before the round was final")


def _aggregator(node: NodeStory, round_: RoundStory) -> Cell:
    if node.node_id in round_.proposers:
        return Cell("proposed", "merged and proposed the model")
    return Cell("stood by", "had no duty")
