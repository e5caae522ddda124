# SPDX-License-Identifier: Apache-2.0
"""Signs and sends with a key in memory, on local networks and in tests only.

Operators sign with `ape accounts` keystores; a key that ever held value is never handled here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes
from web3 import Web3
from web3.contract.contract import ContractFunction
from web3.exceptions import ContractLogicError, TransactionNotFound
from web3.types import TxParams, TxReceipt

from agents.runtime.transaction import gas_limit
from scripts._net.plan import Send

_FIRST_TIP = 2 * 10**9  # falls by 1 wei per transaction: miners keep the order of sending
_MAX_FEE = 100 * 10**9
_BLOCKS = 20  # mined at most until everything sent is in one


@dataclass(frozen=True)
class Fees:
    """What a transaction offers for a unit of gas, in wei: to the miner, and in all."""

    tip: int
    most: int


def sender_of(w3: Web3, account: LocalAccount, mined: Callable[[], Any] | None = None) -> Send:
    """Return a function that signs a built transaction, sends it and returns its hash.

    `mined`, when given, is called after sending, to mine at once.
    """

    def send(tx: TxParams) -> HexBytes:
        fields: dict[str, Any] = {**tx}
        raw = account.sign_transaction(fields).raw_transaction
        tx_hash = w3.eth.send_raw_transaction(raw)
        if mined is not None:
            mined()
        return tx_hash

    return send


class Batch:
    """Many transactions of many keys in few blocks.

    Rule: `add` signs and sends, with its own nonces; `settle` calls `mine`, which makes a block or
    waits for one, until all are mined, and raises RuntimeError naming the first call that failed.
    Without `fees`, transactions are mined in order of sending; with them, those of one key. Gas
    limits come from the
    node's estimate: what the estimate refuses, because it needs an earlier one of the batch, is
    estimated again once those are mined.
    """

    def __init__(self, w3: Web3, mine: Callable[[], Any], fees: Fees | None = None) -> None:
        self._w3 = w3
        self._mine = mine
        self._chain_id = w3.eth.chain_id
        self._nonces: dict[str, int] = {}
        self._sent: list[tuple[str, bytes]] = []
        self._settled: list[TxReceipt] = []  # of this batch, mined already
        self._fees = fees
        self._tip = _FIRST_TIP

    def add(self, account: LocalAccount, call: ContractFunction, gas: int | None = None) -> None:
        """Send a contract call from `account`. `gas`: its limit, else by the node's estimate.

        Raises ContractLogicError for a call that would fail.
        """
        tx: TxParams = {"to": call.address, "data": call._encode_transaction_data()}
        label = f"{call.fn_name}{call.args}"
        self._send(account, tx, self._limit(account, tx) if gas is None else gas, label)

    def pay(self, account: LocalAccount, to: str, wei: int) -> None:
        """Send ether."""
        self._send(account, {"to": Web3.to_checksum_address(to), "value": Web3.to_wei(wei, "wei")})

    def _limit(self, account: LocalAccount, fields: TxParams) -> int:
        tx: TxParams = {**fields, "from": account.address}
        try:
            gas = self._w3.eth.estimate_gas(tx, "latest")
        except ContractLogicError:
            if not self._sent:
                raise
            self._mine_sent()
            gas = self._w3.eth.estimate_gas(tx, "latest")
        return gas_limit(gas)

    def _send(
        self, account: LocalAccount, fields: TxParams, gas: int = 21_000, label: str = "payment"
    ) -> None:
        nonce = self._nonces.get(account.address)
        if nonce is None:
            nonce = self._w3.eth.get_transaction_count(account.address, "pending")
        self._nonces[account.address] = nonce + 1
        self._tip -= 1
        tx: dict[str, Any] = {
            "type": 2,
            "chainId": self._chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxPriorityFeePerGas": self._tip if self._fees is None else self._fees.tip,
            "maxFeePerGas": _MAX_FEE if self._fees is None else self._fees.most,
            "value": 0,
            **fields,
        }
        raw = account.sign_transaction(tx).raw_transaction
        self._sent.append((label, bytes(self._w3.eth.send_raw_transaction(raw))))

    def settle(self) -> list[TxReceipt]:
        """Mine what was sent and return the receipts in order of sending."""
        self._mine_sent()
        receipts, self._settled = self._settled, []
        return receipts

    def _mine_sent(self) -> None:
        for label, tx_hash in self._sent:
            receipt = self._receipt(tx_hash)
            if receipt["status"] != 1:
                raise RuntimeError(f"{label} failed: {self._reason(tx_hash, receipt)}.")
            self._settled.append(receipt)
        self._sent.clear()

    def _receipt(self, tx_hash: bytes) -> TxReceipt:
        for _ in range(_BLOCKS):
            with suppress(TransactionNotFound):
                return self._w3.eth.get_transaction_receipt(HexBytes(tx_hash))
            self._mine()
        raise RuntimeError(f"0x{tx_hash.hex()} was not mined within {_BLOCKS} blocks.")

    def _reason(self, tx_hash: bytes, receipt: TxReceipt) -> str:
        tx = self._w3.eth.get_transaction(HexBytes(tx_hash))
        if receipt["gasUsed"] >= tx["gas"]:
            return f"it used all of its {tx['gas']} gas"
        call: TxParams = {"from": tx["from"], "to": tx["to"], "data": tx["input"]}
        try:
            self._w3.eth.call(call, receipt["blockNumber"] - 1)
        except ContractLogicError as error:
            return str(error.message)
        return "the node gives no reason"
