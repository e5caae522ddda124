# SPDX-License-Identifier: Apache-2.0
"""Why a node was paid what it was paid: what it did, the formula with its numbers, where it went.

ape run explain --network ... --job J [--round R] [--node N] [--json]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agents.protocol.numbers import UNCLAIMED
from scripts._shared.operator import (
    deployment_option,
    explained,
    read_network_option,
    reading,
    zoo,
)

if TYPE_CHECKING:
    from agents.audit.explain import Explained, Explanation, Outcome, Term


@click.command()
@read_network_option
@click.option("--job", "job_id", type=click.IntRange(1), required=True, help="The job.")
@click.option(
    "--round", "round_id", type=click.IntRange(1), help="The round (default: the newest)."
)
@click.option(
    "--node", type=click.IntRange(1), help="This node alone, whatever it did in the round."
)
@click.option("--json", "as_json", is_flag=True, help="Print it for a program; amounts in wei.")
@click.option(
    "--random-source",
    is_flag=True,
    help="The deployment draws its seeds from a contract, not from block hashes.",
)
@deployment_option
@explained
def cli(
    choice: str,
    job_id: int,
    round_id: int | None,
    node: int | None,
    as_json: bool,
    random_source: bool,
    deployment: Path | None,
) -> None:
    """Explain every payment of a round, from the chain alone.

    Each number has the transaction that proves it. `ape run audit` goes on from there: it does the
    work behind the contributions again.
    """
    from agents.audit.explain import Explainer
    from agents.audit.sources.record import Record
    from scripts._shared.explained_json import json_of

    network = reading(choice, deployment)
    count = int(network.chain.call(network.registry, "node_count"))
    if node is not None and node > count:
        raise click.ClickException(f"There is no node {node}; there are {count}.")
    record = Record(network, job_id)
    if not record.current:
        raise click.ClickException(f"Job {job_id} has no round yet.")
    explainer = Explainer(record, random_source)
    number = max(record.current) if round_id is None else round_id
    found = explainer.round(number)
    whom = found.nodes if node is None else (explainer.node(number, node),)
    if as_json:
        told = json_of(found) | {"job": job_id, "nodes": [json_of(each) for each in whom]}
        click.echo(json.dumps(told, indent=1))
        return
    for line in lines_of(found, whom, job_id):
        click.echo(line)


def lines_of(found: Explained, whom: tuple[Explanation, ...], job_id: int) -> Iterator[str]:
    """Return what the command prints about a round and these of its nodes."""
    yield f"Round {found.round_id} of job {job_id}, {found.status}: its pool is {zoo(found.pool)}."
    for each in whom:
        yield ""
        yield from _node(each)
    if found.left:
        yield ""
    for outcome in found.left:
        yield f"{zoo(outcome.amount)} {outcome.what}{_proof(outcome.tx)}"
    for difference in found.differences:
        yield f"✗ The audit finds a difference: {difference}"


def _node(each: Explanation) -> Iterator[str]:
    due = sum(payment.due for payment in each.payments)
    who = "Counts for nobody" if each.node == UNCLAIMED else f"Node {each.node}"
    yield f"{who}: {zoo(due)}{f'. {each.why}' if each.why else ''}"
    for deed in each.deeds:
        named = "" if deed.digest is None else f" {_cid(deed.digest)}"
        yield f"  it {deed.sentence}{named}{_proof(deed.tx)}"
    for payment in each.payments:
        if each.node != UNCLAIMED:
            yield f"  as {'an' if payment.role[0] in 'aeiou' else 'a'} {payment.role}"
        for step in payment.steps:
            formula = step.formula
            for term in sorted(step.terms, key=lambda term: -len(term.name)):
                formula = formula.replace(term.name, f"{term.name} {_value(term)}", 1)
            yield f"    {step.result.name} {_value(step.result)} = {formula}"
        for outcome in payment.outcomes:
            yield f"    -> {_fate(outcome)}"


def _value(term: Term) -> str:
    if term.unit == "ZOO":
        return zoo(term.value)
    return f"{term.value:,}/10,000" if term.unit else f"{term.value:,}"


def _fate(outcome: Outcome) -> str:
    to = "" if outcome.account is None else f" to {outcome.account}"
    text = f"{zoo(outcome.amount)} {outcome.what}{to}{_proof(outcome.tx)}"
    if outcome.then is not None:
        then = outcome.then
        whom = "" if then.account is None else f" to {then.account}"
        text += f", later {then.what}{whom}{_proof(then.tx)}"
    return text


def _proof(tx: bytes | None) -> str:
    return "" if tx is None else f" (0x{tx.hex()})"


def _cid(digest: bytes) -> str:
    from agents.storage.cid import cid_from_digest

    return cid_from_digest(digest)
