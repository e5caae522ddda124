# SPDX-License-Identifier: Apache-2.0
"""What a command that signs takes its network and its account from: ape where ape runs it.

`ape run` gives a command ape's accounts (hardware wallets, too) and networks by name. The command
`menagerie` of the wheel runs the same code where ape is not installed: accounts are then the
keystore files that ape keeps, and a network is the URL of an RPC node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agents.runtime.errors import Reverted

if TYPE_CHECKING:
    from agents.runtime.contracts import Contract

BY_APE = "ape" in sys.modules
"""Whether ape runs the command: it has imported itself before it looks for commands."""
DEFAULT_URL = "http://127.0.0.1:8545"

if BY_APE:
    from ape.cli import ConnectedProviderCommand, account_option, network_option
else:
    from scripts._shared.keystores import AccountType, Keystores, only_account
    from scripts._shared.rpc_provider import RpcContract, RpcProvider, active, connected

    class ConnectedProviderCommand(click.Command):  # type: ignore[no-redef]
        """A command with a network; its function is given the `provider` if it names one."""

        def invoke(self, ctx: click.Context) -> Any:
            provider = RpcProvider(ctx.params.pop("network", DEFAULT_URL))
            wanted = getattr(self.callback, "__wrapped__", self.callback)
            if "provider" in wanted.__code__.co_varnames[: wanted.__code__.co_argcount]:
                ctx.params["provider"] = provider
            with connected(provider):
                return super().invoke(ctx)

    def network_option() -> Callable[..., Any]:
        """Add `--network`."""
        return click.option(
            "--network",
            default=DEFAULT_URL,
            show_default=True,
            callback=lambda ctx, param, value: rpc_url_of(value),
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


def rpc_url_of(choice: str) -> str:
    """The URL of an RPC node that a choice of network means.

    Raises click.UsageError for a name where ape does not run the command.
    """
    if choice.startswith(("http://", "https://")):
        return choice
    if not BY_APE:
        raise click.UsageError(
            f"{choice!r} is no URL. Names of networks are ape's, with `ape run`; here --network "
            "takes the URL of an RPC node, such as http://127.0.0.1:8545."
        )
    from ape import networks

    with networks.parse_network_choice(choice) as provider:
        return str(getattr(provider, "http_uri", None) or provider.uri)


def provider_of() -> Any:
    """The provider of the command that runs."""
    if not BY_APE:
        return active()
    from ape import networks

    return networks.active_provider


def accounts_here() -> Any:
    """The accounts of this machine, by address."""
    if not BY_APE:
        return Keystores()
    from ape import accounts

    return accounts


def bound(provider: Any, contract: Contract) -> Any:
    """A contract whose functions and events are attributes, as ape has it."""
    if not BY_APE:
        return RpcContract(provider, contract)
    from ape import Contract as ApeContract
    from ethpm_types import ContractType

    kind = ContractType.model_validate({"contractName": contract.name, "abi": contract.abi})
    return ApeContract(contract.address, contract_type=kind)


@contextmanager
def reverting(call: str = "") -> Iterator[None]:
    """Raise Reverted where ape says that a contract refused; the agents' own client does already.

    `call`: how the message names it.
    """
    if not BY_APE:
        yield
        return
    from ape.exceptions import ContractLogicError

    try:
        yield
    except ContractLogicError as error:
        raise Reverted(str(error.message), call) from None


__all__ = [
    "BY_APE",
    "ConnectedProviderCommand",
    "account_option",
    "accounts_here",
    "bound",
    "network_option",
    "provider_of",
    "reverting",
    "rpc_url_of",
]
