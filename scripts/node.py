# SPDX-License-Identifier: Apache-2.0
"""A node's life, from its owner's cold wallet: register, stake, settings, exit.

ape run node register --network ... --account my-owner --operator 0x.. --role trainer

Nobody is made an operator without its key's consent: the command signs it with an account of this
machine, or takes what `ape run node consent` printed on another.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agents.protocol.consent import operator_consent
from scripts._shared.connecting import (
    ConnectedProviderCommand,
    account_option,
    accounts_here,
    network_option,
)
from scripts._shared.operator import (
    ADDRESS,
    NUMBER,
    ZOO_AMOUNT,
    Contracts,
    afford,
    allow,
    deployment_option,
    explained,
    rehearse,
    when,
    zoo,
)
from scripts._shared.signing import sign_typed, signing, unlocked, yes_option

ROLES = {"trainer": 1, "verifier": 2, "aggregator": 4}


@click.group()
def cli() -> None:
    """A node's life, from its owner's cold wallet."""


consent_option = click.option(
    "--consent",
    help="The operator's signature, printed by `node consent` where its key is; not needed where "
    "this machine has the key.",
)


def _sign_consent(contracts: Contracts, operator: Any, owner: str) -> bytes:
    """Have an operator's account sign that it serves a node of `owner`."""
    registry = contracts.NodeRegistry
    nonce = registry.consents_used(operator.address)
    typed = operator_consent(
        registry.address, contracts.chain_id, operator.address, owner, int(nonce)
    )
    with unlocked(operator):
        signature = sign_typed(operator, typed)
    if signature is None:
        raise click.ClickException("The consent was not signed.")
    return signature


def _consent(operator: str, owner: str, given: str | None) -> bytes | None:
    """Return the operator's consent: empty where it is the owner, else the one given.

    None where an account of this machine is to sign one. Raises click.ClickException where none
    can.
    """
    if operator == owner:
        return b""
    if given is not None:
        try:
            return bytes.fromhex(given.removeprefix("0x"))
        except ValueError as error:
            raise click.ClickException("--consent is no hexadecimal number.") from error
    if operator not in accounts_here():
        raise click.ClickException(
            f"{operator} must agree. Where its key is, run `ape run node consent --account ... "
            f"--owner {owner}`, and give what it prints with --consent."
        )
    return None


def _signed_consent(contracts: Contracts, operator: str, owner: str, found: bytes | None) -> bytes:
    return _sign_consent(contracts, accounts_here()[operator], owner) if found is None else found


