# SPDX-License-Identifier: Apache-2.0
"""Attacks and outcomes as a table, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.honest import HonestWork
from scripts._attacks.known import BEYOND, KNOWN
from scripts._attacks.market import Numbers

Found = Sequence[tuple[Attack, Outcome]]
HONEST_HEADS = ("honest work", "pay", "computing", "left")
HEADS = ("attack", "capital", "profit", "others lose", "how it ends")


def amount(units: Fraction | int) -> str:
    """ZOO with as many digits as help: 1,000, -42.9, 0.01, 0."""
    value = float(units) / ZOO
    if abs(value) < 5e-4:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def rows(found: Found) -> Iterable[tuple[str, ...]]:
    """Cells in the order of HEADS."""
    for attack, one in found:
        money = (amount(one.capital), amount(one.profit), amount(one.loss))
        why = KNOWN.get(attack.full_name, one.note)
        pays = "PAYS, with half of the weight" if attack.full_name in BEYOND else "PAYS"
        yield (attack.name, *money, f"{pays}: {why}" if one.pays else one.note)


def said(numbers: Numbers, scored: Numbers | None = None) -> str:
    """The numbers that the attacks were played at, in a sentence. `scored`: those of the families
    of a job that verifiers' scores pay, if they differ."""
    terms = numbers.terms
    cut = f"the verifiers have {_percent(terms)}"
    if scored is not None and scored.terms.verifier_bps != terms.verifier_bps:
        cut += f", and {_percent(scored.terms)} where their scores pay it (gauntlet, consensus)"
    return (
        f"{numbers.nodes} trainers with {amount(numbers.stake)} ZOO each, {numbers.verifiers} "
        f"verifiers with {amount(numbers.verifier_stake)}, {numbers.aggregators} aggregators with "
        f"{amount(numbers.aggregator_stake)}; a round pays {amount(terms.reward_per_round)}, of "
        f"which {cut}; {terms.retain_rounds} rounds' pay is retained, and computing costs "
        f"{numbers.compute:.0%} of it; the attacker has {numbers.evil_nodes} trainers and "
        f"{numbers.evil_verifiers} verifiers."
    )


def _percent(terms: Terms) -> str:
    return f"{terms.verifier_bps / 100:g} %"


def verdict(found: Found) -> str:
    """How many pay, in a sentence; in another one those that take more than the attacker's share
    of the stake."""
    within = [(attack, one) for attack, one in found if attack.full_name not in BEYOND]
    beyond = [(attack, one) for attack, one in found if attack.full_name in BEYOND]
    told = [_how_many(within, "attacks")] if within else []
    if beyond:
        told.append("With half of the verifiers' weight: " + _how_many(beyond, "more"))
    return " ".join(told)


def _how_many(found: Found, what: str) -> str:
    played = [(attack, one) for attack, one in found if one.played]
    paying = [attack.full_name for attack, one in played if one.pays]
    told = f"{len(paying)} of {len(played)} {what} pay: {'; '.join(paying)}."
    if not paying:
        told = f"None of {len(played)} {what} pays."
    rest = len(found) - len(played)
    return f"{told} {rest} can't be played on such a job." if rest else told


def honest_cells(rows: Iterable[HonestWork]) -> Iterable[tuple[str, ...]]:
    """Who works, pay, cost of computing, and what is left."""
    for row in rows:
        yield row.name, amount(row.pay), amount(row.compute), amount(row.profit)


def honest_table(rows: Iterable[HonestWork]) -> Any:
    """Honest work, for a terminal."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, head in enumerate(HONEST_HEADS):
        table.add_column(head, justify="right" if place else "left", no_wrap=bool(place))
    for cells in honest_cells(rows):
        table.add_row(*cells, style="red" if cells[3].startswith("-") else "")
    return table


def printed(found: Found) -> Any:
    """A table for a terminal, with a section for each family."""
    from rich.table import Table

    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        caption="ZOO for one round or task, on average. Profit and loss are against a round in "
        "which the attacker's cheating nodes stay away and its others do their duty.",
    )
    table.add_column(HEADS[0])
    for head in HEADS[1:4]:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(HEADS[4])
    family = ""
    for (attack, one), cells in zip(found, rows(found), strict=True):
        if attack.family != family:
            family = attack.family
            table.add_row(f"[bold]{family}[/bold]", end_section=False)
        table.add_row(*cells, style="red" if one.pays else "")
    return table


def page(found: Found, honest: Iterable[HonestWork] = ()) -> str:
    """The same in Markdown, honest work first."""
    lines: list[str] = []
    if working := list(honest_cells(honest)):
        lines += ["## Honest work", "", "| " + " | ".join(HONEST_HEADS) + " |", "|---|--:|--:|--:|"]
        lines += ["| " + " | ".join(cells) + " |" for cells in working]
    family = ""
    for (attack, _), cells in zip(found, rows(found), strict=True):
        if attack.family != family:
            family = attack.family
            lines += ["", f"## {family.capitalize()}", "", "| " + " | ".join(HEADS) + " |"]
            lines.append("|---|--:|--:|--:|---|")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines).strip() + "\n"
