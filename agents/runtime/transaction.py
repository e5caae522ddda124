# SPDX-License-Identifier: Apache-2.0
"""The parts of sending that need no node: fees, versions of one transaction, receipts, refusals.

Rule: what a node's refusal means is decided here, from its words (nodes share no error codes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agents.runtime.contracts import Contract, Event
from agents.runtime.head import Head

GAS_CAP = 16_777_216  # EIP-7825: the most gas that one transaction may use for execution
# An estimate is of the block before. Who comes first or last in a block pays for what the others
# left: measured, up to 2.3 times the estimate (105,594 and 242,933 for `approve_by_sig`), and a few
# new storage slots, which cost most. Gas that is not used costs nothing; to run out of it in the
# last second of a window costs stake.
_GAS_FACTOR = 3
_GAS_ROOM = 250_000


class Refusal(Enum):
    """Why a node did not take a transaction."""

    KNOWN = ("already known", "already imported", "known transaction")
    NONCE_USED = ("nonce too low", "nonce is too low")
    # Another transaction of this nonce is in the pool, and the new one does not offer enough more.
    UNDERPRICED = ("replacement transaction underpriced", "fee too low to replace")
    # The pool or the block takes nothing at this price, whatever its nonce.
    FEE_LOW = (
        "less than block base fee",
        "fee cap less than",
        "max fee per gas less",
        "underpriced",
        "gas price below",
        "feetoolow",
    )
    POOR = ("insufficient funds",)
    NO_GAS = (
        "gas limit too high",
        "greater than the cap",
        "out of gas",
        "oog",
        "outofgas",
        "gas required exceeds",
        "gas too high",
    )
    OTHER = ("",)


def refusal_of(detail: str) -> Refusal:
    """Return the kind of a refusal from the node's words."""
    return next(kind for kind in Refusal if any(word in detail.lower() for word in kind.value))


def gas_limit(estimate: int) -> int:
    """Return the gas to ask for where the node estimates `estimate`.

    An estimate above the cap is believed: where new state has gas of its own (EIP-8037), only
    execution is bounded by it, and elsewhere the node refuses the transaction.
    """
    if estimate > GAS_CAP:
        return estimate + estimate // 4
    return min(estimate * _GAS_FACTOR + _GAS_ROOM, GAS_CAP)


def bumped(fee: int) -> int:
    """Return `fee` raised by 12.5 %, rounded up, so that it beats any 10 % rule."""
    return fee + fee // 8 + 1


@dataclass(frozen=True)
class Order:
    """A call to be sent as a transaction. `value` in wei."""

    contract: Contract
    function: str
    args: tuple[Any, ...] = ()
    value: int = 0

    @property
    def label(self) -> str:
        """How logs and errors name the call."""
        return f"{self.contract.name}.{self.function}"

    def request(self, sender: str) -> dict[str, Any]:
        """Return what a node is asked about the call."""
        data = self.contract.function(self.function, len(self.args)).encode(self.args)
        return {
            "from": sender,
            "to": self.contract.address,
            "data": "0x" + data.hex(),
            "value": hex(self.value),
        }


@dataclass(frozen=True)
class Receipt:
    """What a mined transaction did. `logs` are the raw JSON-RPC logs."""

    tx_hash: str
    block: int
    block_hash: bytes
    gas_used: int
    status: int
    fee_wei: int
    logs: list[dict[str, Any]]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Receipt:
        """Return the receipt in a JSON-RPC answer."""
        gas_used = int(raw["gasUsed"], 16)
        return cls(
            tx_hash=raw["transactionHash"],
            block=int(raw["blockNumber"], 16),
            block_hash=bytes.fromhex(raw["blockHash"][2:]),
            gas_used=gas_used,
            status=int(raw["status"], 16),
            fee_wei=gas_used * int(raw.get("effectiveGasPrice") or "0x0", 16),
            logs=raw["logs"],
        )

    def events(self, contract: Contract, name: str) -> list[Event]:
        """Return this transaction's events `name` of `contract`."""
        kind, address = contract.event(name), contract.address.lower()
        topic = "0x" + kind.topic.hex()
        return [
            kind.decode(log)
            for log in self.logs
            if log["address"].lower() == address and log["topics"][:1] == [topic]
        ]


@dataclass
class Attempt:
    """One nonce and every version of the transaction sent for it."""

    label: str
    nonce: int
    to: str
    data: str
    value: int
    gas: int
    tip: int
    max_fee: int
    chain_id: int
    seen: Head  # the newest block that was looked at
    replacing: bool = False  # the pool may hold a stranger's (our earlier life's) transaction
    hashes: list[str] = field(default_factory=list)
    raw: str = ""
    sent_at: int = 0  # block number of the last broadcast
    price_refused: str = ""
    unseen: int = 0  # looks at which its nonce was used and it had no receipt

    def request(self) -> dict[str, Any]:
        """Return the transaction to sign."""
        return {
            "type": 2,
            "chainId": self.chain_id,
            "nonce": self.nonce,
            "to": self.to,
            "data": self.data,
            "value": self.value,
            "gas": self.gas,
            "maxPriorityFeePerGas": self.tip,
            "maxFeePerGas": self.max_fee,
        }
