# SPDX-License-Identifier: Apache-2.0
"""What a cheat at redundant tasks stands to lose: a network's numbers, and tables of them.

The command `ape run economics` prints it, and the demo of redundant tasks reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scripts._shared.operator import ZOO, deployment_path

if TYPE_CHECKING:
    from agents.tasks.contract import Recheckers
    from agents.tasks.deterrence import Deterrence, Parameters

# The article's table: price of a task in dollars, and honest and dishonest nodes by row.
PRICE = Fraction(1, 10)
ROWS = (
    (10, 90),
    (100, 900),
    (1_000, 9_000),
    (10_000, 90_000),
    (1, 99),
    (10, 990),
    (100, 9_900),
    (1_000, 99_000),
)
DIGITS = 10  # that the article prints of each number


def read(rpc: str, deployment: Path | None, class_id: int) -> dict[str, Any]:
    """Return a network's numbers for one class. `verifiers` are those who can find a fake in it.

    Raises click.ClickException where it has no such pool.
    """
    from agents.protocol.network import Network
    from agents.runtime.chain import ChainClient
    from agents.runtime.contracts import load_deployment
    from agents.runtime.logs import open_log
    from agents.tasks.contract import Tasks

    chain = ChainClient(rpc, open_log("economics", "error", True, None))
    chain_id = chain.chain_id()
    contracts = load_deployment(deployment_path(deployment, chain_id), chain_id)
    chain.check(contracts)
    tasks = contracts["RedundantTasks"]
    classes = chain.call(tasks, "classes")
    if class_id >= len(classes):
        raise click.ClickException(
            f"There is no determinism class {class_id}; there are {len(classes)}."
        )
    network = Network(chain, contracts)
    reader = Tasks(network)
    terms, recheckers = reader.terms(), reader.recheckers()
    labels = {number: label for label, number in reader.class_ids().items()}
    seats = chain.call(tasks, "pool_size", class_id)
    held = [
        chain.call(tasks, "seat", class_id, place)[3] == 0  # the block at which it was left
        for place in range(seats)
    ]
    return {
        "stake": terms.task_stake,
        "fee": terms.max_fee,
        "nodes": sum(held),
        "verifiers": recheckers[class_id].count,
        "recheckers": {labels.get(n, f"class {n}"): who for n, who in enumerate(recheckers)},
        "table": network.penalties(),
    }


def declared(label: str, who: Recheckers) -> str:
    """Say how many verifiers have declared a class, and with which weight; no full stop."""
    share = Fraction(who.weight, who.total) if who.total else Fraction(0)
    return (
        f"{label}: {len(who.able)} of {who.voters} verifiers say that they run it; they hold "
        f"{float(share):.0%} of the voters' weight"
    )


def watched(label: str, who: Recheckers) -> str:
    """Say whether a fake in a task of a class can be found out, and by how many."""
    said = declared(label, who)
    if who.can_judge:
        return f"{said}."
    return (
        f"{said}. A verdict takes two owners with two thirds, so nobody loses anything for a fake "
        "in this class that two executors agree on."
    )


def refuse_unwatched(label: str, who: Recheckers) -> None:
    """Raise click.ClickException for a task that two friends could fake at no risk."""
    if not who.can_judge:
        raise click.ClickException(
            f"{watched(label, who)} Verifiers declare their class when their agents run "
            "(`ape run agent verifier`)."
        )


def parameters(
    live: dict[str, Any], given: dict[str, int | None], audit_rate: float | None
) -> Parameters:
    """Return what the verdict is about: what was given, else what was read, else the defaults.

    A fake is found out if at least one verifier has it in its sample. Raises click.UsageError for
    numbers that no network can have.
    """
    from agents.protocol.numbers import MAX_OPEN, Violation
    from agents.protocol.slashing import DEFAULTS
    from agents.runtime.config import VerifierSettings
    from agents.tasks.deterrence import Parameters
    from scripts._net.deployment import TaskTerms

    terms = TaskTerms()
    chosen: dict[str, Any] = {"stake": terms.task_stake, "fee": terms.max_fee, "nodes": None}
    chosen |= {"verifiers": 1} | live
    chosen |= {key: value for key, value in given.items() if value is not None}
    if audit_rate is None:
        audit_rate = VerifierSettings().task_audit_rate
    missed = (1 - Fraction(str(audit_rate))) ** chosen["verifiers"]
    table = chosen.get("table", DEFAULTS)
    try:
        return Parameters(
            stake=chosen["stake"],
            fee=chosen["fee"],
            compute=chosen.get("compute", chosen["fee"] // 2),
            mismatch_bps=table[Violation.REDUNDANCY_MISMATCH].bps,
            abort_bps=table[Violation.ABORT].bps,
            collusion_bps=table[Violation.COLLUSION].bps,
            audit_rate=(1 - missed).limit_denominator(10**9),
            reporter_bps=table[Violation.COLLUSION].reporter_bps,
            nodes=chosen["nodes"],
            open_lanes=MAX_OPEN,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


# -- tables ------------------------------------------------------------------------------------


def printed(number: Fraction | None, digits: int = DIGITS) -> str:
    """Return a number as the article prints it: `digits` digits in all, no zeros at the end."""
    if number is None:
        return "-"
    places = max(0, digits - len(str(int(number))))
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    text = f"{exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def article_rows() -> Iterator[tuple[str, ...]]:
    """Yield the table's rows: nodes, honest, dishonest, chance, and the stake by each bound."""
    from agents.tasks.economics import (
        article_stake,
        corrected_penalty,
        corrected_penalty_each,
        drawn,
        penalty_needed,
    )

    for honest, dishonest in ROWS:
        draw = drawn(dishonest, honest)
        yield (
            str(honest + dishonest),
            str(honest),
            str(dishonest),
            printed(draw.wins),
            printed(article_stake(draw, PRICE)),
            printed(corrected_penalty(draw, PRICE), 6),
            printed(corrected_penalty_each(draw, PRICE), 6),
            printed(penalty_needed(draw, PRICE), 6),
        )


