# SPDX-License-Identifier: Apache-2.0
"""A chain that somebody else runs: geth, another client, a test network, through its RPC node.

Rule: only what every node of an EVM chain serves is asked of it. Time passes by itself, ether comes
from a key that has some, and every transaction is signed here, but for the first two where the node
itself has an unlocked account (as `geth --dev` does).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import requests
from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3
from web3.types import TxParams, Wei

from agents.runtime.errors import AgentError
from agents.runtime.logs import scrub
from agents.runtime.urls import hide
from agents.runtime.wallet import read_keystore
from scripts._net.local_keys import Fees
from scripts._net.pace import PAST, spacing
from scripts._net.processes import ProcessError

TRANSFER_GAS = 21_000
_REQUEST_S = 20.0
_SILENCE_S = 30.0  # without a block, and the chain is taken for one that mines on demand
_LOOK_S = 0.2
_WEI_PER_ETHER = 10**18
_DEAR = 2  # times today's price may rise before a wallet runs dry


@dataclass(frozen=True)
class RpcNode:
    """A chain behind an RPC node. `block_s`: seconds from block to block.

    `payer`: a key with ether, None for an account that the node has unlocked.
    """

    url: str
    chain_id: int
    block_s: float
    payer: LocalAccount | None = field(repr=False)
    w3: Web3 = field(repr=False)

    def next_block(self) -> None:
        """Wait for a block. Raises ProcessError."""
        _await_block(self.w3, self.w3.eth.block_number, max(_SILENCE_S, 8 * self.block_s))

    def pass_time(self, seconds: int) -> None:
        """Wait until the chain's clock is that much later. Raises ProcessError."""
        until = _time(self.w3) + seconds
        while _time(self.w3) < until:
            self.next_block()

    def fees(self) -> Fees:
        """What to offer for gas now, in wei."""
        return fees_of(self.w3)

    def wei_for(self, gas: int) -> int:
        """Ether that pays for so much gas, also at twice today's price; in wei."""
        return gas * _DEAR * self.fees().most

    def pay(self, wei: dict[str, int]) -> None:
        """Send ether to addresses, and wait until it is there.

        Raises ProcessError when the key has too little, saying how much it takes.
        """
        unlocked = self.w3.eth.accounts if self.payer is None else []
        if self.payer is None and not unlocked:
            raise ProcessError(
                f"The node at {hide(self.url)} has no unlocked account. Give a key with ether: "
                "KEYSTORE=file, with its passphrase in MENAGERIE_PASSPHRASE."
            )
        source = unlocked[0] if self.payer is None else self.payer.address
        fees = self.fees()
        need = sum(wei.values()) + len(wei) * TRANSFER_GAS * fees.most
        held = self.w3.eth.get_balance(source)
        if held < need:
            raise ProcessError(
                f"{source} holds {held / _WEI_PER_ETHER:g} ether on chain {self.chain_id}, and the "
                f"network takes {need / _WEI_PER_ETHER:g} at today's price of gas. Send it some, "
                "or start fewer agents."
            )
        hashes = []
        nonce = self.w3.eth.get_transaction_count(source, "pending")
        for index, (address, amount) in enumerate(wei.items()):
            tx: TxParams = {
                "from": source,
                "to": Web3.to_checksum_address(address),
                "value": Wei(amount),
                "gas": TRANSFER_GAS,
                "maxFeePerGas": Wei(fees.most),
                "maxPriorityFeePerGas": Wei(fees.tip),
            }
            if self.payer is None:
                hashes.append(self.w3.eth.send_transaction(tx))
            else:
                full: dict[str, Any] = {**tx, "nonce": nonce + index, "chainId": self.chain_id}
                raw = self.payer.sign_transaction(full).raw_transaction
                hashes.append(self.w3.eth.send_raw_transaction(raw))
        for tx_hash in hashes:
            self.w3.eth.wait_for_transaction_receipt(tx_hash, max(120.0, 20 * self.block_s))


def fees_of(w3: Web3) -> Fees:
    """What to offer for gas on a chain now: the tip that its node suggests, and twice the price."""
    tip = w3.eth.max_priority_fee
    return Fees(tip=tip, most=2 * int(w3.eth.get_block("latest").get("baseFeePerGas", 0)) + tip)


def reach(url: str, keystore: str | None = None, passphrase: str = "") -> RpcNode:
    """Return the chain behind a node, once it has shown how fast its blocks come.

    `keystore`: file or ape alias of a key with ether; None takes an account that the node has
    unlocked. Raises ProcessError.
    """
    w3 = Web3(HTTPProvider(url, request_kwargs={"timeout": _REQUEST_S}))
    try:
        chain_id = w3.eth.chain_id
        payer: LocalAccount | None = None
        if keystore is not None:
            payer = Account.from_key(read_keystore(keystore, passphrase))
        return RpcNode(url, chain_id, _block_s(w3), payer, w3)
    except requests.RequestException as error:
        raise ProcessError(f"No RPC node answers at {hide(url)}: {scrub(str(error))}.") from None
    except AgentError as error:
        raise ProcessError(str(error)) from None


def _block_s(w3: Web3) -> float:
    """Seconds from block to block, by the chain's clock. Raises ProcessError if none comes."""
    _await_block(w3, w3.eth.block_number, _SILENCE_S)
    if (newest := w3.eth.block_number) < 2:
        _await_block(w3, newest, _SILENCE_S)
        newest = w3.eth.block_number
    first = max(1, newest - PAST)  # the time of block 0 is anything
    return spacing([int(w3.eth.get_block(n)["timestamp"]) for n in range(first, newest + 1)])


def _await_block(w3: Web3, known: int, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while w3.eth.block_number <= known:
        if time.monotonic() > end:
            raise ProcessError(
                f"The chain made no block for {patience_s:g} s. One that mines only transactions "
                "has no clock: start it with a time between blocks, as `geth --dev --dev.period 1`."
            )
        time.sleep(_LOOK_S)


def _time(w3: Web3) -> int:
    return int(w3.eth.get_block("latest")["timestamp"])
