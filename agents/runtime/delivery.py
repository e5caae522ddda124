# SPDX-License-Identifier: Apache-2.0
"""Bringing signed transactions into the chain, whatever happens to them on the way.

Rule: a transaction that was handed to the node is never left in an unknown state while the process
lives. The node is asked once in each block:

Stuck for `stuck_blocks` blocks: same nonce, both fees +12.5 % (nodes ask for 10 %), and
room for the base fee to double, as far as the fee limit goes.
Dropped from the pool or the chain (a reorg): the same bytes again.
Nonce used by another process with this key: `NonceTaken`; the caller begins again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agents.runtime.chain import ChainClient
from agents.runtime.errors import RpcDown, RpcRefused, Stopped, TxRefused
from agents.runtime.feed import HeadFeed
from agents.runtime.head import Head
from agents.runtime.logs import Log
from agents.runtime.metrics import Metrics
from agents.runtime.transaction import GAS_CAP, Attempt, Receipt, Refusal, bumped, refusal_of
from agents.runtime.wallet import Wallet

_LATE_S = 2.0  # after the time of a block, and the node is asked what has become of it
_LOOKS = 8  # for the receipt of a nonce that was used, `poll_s` apart
_WEI_PER_ETH = 10**18


class NonceTaken(Exception):
    """The nonce went to another transaction of the same key."""


class Delivery:
    """Delivers the transactions of one key. The parameters are `Sender`'s."""

    def __init__(
        self,
        chain: ChainClient,
        wallet: Wallet,
        log: Log,
        metrics: Metrics | None,
        stop: threading.Event,
        stuck_blocks: int,
        confirmations: int,
        poll_s: float,
        max_fee_wei: int,
        feed: HeadFeed | None,
    ) -> None:
        self.address = wallet.address
        self.metrics = metrics
        self._chain = chain
        self._wallet = wallet
        self._log = log
        self._stop = stop
        self._stuck_blocks = stuck_blocks
        self._confirmations = confirmations
        self._poll_s = poll_s
        self._max_fee = max_fee_wei
        self._feed = feed

    # -- public --------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> None:
        """Hand a new transaction to the node, however long it is down.

        Raises TxRefused, NonceTaken (neither was sent) or Stopped.
        """
        self._patiently(lambda: self._broadcast(attempt))

    def receipt(self, attempt: Attempt) -> Receipt:
        """Wait until a transaction that was begun is mined deep enough.

        Raises TxRefused, NonceTaken or Stopped.
        """
        # A chain that mines each transaction at once has the receipt now.
        found: Receipt | None = self._patiently(lambda: self.find_receipt(attempt))
        if found is not None and self._is_deep(found, attempt):
            return found
        while True:
            self._patiently(lambda: self._await_block(attempt))
            receipt: Receipt | None = self._patiently(lambda: self._advance(attempt))
            if receipt is not None:
                return receipt
            if not self._fed or attempt.unseen:
                self.pause()

    def pause(self, seconds: float | None = None) -> None:
        """Wait, by default `poll_s`. Raises Stopped."""
        if self._stop.wait(self._poll_s if seconds is None else seconds):
            raise Stopped(f"The sender of {self.address} was asked to stop.")

    def count(self, outcome: str) -> None:
        """Count an outcome in the metrics."""
        if self.metrics is not None:
            self.metrics.transactions.labels(outcome).inc()

    def refused(self, label: str, error: RpcRefused) -> TxRefused:
        """What to raise where the node will not take a transaction."""
        self.count("refused")
        kind = refusal_of(error.detail)
        if kind is Refusal.POOR:
            return TxRefused(
                f"{self.address} cannot pay for {label}: it has "
                f"{self._chain.balance(self.address) / _WEI_PER_ETH:.6f} ETH. Send it some ETH."
            )
        if kind is Refusal.NO_GAS:
            return too_big(label)
        return TxRefused(f"The node will not take {label}: {error.detail} (code {error.code}).")

    # -- waiting -------------------------------------------------------------------------------

    def _is_deep(self, receipt: Receipt, attempt: Attempt) -> bool:
        return attempt.seen.number - receipt.block + 1 >= self._confirmations

    @property
    def _fed(self) -> bool:
        """Whether new blocks are announced, and need not be asked for."""
        return self._feed is not None and self._feed.running

    def _await_block(self, attempt: Attempt) -> None:
        """Wait for the block after the one that was looked at last; for a while only, because
        the feed may be without a node."""
        if self._feed is not None and self._fed and not attempt.unseen:
            newer = self._feed.after(attempt.seen.hash, self._feed.block_s + _LATE_S)
            if self._stop.is_set():
                raise Stopped(f"The sender of {self.address} was asked to stop.")
            if newer is not None:
                attempt.seen = newer
                return
        attempt.seen = self._chain.newest_head()
        if self._feed is not None:
            self._feed.offer(attempt.seen)

    def _advance(self, attempt: Attempt) -> Receipt | None:
        """Look once: the final receipt, or None after doing what the situation asks for."""
        head = attempt.seen
        receipt = self.find_receipt(attempt)
        if receipt is not None:
            return receipt if self._is_deep(receipt, attempt) else None
        sent = attempt.hashes[-1]
        batch: list[tuple[str, list[Any]]] = [
            ("eth_getTransactionCount", [self.address, "latest"]),
            ("eth_getTransactionByHash", [sent]),
        ]
        answers = self._chain.ask_many(batch)
        nonce, known = (self._chain.value(batch[i][0], answers[i]) for i in range(2))
        if int(nonce, 16) > attempt.nonce:
            # Mined between the two questions, or someone else's transaction took the nonce. A node
            # may count the nonce, and have the transaction in a block, before it has the receipt.
            attempt.unseen += 1
            lost = attempt.unseen > _LOOKS and self.find_receipt(attempt) is None
            if lost and not self._is_mined(attempt):
                raise NonceTaken
            return None
        attempt.unseen = 0
        # A reorganisation may have made the chain shorter: it is stuck for blocks of this branch.
        attempt.sent_at = min(attempt.sent_at, head.number)
        if attempt.price_refused or head.number - attempt.sent_at >= self._stuck_blocks:
            self._bump(attempt, head)
            self._broadcast(attempt)
        elif known is None:
            self._log.info("tx_resent", call=attempt.label, tx=sent)
            self._broadcast(attempt)
        return None

    def _bump(self, attempt: Attempt, head: Head) -> None:
        tip, least = bumped(attempt.tip), bumped(attempt.max_fee)
        if max(tip, least) > self._max_fee:  # no node takes a replacement for less
            if attempt.price_refused:
                raise TxRefused(
                    f"{attempt.label} is refused as {attempt.price_refused} at {attempt.max_fee} "
                    f"wei per gas, and the limit is {self._max_fee} (`max_fee_wei`). Raise the "
                    "limit."
                )
            return
        # Twice the base fee may be above the limit where the limit itself is enough.
        max_fee = min(max(least, 2 * head.base_fee + tip), self._max_fee)
        attempt.tip, attempt.max_fee, attempt.raw = tip, max_fee, ""
        self.count("replaced")
        self._log.info("tx_replaced", call=attempt.label, nonce=attempt.nonce, max_fee=max_fee)

    def _broadcast(self, attempt: Attempt) -> None:
        """Hand the transaction to the node; sort its refusals."""
        if not attempt.raw:
            raw, digest = self._wallet.sign_transaction(attempt.request())
            attempt.raw = "0x" + raw.hex()
            attempt.hashes.append("0x" + digest.hex())
            self._log.debug(
                "tx_sent", call=attempt.label, nonce=attempt.nonce, tx=attempt.hashes[-1]
            )
        first = len(attempt.hashes) == 1
        attempt.price_refused = ""
        attempt.sent_at = attempt.seen.number
        try:
            self._chain.request("eth_sendRawTransaction", attempt.raw)
        except RpcRefused as error:
            kind = refusal_of(error.detail)
            if kind in (Refusal.KNOWN, Refusal.NONCE_USED):
                return  # on its way, or mined, or overtaken: the next look tells which
            if kind is Refusal.UNDERPRICED and first and not attempt.replacing:
                # Another process has just used this nonce: let its transaction be mined.
                raise NonceTaken from None
            if kind not in (Refusal.UNDERPRICED, Refusal.FEE_LOW):
                raise self.refused(attempt.label, error) from None
            attempt.price_refused = error.detail
            return
        if first:
            self.count("sent")

    def _is_mined(self, attempt: Attempt) -> bool:
        """Whether the node has any version of a transaction in a block."""
        batch = [("eth_getTransactionByHash", [tx_hash]) for tx_hash in attempt.hashes]
        answers = self._chain.ask_many(batch)
        found = (self._chain.value(one[0], answers[i]) for i, one in enumerate(batch))
        return any(tx is not None and tx.get("blockHash") is not None for tx in found)

    def find_receipt(self, attempt: Attempt) -> Receipt | None:
        """Look for the receipt of any version of a transaction in the chain as it is."""
        for tx_hash in reversed(attempt.hashes):
            raw = self._chain.request("eth_getTransactionReceipt", tx_hash)
            if raw is None or raw.get("blockHash") is None:
                continue
            receipt = Receipt.from_json(raw)
            if receipt.block > attempt.seen.number:
                attempt.seen = self._chain.newest_head()
            # A reorg may have removed the block since.
            if receipt.block_hash == attempt.seen.hash:
                return receipt
            if self._chain.newest_hash(receipt.block) == receipt.block_hash:
                return receipt
        return None

    def _patiently(self, look: Callable[[], Any]) -> Any:
        """Run `look` until the node answers: a transaction may be out, so giving up is wrong."""
        while True:
            try:
                return look()
            except RpcDown:
                self.pause(4 * self._poll_s)


def too_big(label: str) -> TxRefused:
    """What to raise for a call that no transaction has room for."""
    return TxRefused(
        f"{label} needs more than the {GAS_CAP} gas that one transaction may use. Send it in "
        "smaller batches."
    )
