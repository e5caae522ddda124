# SPDX-License-Identifier: Apache-2.0
"""The options of commands that put a network on a chain: their own, or one that is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scripts._net.rpc_node import RpcNode


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--rpc` and `--keystore`; `node_of` makes a chain of them."""
    command = click.option(
        "--keystore",
        help="With --rpc: file or ape alias of a key with ether, which pays for everything; its "
        "passphrase is in MENAGERIE_PASSPHRASE. Default: the account that the node has unlocked.",
    )(command)
    return click.option(
        "--rpc", help="RPC address of a chain that runs already, such as geth's. Default: anvil."
    )(command)


def node_of(rpc: str | None, keystore: str | None) -> RpcNode | None:
    """Return the chain that the options name, None where a new one is meant.

    Raises ClickException or ProcessError.
    """
    if rpc is None:
        if keystore is not None:
            raise click.UsageError("--keystore goes with --rpc.")
        return None
    from scripts._net.localnet import PASSPHRASE
    from scripts._net.rpc_node import reach

    return reach(rpc, keystore, os.environ.get(PASSPHRASE, ""))
