# SPDX-License-Identifier: Apache-2.0
"""The options and the class of a command that signs, as ape has them, where ape is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click

from scripts._shared.keystores import AccountType, only_account
from scripts._shared.rpc_provider import DEFAULT_URL, RpcProvider, connected


class ConnectedProviderCommand(click.Command):
    """A command with a network; its function is given the `provider` if it names one."""

    def invoke(self, ctx: click.Context) -> Any:
        provider = RpcProvider(ctx.params.pop("network", DEFAULT_URL))
        assert self.callback is not None
        if "provider" in inspect.signature(self.callback).parameters:
            ctx.params["provider"] = provider
        with connected(provider):
            return super().invoke(ctx)


def network_option() -> Callable[..., Any]:
    """Add `--network`."""
    return click.option(
        "--network",
        default=DEFAULT_URL,
        show_default=True,
        callback=lambda ctx, param, value: checked_url(value),
        help="An RPC node's URL.",
    )


def account_option() -> Callable[..., Any]:
    """Add `--account`."""
    return click.option(
        "--account",
        type=AccountType(),
        default=only_account,
        help="Who signs: an alias in ~/.ape/accounts, or a keystore file (default: the only "
        "account there).",
    )


def checked_url(choice: str) -> str:
    """Return what is the URL of an RPC node. Raises click.UsageError for anything else."""
    if choice.startswith(("http://", "https://")):
        return choice
    raise click.UsageError(
        f"{choice!r} is no URL. Names of networks are ape's, with `ape run`; here --network takes "
        "the URL of an RPC node, such as http://127.0.0.1:8545."
    )
