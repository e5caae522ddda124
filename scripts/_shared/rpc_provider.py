# SPDX-License-Identifier: Apache-2.0
"""An RPC node and the contracts behind it, in the words that ape has for them, without ape.

Rule: what commands ask of ape's providers, contracts and receipts is here, and no more of it. Calls
and transactions are those of the agents: `agents.runtime.chain` and `agents.runtime.sender`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agents.runtime.chain import ChainClient
    from agents.runtime.contracts import Contract
    from agents.runtime.head import Head
    from agents.runtime.transaction import Receipt

DEFAULT_URL = "http://127.0.0.1:8545"


class RpcProvider:
    """The chain behind an RPC node; it is asked when something is wanted of it."""

    def __init__(self, url: str) -> None:
        self.http_uri = url

    @cached_property
    def chain(self) -> ChainClient:
        """The agents' client of the node."""
        from agents.runtime.chain import ChainClient
        from agents.runtime.logs import open_log

        return ChainClient(self.http_uri, open_log("operator", "warning", True, None))

    @cached_property
    def chain_id(self) -> int:
        """The chain's id."""
        return self.chain.chain_id()

    def get_block(self, block: int | str) -> Head:
        """A block's header, by number or tag."""
        return self.chain.head(block)

    def get_balance(self, address: str) -> int:
        """Ether of an address, in wei."""
        return self.chain.balance(address)


_active: ContextVar[RpcProvider] = ContextVar("provider")


@contextmanager
def connected(provider: RpcProvider) -> Iterator[None]:
    """Let commands find this provider inside the block."""
    token = _active.set(provider)
    try:
        yield
    finally:
        _active.reset(token)


def active() -> RpcProvider:
    """The provider of the command that runs."""
    return _active.get()


class EventOf(NamedTuple):
    """An event of a contract."""

    contract: Contract
    name: str


class RpcReceipt:
    """What a mined transaction did."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def decode_logs(self, events: Sequence[EventOf]) -> list[Any]:
        """The transaction's events of these kinds; a field is an attribute."""
        return [
            SimpleNamespace(**found.args)
            for event in events
            for found in self._receipt.events(event.contract, event.name)
        ]


class RpcMethod:
    """A function of a contract: called, it is a view, or a transaction where it has a sender."""

    def __init__(self, provider: RpcProvider, contract: Contract, name: str) -> None:
        self._provider, self._contract, self._name = provider, contract, name

    def __call__(self, *args: Any, sender: Any = None) -> Any:
        """The view's answer, or the receipt of a transaction that `sender` signs.

        Raises Reverted, TxRefused, RpcDown.
        """
        if sender is None:
            return self._provider.chain.call(self._contract, self._name, *map(_plain, args))
        from agents.runtime.logs import open_log
        from agents.runtime.sender import Sender

        log = open_log("operator", "warning", True, None)
        chain = self._provider.chain
        outgoing = Sender(chain, sender.wallet, self._provider.chain_id, log)
        return RpcReceipt(outgoing.send(self._contract, self._name, *map(_plain, args)))

    def call(self, *args: Any, sender: Any = None, skip_trace: bool = True) -> Any:
        """What the function would answer to `sender`, without a transaction. Raises Reverted."""
        plain = map(_plain, args)
        return self._provider.chain.call(self._contract, self._name, *plain, sender=_plain(sender))


class RpcContract:
    """A deployed contract: its functions and events are attributes."""

    def __init__(self, provider: RpcProvider, contract: Contract) -> None:
        self._provider, self._contract = provider, contract
        self.address = contract.address

    def __getattr__(self, name: str) -> Any:
        kinds = {item["type"] for item in self._contract.abi if item.get("name") == name}
        if "function" in kinds:
            return RpcMethod(self._provider, self._contract, name)
        if "event" in kinds:
            return EventOf(self._contract, name)
        raise AttributeError(f"{self._contract} has no {name}.")


def _plain(value: Any) -> Any:
    """An argument as the ABI has it: an account stands for its address."""
    return getattr(value, "address", value)