def _roles(names: tuple[str, ...]) -> int:
    return sum(ROLES[name] for name in set(names))


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--operator", type=ADDRESS, required=True, help="The agent's hot key.")
@consent_option
@click.option("--payout", type=ADDRESS, help="Where rewards go (default: the owner).")
@click.option("--role", "roles", type=click.Choice(list(ROLES)), multiple=True, required=True)
@click.option("--stake", type=ZOO_AMOUNT, help="In ZOO (default: the least the roles need).")
@yes_option
@deployment_option
@explained
def register(
    account: Any,
    operator: str,
    consent: str | None,
    payout: str | None,
    roles: tuple[str, ...],
    stake: int | None,
    yes: bool,
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
    found = _consent(operator, account.address, consent)
    afford(contracts, account, amount)
    if registry.node_of(operator):
        raise click.ClickException(
            f"{operator} operates node {registry.node_of(operator)} already; each node "
            "has an operator key of its own."
        )
    lines = [
        *(["(with the operator's key) that it serves a node of this owner"] * (found is None)),
        f"let the registry take {zoo(amount)}",
        f"register a node as {', '.join(roles)}, operated by {operator}",
    ]
    with signing(account, lines, yes):
        signed = _signed_consent(contracts, operator, account.address, found)
        node = (operator, payout or account.address, _roles(roles), amount, b"\0" * 32, signed)
        rehearse(registry.register_node, *node, sender=account)
        allow(contracts, account, registry, amount)
        receipt = registry.register_node(*node, sender=account)
    node_id = receipt.decode_logs([registry.NodeRegistered])[0].node_id
    click.echo(f"Node {node_id} is registered with {zoo(amount)}.")
    if _roles(roles) & ~ROLES["trainer"]:
        click.echo(
            "Verifiers and aggregators work once the committee has approved the role "
            "(docs/operators.md#roles)."
        )
    click.echo(
        f"Next, where the operator's key is: `ape run agent config {roles[0]} --keystore <its "
        f"alias> --out {roles[0]}.yaml` writes the agent's settings."
    )


@cli.command("consent", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.option("--owner", type=ADDRESS, required=True, help="The cold wallet that owns the node.")
@deployment_option
@explained
def give_consent(account: Any, owner: str, deployment: Path | None) -> None:
    """Sign that the operator key ACCOUNT serves a node of --owner, and print the signature."""
    contracts = Contracts(deployment)
    click.echo("0x" + _sign_consent(contracts, account, owner).hex())


@cli.command("add-stake", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=NUMBER)
@click.argument("amount", type=ZOO_AMOUNT)
@yes_option
@deployment_option
@explained
def add_stake(account: Any, node_id: int, amount: int, yes: bool, deployment: Path | None) -> None:
    """Add AMOUNT of ZOO to the stake of NODE_ID."""
    contracts = Contracts(deployment)
    registry = contracts.NodeRegistry
    afford(contracts, account, amount)
    rehearse(registry.add_stake, node_id, amount, sender=account)
    lines = [f"let the registry take {zoo(amount)}", f"add it to the stake of node {node_id}"]
    with signing(account, lines, yes):
        allow(contracts, account, registry, amount)
        registry.add_stake(node_id, amount, sender=account)
    click.echo(f"Node {node_id} stakes {zoo(contracts.NodeRegistry.node(node_id).stake)}.")


@cli.command("exit", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=NUMBER)
@yes_option
@deployment_option
@explained
def begin_exit(account: Any, node_id: int, yes: bool, deployment: Path | None) -> None:
    """End NODE_ID's work for good; its stake unbonds and stays slashable meanwhile."""
    contracts = Contracts(deployment)
    registry = contracts.NodeRegistry
    rehearse(registry.begin_exit, node_id, sender=account)
    period = timedelta(seconds=registry.parameters().unbonding_period)
    with signing(account, [f"end node {node_id} for good; its stake unbonds for {period}"], yes):
        registry.begin_exit(node_id, sender=account)
    node = registry.node(node_id)
    click.echo(
        f"{zoo(node.unbonding)} can be withdrawn from {when(node.unlock_at, contracts.now())} on, "
        f"with `ape run node withdraw {node_id}`. Until then it stays slashable."
    )


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=NUMBER)
@yes_option
@deployment_option
@explained
def withdraw(account: Any, node_id: int, yes: bool, deployment: Path | None) -> None:
    """Take out the unbonded stake of NODE_ID and close it."""
    contracts = Contracts(deployment)
    registry = contracts.NodeRegistry
    node = registry.node(node_id)
    if not node.unlock_at:
        raise click.ClickException(
            f"Node {node_id} is not exiting. `ape run node exit {node_id}` ends its work; its "
            "stake can be withdrawn when it has unbonded."
        )
    if node.unlock_at > contracts.now():
        raise click.ClickException(
            f"The stake of node {node_id} unbonds until {when(node.unlock_at, contracts.now())}."
        )
    rehearse(registry.withdraw, node_id, sender=account)
    amount = node.unbonding
    with signing(account, [f"take out {zoo(amount)} of node {node_id} and close it"], yes):
        registry.withdraw(node_id, sender=account)
    click.echo(f"{zoo(amount)} are back with {account.address}.")


@cli.command("set", cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("node_id", type=NUMBER)
@click.option("--operator", type=ADDRESS, help="New hot key.")
@consent_option
@click.option("--payout", type=ADDRESS, help="New payout address.")
@click.option("--role", "roles", type=click.Choice(list(ROLES)), multiple=True, help="New roles.")
@click.option("--active/--paused", default=None, help="Take part in new rounds, or not.")
@yes_option
@deployment_option
@explained
def change(
    account: Any,
    node_id: int,
    operator: str | None,
    consent: str | None,
    payout: str | None,
    roles: tuple[str, ...],
    active: bool | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Change settings of NODE_ID."""
    contracts = Contracts(deployment)
    registry = contracts.NodeRegistry
    wanted = [
        (registry.set_payout, payout),
        (registry.set_roles, _roles(roles) or None),
        (registry.set_active, active),
    ]
    chosen = [(function, value) for function, value in wanted if value is not None]
    if not chosen and operator is None:
        raise click.UsageError("Name at least one of --operator, --payout, --role, --active.")
    lines = [
        line
        for line, value in (
            (f"make {operator} the operator of node {node_id}", operator),
            (f"pay its rewards to {payout}", payout),
            (f"make its roles {', '.join(roles)}", roles or None),
            ("let it take part in new rounds" if active else "pause it", active),
        )
        if value is not None
    ]
    found = None if operator is None else _consent(operator, account.address, consent)
    for function, value in chosen:
        rehearse(function, node_id, value, sender=account)
    with signing(account, lines, yes):
        if operator is not None:
            signed = _signed_consent(contracts, operator, account.address, found)
            registry.set_operator(node_id, operator, signed, sender=account)
        for function, value in chosen:
            function(node_id, value, sender=account)
    click.echo(f"Node {node_id} is changed.")
