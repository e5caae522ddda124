# SPDX-License-Identifier: Apache-2.0
"""Ether and ZOO for a wallet on the local network, from the account that holds its supply.

ape run faucet --network http://127.0.0.1:8545 0x..
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from scripts._shared.connecting import ConnectedProviderCommand, network_option
from scripts._shared.operator import (
    ADDRESS,
    LOCAL_CHAINS,
    ZOO_AMOUNT,
    Contracts,
    deployment_option,
    explained,
    zoo,
)

_LOOK_S = 0.5
_LOCAL_WEI = 10 * 10**18
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
    _send(contracts, receiver, amount, provider.chain_id in LOCAL_CHAINS)
    ether = provider.get_balance(receiver) / 10**18
    click.echo(f"{receiver} has {zoo(contracts.ZooToken.balanceOf(receiver))}, {ether:g} ether.")


def _send(contracts: Contracts, receiver: str, amount: int, local: bool) -> None:
    """Send both, from the faucet of a local chain or of a network on somebody else's.

    Raises click.ClickException, before anything is sent, where the token would refuse its part.
    """
    from web3 import HTTPProvider, Web3

    from scripts._net.local_keys import Batch
    from scripts._net.rpc_node import reach

    if local:
        w3, source, wei = Web3(HTTPProvider(contracts.url)), _rich(), _LOCAL_WEI
        batch = Batch(w3, lambda: time.sleep(_LOOK_S))
    else:
        chain = reach(contracts.url)
        w3, source, wei = chain.w3, _filled(contracts), chain.wei_for(_GAS)
        batch = Batch(w3, chain.next_block, chain.fees())
    token = w3.eth.contract(contracts.ZooToken.address, abi=contracts.abi("ZooToken"))
    if not int(receiver, 16):
        raise click.ClickException(f"{receiver} is the zero address, which takes no ZOO.")
    held = int(token.functions.balanceOf(source.address).call())
    if amount > held:
        raise click.ClickException(f"The faucet has {zoo(held)}; ask for at most that.")
    batch.pay(source, receiver, wei)
    batch.add(source, token.functions.transfer(receiver, amount))
    batch.settle()


def _rich() -> Any:
    """The well-known test account that holds a local network's supply."""
    from eth_account import Account

    from scripts._net.anvil import MNEMONIC

    Account.enable_unaudited_hdwallet_features()
    return Account.from_mnemonic(MNEMONIC, account_path="m/44'/60'/0'/0/1")


def _filled(contracts: Contracts) -> Any:
    """The wallet that `make localnet RPC=..` has filled."""
    from eth_account import Account

    from agents.runtime.wallet import read_keystore
    from scripts._net.localnet import FAUCET, PASSPHRASE

    keystore = contracts.path.parent / "ape" / "accounts" / f"{FAUCET}.json"
    if not keystore.exists():
        raise click.ClickException("There is a faucet on networks of `make localnet` only.")
    written = contracts.path.parent / "passphrase"
    passphrase = written.read_text() if written.exists() else os.environ.get(PASSPHRASE, "")
    return Account.from_key(read_keystore(str(keystore), passphrase))
