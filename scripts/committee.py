# SPDX-License-Identifier: Apache-2.0
"""The committee at work, in words: propose, approve, execute and cancel operations, and look.

ape run committee propose penalty INVALID --share 25% --network ... --account my-member
ape run committee list --network ...
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts._committee.acting import check_member, find, member_options, shown
from scripts._committee.settings import propose
from scripts._shared.connecting import ConnectedProviderCommand
from scripts._shared.operations import OPEN, committee_of, operations, refusal
from scripts._shared.operator import (
    Contracts,
    deployment_option,
    explained,
    read_network_option,
    reading,
    rehearse,
)
from scripts._shared.signing import signing


@click.group()
def cli() -> None:
    """The committee's operations: what they do, who stands for them, and from when on."""


cli.add_command(propose)
operation_argument = click.argument("operation")


@cli.command("list")
@read_network_option
@click.option("--all", "everything", is_flag=True, help="Also what is over.")
@deployment_option
@explained
def list_(choice: str, everything: bool, deployment: Path | None) -> None:
    """List the open operations: what they do, how many approved, and what happens next."""
    network = reading(choice, deployment)
    committee, now = committee_of(network), network.chain.chain_time()
    found = [o for o in operations(network) if everything or o.state in OPEN]
    for one in found:
        click.echo(f"0x{one.op_id.hex()[:16]}  {one.state.name.lower()}")
        for line in one.words(network).lines():
            click.echo(f"  {line}")
        click.echo(
            f"  {len(one.approved)} of {committee.threshold} approvals. "
            f"{one.outlook(committee, now)}"
        )
    if not found:
        click.echo("There is no operation." if everything else "There is no open operation.")


@cli.command()
@read_network_option
@operation_argument
@deployment_option
@explained
def show(choice: str, operation: str, deployment: Path | None) -> None:
    """Show everything about OPERATION: its id, or the first digits of it."""
    network = reading(choice, deployment)
    found = find(network, operation)
    for line in shown(network, found, committee_of(network), network.chain.chain_time()):
        click.echo(line)


@cli.command(cls=ConnectedProviderCommand)
@operation_argument
@member_options
def approve(account: Any, operation: str, yes: bool, deployment: Path | None) -> None:
    """Approve OPERATION, as a member. The approval that makes the quorum starts its delay.

    Where a change of members made the quorum, whoever has approved before starts the delay with it.
    """
    _act("approve", account, operation, yes, deployment)


@cli.command(cls=ConnectedProviderCommand)
@operation_argument
@member_options
def cancel(account: Any, operation: str, yes: bool, deployment: Path | None) -> None:
    """Vote against OPERATION, as a member. Enough votes cancel it for good; none is taken back."""
    _act("cancel", account, operation, yes, deployment)


@cli.command(cls=ConnectedProviderCommand)
@operation_argument
@member_options
def execute(account: Any, operation: str, yes: bool, deployment: Path | None) -> None:
    """Execute OPERATION once its delay is over. Anybody may."""
    _act("execute", account, operation, yes, deployment)


_DEEDS = {
    "approve": "approve the operation: {}",
    "cancel": "vote to cancel the operation: {}",
    "execute": "execute the operation: {}",
}


def _act(deed: str, account: Any, operation: str, yes: bool, deployment: Path | None) -> None:
    """Show an operation, check that the contract takes the deed, sign it, and say what came."""
    contracts = Contracts(deployment)
    network = contracts.network()
    committee, now = committee_of(network), network.chain.chain_time()
    if deed != "execute":
        check_member(committee, account)
    found = find(network, operation)
    words = found.words(network)
    if found.state not in OPEN:
        raise click.ClickException(f"{words.title}: {found.outlook(committee, now)}")
    for line in shown(network, found, committee, now):
        click.echo(line)
    if deed == "execute":
        _check_due(network, found, committee, now)
    method, args = getattr(contracts.Coordinator, deed), [found.op_id]
    if deed == "approve" and found.waits_unqueued(committee) and account.address in found.approved:
        # It can't approve twice; without a signature this queues what has its quorum.
        method, args = contracts.Coordinator.approve_by_sig, [found.op_id, []]
    rehearse(method, *args, sender=account)
    with signing(account, [_DEEDS[deed].format(words.title)], yes):
        method(*args, sender=account)
    after = find(network, found.op_id.hex())
    click.echo(f"{after.state.name.capitalize()}. " + _outcome(deed, after, network))


def _check_due(network: Any, found: Any, committee: Any, now: int) -> None:
    early = now < found.eta or len(found.approved) < committee.threshold or not found.eta
    if early:
        raise click.ClickException(f"Not yet. {found.outlook(committee, now)}")
    why = refusal(network, found.target, found.data)
    if why is not None:
        raise click.ClickException(f"It would fail now: {why}. Nothing was signed.")


def _outcome(deed: str, after: Any, network: Any) -> str:
    committee = committee_of(network)
    if deed == "cancel" and after.state in OPEN:
        missing = committee.cancel_quorum - len(after.cancel_voted)
        return f"{missing} more vote{'s' if missing > 1 else ''} cancel it."
    return str(after.outlook(committee, network.chain.chain_time()))
