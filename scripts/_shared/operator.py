# SPDX-License-Identifier: Apache-2.0
"""What the commands for people share: the contracts of a network, amounts, and clear refusals.

Rule: a command says what it is about to do, does it in as few transactions as it can, and turns
every refusal into one sentence; a traceback is a defect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal, Inexact, InvalidOperation, Overflow, localcontext
from functools import wraps
from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import ZOO
from agents.runtime.errors import AgentError, Reverted
from scripts._shared.connecting import (
    BY_APE,
    DEFAULT_URL,
    bound,
    provider_of,
    reverting,
    rpc_url_of,
)
from scripts._shared.places import CHECKOUT, LOCALNET, deployment_file, find_project
from scripts._shared.remedies import remedy_of

LOCAL_CHAINS = (31_337, 1_337)
WORD = 1 << 256
"""No number of a contract is as large."""

NUMBER = click.IntRange(1, WORD - 1)
"""A number that a contract gave, such as a job's: one that fits into its word."""


class Amount(click.ParamType):
    """ZOO as a decimal number, such as 100 or 0.5; the value is in 1e-18 ZOO."""

    name = "zoo"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the amount in 1e-18 ZOO."""
        if isinstance(value, int):
            return value
        try:
            # The default of 28 digits would round large amounts; what 100 round is none at all.
            with localcontext(prec=100, traps=[InvalidOperation, Overflow, Inexact]):
                units = Decimal(value) * ZOO
                if not 0 <= units < WORD or units != units.to_integral_value():
                    raise InvalidOperation
        except ArithmeticError:
            self.fail(f"{value!r} is no amount of ZOO; give a number such as 100 or 0.5.")
        return int(units)


ZOO_AMOUNT = Amount()


class Address(click.ParamType):
    """An Ethereum address, checksummed."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the checksummed address."""
        from eth_utils import is_address, to_checksum_address

        if not is_address(value):
            self.fail(f"{value!r} is no address; it has 0x and 40 hexadecimal digits.")
        return str(to_checksum_address(value))


ADDRESS = Address()

