# SPDX-License-Identifier: Apache-2.0
"""Ether and ZOO for a wallet on the local network, from the account that holds its supply.

ape run faucet --network http://127.0.0.1:8545 0x..
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from ape.cli import ConnectedProviderCommand, network_option

from scripts._shared.operator import (
    ADDRESS,
    LOCAL_CHAINS,
    ZOO_AMOUNT,
    Contracts,
    deployment_option,
    explained,
    zoo,
)


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.argument("receiver", type=ADDRESS)
@click.option("--amount", type=ZOO_AMOUNT, default="100000", show_default=True, help="In ZOO.")
@deployment_option
@explained
def cli(provider: Any, receiver: str, amount: int, deployment: Path | None) -> None:
    """Send RECEIVER 10 ether and ZOO. Local networks only."""
    from ape import accounts

    if provider.chain_id not in LOCAL_CHAINS:
        raise click.ClickException("There is a faucet on local networks only.")
    token = Contracts(deployment).ZooToken
    source = accounts.test_accounts[1]
    source.transfer(receiver, "10 ether")
    token.transfer(receiver, amount, sender=source)
    click.echo(f"{receiver} has {zoo(token.balanceOf(receiver))} and at least 10 ether.")
