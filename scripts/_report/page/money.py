# SPDX-License-Identifier: Apache-2.0
"""Where the money went: bars whose parts add up, each with its table."""

from __future__ import annotations

from collections.abc import Sequence

from agents.protocol.numbers import Role
from scripts._report.page.markup import amount, table, text
from scripts._report.run import Run
from scripts._report.story import Story
from scripts._report.verdict import Books

Parts = Sequence[tuple[str, int]]


def money(run: Run) -> list[str]:
    """Escrow, rewards and slashed stake; what the chain's books say is needed for the first two."""
    story, found = run.story, []
    if run.books is not None:
        found += bar("What the sponsor paid in", story.funded, _escrow(story, run.books))
        earned = sum(credit.amount for credit in story.credits) + story.unclaimed
        claimed = sum(story.claimed.values())
        parts = [("claimed by owners", claimed), ("waiting to be claimed", run.books.pending)]
        found += bar("What was credited", earned, parts)
        if lost := sum(forfeit.amount for forfeit in story.forfeits):
            found.append(
                f"<div>{amount(lost)} ZOO are shares that convicted nodes did not get; they were "
                "carried to the job's next rounds, or went to the treasury after the last.</div>"
            )
    return found + slashed(story)


def slashed(story: Story) -> list[str]:
    """What nodes lost of their stakes, and who got it; nothing if none did."""
    if not story.slashes:
        return []
    parts = [
        ("bounties of those who found it", sum(s.reporter_share for s in story.slashes)),
        ("to the treasury", sum(s.treasury_share for s in story.slashes)),
    ]
    return bar("What was slashed", sum(s.amount for s in story.slashes), parts)


def _escrow(story: Story, books: Books) -> Parts:
    by_role = {"work": 0, "verifiers": 0, "aggregators": 0}
    for credit in story.credits:
        verifies = story.nodes[credit.node_id].roles & Role.VERIFIER
        cut = "verifiers" if verifies else "aggregators"
        by_role["work" if credit.what == "work" else cut] += credit.amount
    return [
        ("trainers, for work", by_role["work"]),
        ("verifiers, for checking", by_role["verifiers"]),
        ("aggregators, for merging", by_role["aggregators"]),
        ("the treasury, for work that counts for nobody and shares lost", story.unclaimed),
        ("back to the sponsor", story.refunded),
        ("held until a report ends", books.held),
        ("left in escrow, or carried to a next round", books.escrow + books.reserved),
    ]


def bar(title: str, whole: int, parts: Parts) -> list[str]:
    """One amount and its parts, with a word on whether they add up."""
    present = [(place, name, part) for place, (name, part) in enumerate(parts) if part]
    told = ", ".join(f"{name} {_percent(part, whole)}" for _, name, part in present)
    stripes = "".join(
        f"<span class='c{place}' style='flex:{part / (whole or 1):.6f}'></span>"
        for place, _, part in present
    )
    rows = [
        [
            f"<span class='swatch c{place}' aria-hidden='true'></span>{text(name)}",
            amount(part),
            _percent(part, whole),
        ]
        for place, name, part in present
    ]
    gap = whole - sum(part for _, part in parts)
    if gap:
        balance = f"<p class='bad'>The parts differ from the whole by {gap} wei.</p>"
    else:
        balance = "<p class='good small'>✓ The parts add up to the whole, to the last unit.</p>"
    return [
        f"<h3>{text(title)}</h3>",
        f"<div>{amount(whole)} ZOO</div>",
        f"<div class='flow' role='img' aria-label='{text(f'{title}: {told}')}'>{stripes}</div>",
        table(["where", "ZOO", "share"], rows, title),
        balance,
    ]


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
