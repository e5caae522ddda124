# SPDX-License-Identifier: Apache-2.0
"""What a command that signs takes its network and its account from: ape where ape runs it.

`ape run` gives a command ape's accounts (hardware wallets, too) and networks by name. The command
`menagerie` of the wheel runs the same code where ape is not installed: accounts are then the
keystore files that ape keeps, and a network is the URL of an RPC node.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agents.runtime.errors import Reverted
from scripts._shared.rpc_provider import DEFAULT_URL, RpcContract, active

if TYPE_CHECKING:
    from agents.runtime.contracts import Contract

BY_APE = "ape" in sys.modules
"""Whether ape runs the command: it has imported itself before it looks for commands."""

_ROOM = 3.0  # times the gas that a node estimates

if BY_APE:
    from ape.cli import ConnectedProviderCommand, account_option, network_option
else:
    from scripts._shared.without_ape import (  # type: ignore[assignment]
        ConnectedProviderCommand,
        account_option,
        network_option,
    )


def rpc_url_of(choice: str) -> str:
    """The URL of an RPC node that a choice of network means.

    Raises click.UsageError for a name where ape does not run the command.
    """
    if choice.startswith(("http://", "https://")):
        return choice
    if not BY_APE:
        from scripts._shared.without_ape import checked_url

        return checked_url(choice)
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
        from scripts._shared.keystores import Keystores

        return Keystores()
    from ape import accounts

    return accounts


def bound(provider: Any, contract: Contract) -> Any:
    """A contract whose functions and events are attributes, as ape has it."""
    if not BY_APE:
        return RpcContract(provider, contract)
    _leave_room(provider.network)
    from ape import Contract as ApeContract
    from ethpm_types import ContractType

    kind = ContractType.model_validate({"contractName": contract.name, "abi": contract.abi})
    return ApeContract(contract.address, contract_type=kind)


def _leave_room(network: Any) -> None:
    """Let transactions take more gas than a node estimates, as agents do.

    The estimate is of the block before. Who comes later may need more: `job cancel` ends the job as
    well, where the running round ended meanwhile. Gas that is not used costs nothing. What
    somebody has set for a network stays.
    """
    from ape.types import AutoGasLimit

    if network.gas_limit == AutoGasLimit():
        network.__dict__["gas_limit"] = AutoGasLimit(multiplier=_ROOM)


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
        raise Reverted(_reason(error), call) from None


def unsigned_errors() -> tuple[type[Exception], ...]:
    """What ape raises where a wallet doesn't sign. The agents' own is WalletError."""
    if not BY_APE:
        return ()
    from ape.exceptions import SignatureError
    from ape_accounts.accounts import InvalidPasswordError

    return SignatureError, InvalidPasswordError


def _reason(error: Any) -> str:
    """The contract's reason, "pool: job not ended". Of that ape keeps what follows the last colon,
    and the node's words as the error that it came from."""
    from agents.runtime.chain import NO_REASON, revert_reason

    words = next(iter(getattr(error.base_err, "args", ())), "")
    if isinstance(words, dict):
        words = words.get("message", "")
    found = revert_reason(b"", str(words))
    return str(error.message) if found == NO_REASON else found


__all__ = [
    "BY_APE",
    "DEFAULT_URL",
    "ConnectedProviderCommand",
    "account_option",
    "accounts_here",
    "bound",
    "network_option",
    "provider_of",
    "reverting",
    "rpc_url_of",
    "unsigned_errors",
]