deployment_option = click.option(
    "--deployment",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Deployment file (default: deployments/<chain id>.json, on a local chain localnet's).",
)


def zoo(amount: int, digits: int = 18) -> str:
    """Return an amount for people, cut after `digits` decimals: '1,234.5 ZOO'."""
    whole, rest = divmod(amount, ZOO)
    decimals = f"{rest:018}"[:digits].rstrip("0")
    return f"{whole:,}{'.' if decimals else ''}{decimals} ZOO"


def deployment_path(chosen: Path | None, chain_id: int) -> Path:
    """Return the deployment file meant. Raises click.ClickException when it is not there."""
    default = deployment_file(chain_id)
    local = LOCALNET / "deployment.json"
    path = chosen or (local if _chain_of(local) == chain_id else default)
    if not path.is_file():
        how = "Deploy with `ape run deploy`, or name" if CHECKOUT else "Put it there, or name"
        raise click.ClickException(
            f"There is no deployment file {path}. {how} the file of the network's deployment with "
            "--deployment."
        )
    return path


def store_of(chosen: str | None, chain_id: int) -> str:
    """Return the store meant. Raises click.UsageError where only its name can tell."""
    known = is_localnet(chain_id) and (CHECKOUT or LOCALNET.is_dir())
    if chosen is None and not known:
        raise click.UsageError("Name a store with --store: a folder, or a Kubo node's URL.")
    return chosen or str(LOCALNET / "store")


def store_to_read(chosen: str | None, chain_id: int) -> str:
    """Return the store meant, of a command that writes nothing into it: a folder is there already.

    To open one that is not there makes it. Raises click.ClickException, as `store_of` does.
    """
    from agents.storage.content_store import folder_of

    store = store_of(chosen, chain_id)
    folder = folder_of(store)
    if folder is not None and not folder.is_dir():
        raise click.ClickException(
            f"There is no folder {folder} to read from. Name the network's store with --store: a "
            "folder, or a Kubo node's URL."
        )
    return store


def is_localnet(chain_id: int) -> bool:
    """Whether a chain is the local network's, or one of those that local networks are on."""
    return chain_id in (*LOCAL_CHAINS, _chain_of(LOCALNET / "deployment.json"))


def _chain_of(deployment: Path) -> int | None:
    """The chain that a deployment file is for, None if there is no such file."""
    try:
        return int(json.loads(deployment.read_bytes())["chain_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Contracts:
    """The contracts of the connected network by name, as `scripts._shared.connecting` has them."""

    def __init__(self, chosen: Path | None) -> None:
        from agents.runtime.contracts import load_deployment

        self.provider = provider_of()
        self.chain_id = self.provider.chain_id
        self.path = deployment_path(chosen, self.chain_id)
        self._deployment = load_deployment(self.path)
        if self._deployment.chain_id != self.chain_id:
            raise click.ClickException(
                f"{self.path} is for chain {self._deployment.chain_id}, but the network is chain "
                f"{self.chain_id}. Choose another --network or --deployment."
            )

    def __getattr__(self, name: str) -> Any:
        entry = self.__dict__["_deployment"].contracts.get(name)
        if entry is None:
            raise AttributeError(f"{self.path} has no contract {name}.")
        found = bound(self.provider, entry)
        setattr(self, name, found)
        return found

    def now(self) -> int:
        """Return the newest block's time, in seconds since 1970."""
        return int(self.provider.get_block("latest").timestamp)

    def block_s(self) -> float:
        """Return the seconds from block to block, by the clock of the newest ones."""
        from scripts._net.pace import PAST, spacing

        newest = self.provider.get_block("latest").number
        first = max(1, newest - PAST)  # the time of block 0 is anything
        return spacing([self.provider.get_block(n).timestamp for n in range(first, newest + 1)])

    def network(self) -> Any:
        """Return the agents' typed reader of the same contracts."""
        from agents.protocol.network import Network
        from agents.runtime.chain import ChainClient
        from agents.runtime.logs import open_log

        chain = ChainClient(self.url, open_log("operator", "warning", True, None))
        return Network(chain, self._deployment)

    @property
    def url(self) -> str:
        """The RPC address of the connected network."""
        return str(getattr(self.provider, "http_uri", None) or self.provider.uri)

    def abi(self, name: str) -> list[dict[str, Any]]:
        """Return a contract's ABI, as the deployment file has it."""
        return [dict(item) for item in self._deployment.contracts[name].abi]


read_network_option = click.option(
    "--network",
    "choice",
    default=DEFAULT_URL,
    show_default=True,
    help="An RPC node's URL"
    + (", or a network of ape's such as ethereum:sepolia:node." if BY_APE else "."),
)


def reading(choice: str, chosen: Path | None) -> Any:
    """Return the agents' typed reader of a network's contracts, for a command that only reads.

    A URL is asked directly: ape would load every provider it knows, which takes seconds.
    """
    from agents.protocol.network import Network
    from agents.runtime.chain import ChainClient
    from agents.runtime.contracts import load_deployment
    from agents.runtime.logs import open_log

    chain = ChainClient(rpc_url_of(choice), open_log("operator", "warning", True, None))
    chain_id = chain.chain_id()
    deployment = load_deployment(deployment_path(chosen, chain_id), chain_id)
    chain.check(deployment)
    return Network(chain, deployment)


def afford(contracts: Contracts, account: Any, amount: int) -> None:
    """Raise click.ClickException unless the account has `amount` ZOO."""
    balance = contracts.ZooToken.balanceOf(account)
    if balance < amount:
        hint = ""
        if is_localnet(contracts.chain_id):
            hint = f" `ape run faucet {account.address} --amount {-(-amount // ZOO)}` sends more."
        raise click.ClickException(
            f"{account.address} has {zoo(balance)}, but {zoo(amount)} are needed.{hint}"
        )


def allow(contracts: Contracts, account: Any, spender: Any, amount: int) -> None:
    """Let `spender` take `amount` ZOO from the account, unless it may already."""
    afford(contracts, account, amount)
    token = contracts.ZooToken
    if token.allowance(account, spender.address) < amount:
        token.approve(spender.address, amount, sender=account)


def rehearse(method: Any, *args: Any, **by: Any) -> None:
    """Call what is about to be sent: what a contract refuses is refused before anything is signed.

    Raises Reverted with the contract's reason. That the contract may not take the ZOO yet is no
    refusal: `allow` is sent first. `by`: the `sender`, where it is known.
    """
    try:
        with reverting():
            # Without ape's trace of a call that fails: the reason is said in a sentence.
            method.call(*args, **by, skip_trace=True)
    except Reverted as error:
        if "insufficient allowance" not in error.reason:
            raise


def when(moment: int, now: int) -> str:
    """Return a point of chain time for people: '2026-12-07 10:30 UTC (in 13 days, 22:10:05)'.

    `moment`, `now`: seconds since 1970, as blocks have them.
    """
    date = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    left = moment - now
    span = timedelta(seconds=abs(left))
    return f"{date} (in {span})" if left > 0 else f"{date} ({span} ago)"


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what contracts, nodes and files refuse into a sentence or two."""
    from requests import RequestException

    from agents.storage.errors import StoreError
    from scripts._net.compiled import CompileError
    from scripts._net.deployment import DeploymentError
    from scripts._net.processes import ProcessError

    known = [AgentError, StoreError, CompileError, DeploymentError, ProcessError]
    if BY_APE:
        from ape.exceptions import ApeException

        known.append(ApeException)
    try:
        with reverting():  # of transactions too, whose reasons have remedies as well
            yield
    except Reverted as refused:
        told = f"{refused} {remedy_of(refused.reason)}"
        raise click.ClickException(_sentence(told.strip())) from None
    except tuple(known) as error:
        words = getattr(error, "message", None) or str(error)
        raise click.ClickException(_sentence(words)) from None
    except (OSError, RequestException) as error:
        raise click.ClickException(_sentence(f"{type(error).__name__}: {error}")) from None


def _sentence(words: str) -> str:
    """What a refusal says; nodes, contracts and artefacts choose words of it."""
    from agents.runtime.logs import scrub
    from agents.runtime.printable import printable

    return printable(scrub(words), keep="\n")


def explained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command so that refusals end it with a sentence."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        find_project()
        with refusals():
            return function(*args, **kwargs)

    return wrapped
