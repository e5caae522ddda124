# SPDX-License-Identifier: Apache-2.0
"""Ether and ZOO for a wallet on the local network, from the account that holds its supply.

ape run faucet --network http://127.0.0.1:8545 0x..
"""

from __future__ import annotations

import os
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

_GAS = 50_000_000  # that a wallet gets ether for, where ether is not play money


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.argument("receiver", type=ADDRESS)
@click.option("--amount", type=ZOO_AMOUNT, default="100000", show_default=True, help="In ZOO.")
@deployment_option
@explained
def cli(provider: Any, receiver: str, amount: int, deployment: Path | None) -> None:
    """Send RECEIVER ether and ZOO. Networks of `make localnet` only.

    On anvil that is 10 ether. On a chain that somebody else runs it is what some hundred
    transactions cost, from the wallet that `make localnet RPC=..` has filled.
    """
    contracts = Contracts(deployment)
    if provider.chain_id in LOCAL_CHAINS:
        from ape import accounts

        source = accounts.test_accounts[1]
        source.transfer(receiver, "10 ether")
        contracts.ZooToken.transfer(receiver, amount, sender=source)
    else:
        _send(contracts, receiver, amount)
    ether = provider.get_balance(receiver) / 10**18
    click.echo(f"{receiver} has {zoo(contracts.ZooToken.balanceOf(receiver))}, {ether:g} ether.")


def _send(contracts: Contracts, receiver: str, amount: int) -> None:
    """Send both from the faucet of a network on a chain that somebody else runs."""
    from eth_account import Account

    from agents.runtime.wallet import read_keystore
    from scripts._net.local_keys import Batch
    from scripts._net.localnet import FAUCET, PASSPHRASE
    from scripts._net.rpc_node import reach

    keystore = contracts.path.parent / "ape" / "accounts" / f"{FAUCET}.json"
    if not keystore.exists():
        raise click.ClickException("There is a faucet on networks of `make localnet` only.")
    written = contracts.path.parent / "passphrase"
    passphrase = written.read_text() if written.exists() else os.environ.get(PASSPHRASE, "")
    source = Account.from_key(read_keystore(str(keystore), passphrase))
    chain = reach(contracts.url)
    token = chain.w3.eth.contract(contracts.ZooToken.address, abi=contracts.abi("ZooToken"))
    batch = Batch(chain.w3, chain.next_block, chain.fees())
    batch.pay(source, receiver, chain.wei_for(_GAS))
    batch.add(source, token.functions.transfer(receiver, amount))
    batch.settle()