def article_table() -> Any:
    """Return the article's table, beside what its stakes should have been."""
    from rich.console import Group
    from rich.table import Table

    from agents.tasks.economics import article_threshold, corrected_threshold, threshold

    table = Table(
        title="Stake that deters, in $, at $0.1 a task",
        box=None,
        padding=(0, 2, 0, 0),  # eight columns in 80 characters
        pad_edge=False,
    )
    for head in ("nodes", "honest", "fake", "chance", "article", "at once", "each", "2, then 1"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in article_rows():
        table.add_row(*row)
    return Group(
        table,
        "The article charges the stake even if no node of the cheat was drawn. At once: corrected, "
        "k (p2 + p3) / p1, where the winning fakes bring k in all; each: k for each of them. "
        "2, then 1 is what RedundantTasks runs: one lone cheat in three would have been the third, "
        "who is never drawn because the first two agree. So it needs 3/2 of the corrected.",
        f"If fakes are only outvoted, honest nodes lose money from an attacker share of "
        f"{article_threshold():.3f} on at the article's stake, {corrected_threshold():.3f} at the "
        f"corrected and {threshold():.3f} at that of 2, then 1: every row is beyond.",
    )


def verdict_table(found: Deterrence) -> Any:
    """Return the verdict's rows: profits in ZOO per task, margins in times the needed penalty."""
    from rich.table import Table

    given = found.parameters
    pool = "an endless pool" if given.nodes is None else f"{given.nodes} nodes"
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        title=(
            f"{pool}; fee {_zoo(given.fee)}, stake {_zoo(given.stake)}; lost if outvoted "
            f"{_zoo(given.mismatch)}, by leaving {_zoo(given.abort)}, found out "
            f"{_zoo(given.collusion)}"
        ),
        caption=(
            "ZOO per task. fake: always; leave: fake own pairs, leave all else; pair: fake own "
            "pairs, over honest work; honest: what an honest node expects per task it is drawn "
            "for, if nobody appeals. Margin: the penalty, in times the one needed. Last: what pays."
        ),
    )
    for head in ("share", "nodes", "fake", "margin", "leave", "margin", "pair", "honest", "pays"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found.rows:
        strategies = [
            text
            for strategy in (row.fake, row.leave)
            for text in (_zoo(strategy.profit), _times(strategy.margin, strategy.deterred))
        ]
        pays = ["fake"] * (not row.fake.deterred) + ["leave"] * (not row.leave.deterred)
        pays += ["pair"] * (row.pair > 0)
        table.add_row(
            f"{float(row.share):.0%}",
            "-" if row.dishonest is None else str(row.dishonest),
            *strategies,
            _zoo(row.pair),
            "-" if row.honest is None else _zoo(row.honest),
            "all" if len(pays) == 3 else ", ".join(pays) or "nothing",
        )
    return table


def _zoo(amount: Fraction | int) -> str:
    units = float(amount) / ZOO
    return f"{units:,.3g}" if abs(units) >= 0.01 or not units else f"{units:.4f}"


def _times(margin: Fraction | None, deterred: bool) -> str:
    if margin is None:
        return "-" if deterred else "none"
    return f"× {float(margin):,.3g}" if margin >= 1 else f"× {float(margin):.2f}"
