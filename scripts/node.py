# SPDX-License-Identifier: Apache-2.0
"""A node's life, from its owner's cold wallet: register, stake, settings, exit.

ape run node register --network ... --account my-owner --operator 0x.. --role trainer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, account_option, network_option

from scripts._shared.operator import (
    ADDRESS,
    ZOO_AMOUNT,
    Contracts,
    allow,
    deployment_option,
    explained,
    zoo,
)

ROLES = {"trainer": 1, "verifier": 2, "aggregator": 4}


@click.group()
def cli() -> None:
    """A node's life, from its owner's cold wallet."""


def _roles(names: tuple[str, ...]) -> int:
    return sum(ROLES[name] for name in set(names))


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--operator", type=ADDRESS, required=True, help="The agent's hot key.")
@click.option("--payout", type=ADDRESS, help="Where rewards go (default: the owner).")
@click.option("--role", "roles", type=click.Choice(list(ROLES)), multiple=True, required=True)
@click.option("--stake", type=ZOO_AMOUNT, help="In ZOO (default: the least the roles need).")
@deployment_option
@explained
def register(
    account: Any,
    operator: str,
    payout: str | None,
    roles: tuple[str, ...],
    stake: int | None,
    deployment: Path | None,
) -> None:
    """Register a node owned by ACCOUNT and stake for it."""
    contracts = Contracts(deployment)
    registry = contracts.NodeRegistry
    least = registry.parameters()
    needed = max(getattr(least, f"{role}_stake") for role in roles)
    amount = needed if stake is None else stake
    if amount < needed:
        raise click.ClickException(f"{', '.join(roles)} needs a stake of {zoo(needed)}.")
    allow(contracts, account, registry, amount)
    registry.register_node(
        operator,
        payout or account.address,
        _roles(roles),
        amount,
        b"\0" * 32,
        sender=account,
    )
    click.echo(f"Node {registry.node_of(operator)} is registered with {zoo(amount)}.")
    if _roles(roles) & ~ROLES["trainer"]:
        click.echo("Verifiers and aggregators work once the committee has approved the role.")


@cli.command("add-stake", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=int)
@click.argument("amount", type=ZOO_AMOUNT)
@deployment_option
@explained
def add_stake(account: Any, node_id: int, amount: int, deployment: Path | None) -> None:
    """Add AMOUNT of ZOO to the stake of NODE_ID."""
    contracts = Contracts(deployment)
    allow(contracts, account, contracts.NodeRegistry, amount)
    contracts.NodeRegistry.add_stake(node_id, amount, sender=account)
    click.echo(f"Node {node_id} stakes {zoo(contracts.NodeRegistry.node(node_id).stake)}.")


@cli.command("exit", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=int)
@deployment_option
@explained
def begin_exit(account: Any, node_id: int, deployment: Path | None) -> None:
    """End NODE_ID's work for good; its stake unbonds and stays slashable meanwhile."""
    registry = Contracts(deployment).NodeRegistry
    registry.begin_exit(node_id, sender=account)
    node = registry.node(node_id)
    click.echo(f"{zoo(node.unbonding)} can be withdrawn from chain time {node.unlock_at}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=int)
@deployment_option
@explained
def withdraw(account: Any, node_id: int, deployment: Path | None) -> None:
    """Take out the unbonded stake of NODE_ID and close it."""
    registry = Contracts(deployment).NodeRegistry
    amount = registry.node(node_id).unbonding
    registry.withdraw(node_id, sender=account)
    click.echo(f"{zoo(amount)} are back with {account.address}.")


@cli.command("set", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=int)
@click.option("--operator", type=ADDRESS, help="New hot key.")
@click.option("--payout", type=ADDRESS, help="New payout address.")
@click.option("--role", "roles", type=click.Choice(list(ROLES)), multiple=True, help="New roles.")
@click.option("--active/--paused", default=None, help="Take part in new rounds, or not.")
@deployment_option
@explained
def change(
    account: Any,
    node_id: int,
    operator: str | None,
    payout: str | None,
    roles: tuple[str, ...],
    active: bool | None,
    deployment: Path | None,
) -> None:
    """Change settings of NODE_ID."""
    registry = Contracts(deployment).NodeRegistry
    wanted = [
        (registry.set_operator, operator),
        (registry.set_payout, payout),
        (registry.set_roles, _roles(roles) or None),
        (registry.set_active, active),
    ]
    chosen = [(function, value) for function, value in wanted if value is not None]
    if not chosen:
        raise click.UsageError("Name at least one of --operator, --payout, --role, --active.")
    for function, value in chosen:
        function(node_id, value, sender=account)
    click.echo(f"Node {node_id} is changed.")
