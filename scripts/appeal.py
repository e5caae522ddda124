# SPDX-License-Identifier: Apache-2.0
"""Appeal a report that found a node's work invalid or copied.

ape run appeal --network ... --account my-owner --job J --round R NODE
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._shared.connecting import ConnectedProviderCommand, account_option, network_option
from scripts._shared.operator import (
    NUMBER,
    Contracts,
    afford,
    allow,
    deployment_option,
    explained,
    rehearse,
    store_of,
    when,
    zoo,
)
from scripts._shared.signing import signing, yes_option


@click.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=NUMBER)
@click.option("--job", "job_id", type=NUMBER, required=True, help="The job.")
@click.option("--round", "round_id", type=NUMBER, required=True, help="The round.")
@click.option(
    "--statement",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with what you have to say. It is put into the store, for the committee.",
)
@click.option("--store", help="Of the statement: a folder, or a Kubo node's URL.")
@yes_option
@deployment_option
@explained
def cli(
    account: Any,
    node_id: int,
    job_id: int,
    round_id: int,
    statement: Path | None,
    store: str | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Ask the committee to decide on a report that was confirmed against NODE_ID.

    ACCOUNT is the node's owner or operator, and pays a bond. The committee's agents do the node's
    work again. If it was right, the stake is unlocked, the bond comes back (`ape run claim`), the
    node gets its share of the round, and the verifiers who reported it are slashed. If not, the
    bond is lost with the slash. An appeal that nobody decides in time ends in the node's favour.
    """
    contracts = Contracts(deployment)
    network = contracts.network()
    report_id, report = _confirmed(network, job_id, round_id, node_id)
    now = network.chain.chain_time()
    if now > report.deadline:
        raise click.ClickException(
            f"The time to appeal ended {when(report.deadline, now)}: the slash can be executed."
        )
    digest = _published(statement, store, contracts.chain_id)
    reports, bond = contracts.ViolationReports, contracts.ViolationReports.appeal_bond()
    afford(contracts, account, bond)
    rehearse(reports.appeal, report_id, digest, sender=account)
    what = f"node {node_id} in round {round_id} of job {job_id}"
    lines = [f"let the reports' contract take a bond of {zoo(bond)}", f"appeal for {what}"]
    with signing(account, lines, yes):
        allow(contracts, account, reports, bond)
        reports.appeal(report_id, digest, sender=account)
    deadline = network.report(report_id).deadline
    click.echo(
        f"The report on {what} is appealed with a bond of {zoo(bond)}. The committee decides until "
        f"{when(deadline, network.chain.chain_time())}; `ape run explain --job {job_id} --round "
        f"{round_id} --node {node_id}` says what became of it."
    )


def _confirmed(network: Any, job_id: int, round_id: int, node_id: int) -> tuple[bytes, Any]:
    """Return the report to appeal and its id."""
    from agents.protocol.formulas import report_id as id_of
    from agents.protocol.numbers import ReportStatus, Violation

    found = []
    for violation in (Violation.INVALID, Violation.COPIED):
        report_id = id_of(job_id, round_id, node_id, violation)
        report = network.report(report_id)
        if report.status == ReportStatus.CONFIRMED:
            return report_id, report
        if report.status != ReportStatus.NONE:
            found.append(f"the report of {violation.name} is {report.status.name.lower()}")
    raise click.ClickException(
        f"No report on node {node_id} in round {round_id} of job {job_id} can be appealed: "
        f"{'; '.join(found) or 'there is none'}."
    )


def _published(statement: Path | None, store: str | None, chain_id: int) -> bytes:
    """Return the digest of the statement, zero without one."""
    from agents.protocol.numbers import ZERO_DIGEST
    from agents.storage.cid import digest_of
    from agents.storage.content_store import open_store

    if statement is None:
        return ZERO_DIGEST
    opened = open_store(store_of(store, chain_id))
    cid = opened.put_bytes(statement.read_bytes())
    opened.pin(cid)
    return digest_of(cid)
