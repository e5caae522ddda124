# SPDX-License-Identifier: Apache-2.0
"""Sending transactions: one at a time per key, until the chain has answered.

Rule: `send` returns a successful receipt or raises; it never leaves a transaction of its own in an
unknown state while the process lives. Nothing about it is remembered across restarts: what an
earlier process left in the node's pool is waited for, then replaced.

1. Wait until the pool holds nothing of this key, and ask the contract by `eth_call` in the same
   request: a refusal costs no gas and carries the reason.
2. Sign with EIP-1559 fees and the next nonce, and send.
3. Look for the receipt once in each block.
   Stuck for `stuck_blocks` blocks: same nonce, both fees +12.5 % (nodes ask for 10 %).
   Dropped from the pool or the chain (a reorg): the same bytes again.
   Nonce used by another process with this key: start over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract
from agents.runtime.errors import Reverted, RpcDown, RpcRefused, Stopped, TxRefused
from agents.runtime.feed import HeadFeed
from agents.runtime.head import Head, head_from_json
from agents.runtime.logs import Log
from agents.runtime.metrics import Metrics
from agents.runtime.transaction import (
    GAS_CAP,
    Attempt,
    Receipt,
    Refusal,
    bumped,
    gas_limit,
    refusal_of,
)
from agents.runtime.wallet import Wallet

_MIN_TIP = 1
_LATE_S = 2.0  # after the time of a block, and the node is asked what has become of it
_LOOKS = 8  # for the receipt of a nonce that was used, `poll_s` apart
_WEI_PER_ETH = 10**18


class _RestartError(Exception):
    """The nonce went to another transaction: begin again."""


class Sender:
    """Sends transactions from one key.

    `stuck_blocks` without inclusion cause a replacement. `confirmations` is how many blocks,
    counting its own, a transaction must have before `send` returns (1: as soon as it is mined;
    agents re-read the chain on every head, so a later reorg only makes them act again). New blocks
    are waited for at `feed`; where none runs the node is asked every `poll_s`.
    `max_fee_wei` caps the fee per gas. RPC outages during a wait are sat out; `stop` ends the wait
    with Stopped.
    """

    def __init__(
        self,
        chain: ChainClient,
        wallet: Wallet,
        chain_id: int,
        log: Log,
        metrics: Metrics | None = None,
        stop: threading.Event | None = None,
        stuck_blocks: int = 3,
        confirmations: int = 1,
        poll_s: float = 0.15,
        max_fee_wei: int = 10**13,
        feed: HeadFeed | None = None,
    ) -> None:
        self.address = wallet.address
        self._chain = chain
        self._wallet = wallet
        self._chain_id = chain_id
        self._log = log
        self._metrics = metrics
        self._stop = stop or threading.Event()
        self._stuck_blocks = stuck_blocks
        self._confirmations = confirmations
        self._poll_s = poll_s
        self._max_fee = max_fee_wei
        self._feed = feed
        self._one_at_a_time = threading.Lock()

    # -- public --------------------------------------------------------------------------------

    def send(self, contract: Contract, function: str, *args: Any, value: int = 0) -> Receipt:
        """Call `function` in a transaction and return its successful receipt.

        Raises Reverted (before sending when possible), TxRefused (not enough ether, gas above
        the cap, fee above `max_fee_wei`), RpcDown (nothing was sent), or Stopped.
        """
        label = f"{contract.name}.{function}"
        data = "0x" + contract.function(function, len(args)).encode(args).hex()
        with self._one_at_a_time:
            try:
                while True:
                    attempt = self._prepare(label, contract.address, data, value)
                    try:
                        receipt = self._deliver(label, attempt)
                    except _RestartError:
                        self._log.info("tx_nonce_taken", call=label, nonce=attempt.nonce)
                        continue
                    self._chain.look_again(attempt.seen)
                    return self._judge(label, attempt, receipt)
            except Reverted:
                self._chain.look_again()  # it is not what the caller read
                raise

    def ensure(
        self,
        done: Callable[[], bool],
        contract: Contract,
        function: str,
        *args: Any,
        value: int = 0,
    ) -> Receipt | None:
        """Send unless `done()`; a revert is fine if `done()` holds after it (someone was faster).

        Returns the receipt, or None when there was nothing left to do.
        """
        if done():
            return None
        try:
            return self.send(contract, function, *args, value=value)
        except Reverted:
            if done():
                return None
            raise

    # -- before sending ------------------------------------------------------------------------

    def _nonce(self) -> int:
        return int(self._chain.request("eth_getTransactionCount", self.address, "latest"), 16)

    def _prepare(self, label: str, to: str, data: str, value: int) -> Attempt:
        """Wait until no transaction of this key is pending, or replace one that stays; ask."""
        request = {"from": self.address, "to": to, "data": data, "value": hex(value)}
        batch: list[tuple[str, list[Any]]] = [
            ("eth_getTransactionCount", [self.address, "pending"]),
            ("eth_getTransactionCount", [self.address, "latest"]),
            ("eth_getBlockByNumber", ["latest", False]),
            ("eth_call", [{**request, "gas": hex(GAS_CAP)}, "latest"]),
            # Named, because some nodes estimate on the pending block: a stranger's transaction
            # that never gets mined could then hold an agent back.
            ("eth_estimateGas", [request, "latest"]),
            ("eth_maxPriorityFeePerGas", []),
        ]
        since: int | None = None
        while True:
            answers = self._chain.ask_many(batch)
            pending, nonce, raw = (self._value(batch, answers, place) for place in range(3))
            head = head_from_json(raw)
            if self._feed is not None:
                self._feed.offer(head)
            if int(pending, 16) <= int(nonce, 16):
                break
            if since is None:
                since = head.number
                self._log.info("tx_leftover", address=self.address)
            if head.number - since >= self._stuck_blocks:
                break
            self._pause()
        try:
            self._value(batch, answers, 3)
            gas = int(self._value(batch, answers, 4), 16)
        except Reverted as error:
            self._count("reverted")
            raise Reverted(error.reason, label) from None
        except RpcRefused as error:
            raise self._refused(label, error) from None
        if gas > GAS_CAP:
            raise self._too_big(label)
        tip = self._tip(answers[5])
        return Attempt(
            nonce=int(nonce, 16),
            to=to,
            data=data,
            value=value,
            gas=gas_limit(gas),
            tip=tip,
            max_fee=self._capped(label, 2 * head.base_fee + tip),
            chain_id=self._chain_id,
            seen=head,
            replacing=int(pending, 16) > int(nonce, 16),
        )

    def _value(
        self, batch: list[tuple[str, list[Any]]], answers: list[dict[str, Any]], place: int
    ) -> Any:
        return self._chain.value(batch[place][0], answers[place])

    def _tip(self, answer: dict[str, Any]) -> int:
        try:
            return max(int(self._chain.value("eth_maxPriorityFeePerGas", answer), 16), _MIN_TIP)
        except RpcRefused:
            return 10**9  # a node without the method: 1 gwei, raised later if it proves too little

    def _capped(self, label: str, fee: int) -> int:
        if fee > self._max_fee:
            raise TxRefused(
                f"{label} would cost {fee} wei per gas, above the limit of {self._max_fee} "
                "(`max_fee_wei`). Raise the limit or wait for cheaper blocks."
            )
        return fee

    # -- sending and waiting -------------------------------------------------------------------

    def _deliver(self, label: str, attempt: Attempt) -> Receipt:
        self._patiently(lambda: self._broadcast(label, attempt))
        # A chain that mines each transaction at once has the receipt now.
        found: Receipt | None = self._patiently(lambda: self._find_receipt(attempt))
        if found is not None and self._is_deep(found, attempt):
            return found
        while True:
            self._patiently(lambda: self._await_block(attempt))
            receipt: Receipt | None = self._patiently(lambda: self._advance(label, attempt))
            if receipt is not None:
                return receipt
            if not self._fed or attempt.unseen:
                self._pause()

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

    def _advance(self, label: str, attempt: Attempt) -> Receipt | None:
        """Look once: the final receipt, or None after doing what the situation asks for."""
        head = attempt.seen
        receipt = self._find_receipt(attempt)
        if receipt is not None:
            return receipt if self._is_deep(receipt, attempt) else None
        sent = attempt.hashes[-1]
        batch: list[tuple[str, list[Any]]] = [
            ("eth_getTransactionCount", [self.address, "latest"]),
            ("eth_getTransactionByHash", [sent]),
        ]
        answers = self._chain.ask_many(batch)
        if int(self._value(batch, answers, 0), 16) > attempt.nonce:
            # Mined between the two questions, or someone else's transaction took the nonce. A node
            # may count the nonce before it has the receipt.
            attempt.unseen += 1
            if attempt.unseen > _LOOKS and self._find_receipt(attempt) is None:
                raise _RestartError
            return None
        attempt.unseen = 0
        if attempt.price_refused or head.number - attempt.sent_at >= self._stuck_blocks:
            self._bump(label, attempt, head)
            self._broadcast(label, attempt)
        elif self._value(batch, answers, 1) is None:
            self._log.info("tx_resent", call=label, tx=sent)
            self._broadcast(label, attempt)
        return None

    def _bump(self, label: str, attempt: Attempt, head: Head) -> None:
        tip = bumped(attempt.tip)
        max_fee = max(bumped(attempt.max_fee), 2 * head.base_fee + tip)
        if max_fee > self._max_fee and attempt.price_refused:
            raise TxRefused(
                f"{label} is refused as {attempt.price_refused} at {attempt.max_fee} wei per gas, "
                f"and the limit is {self._max_fee} (`max_fee_wei`). Raise the limit."
            )
        if max_fee <= self._max_fee:
            attempt.tip, attempt.max_fee, attempt.raw = tip, max_fee, ""
            self._count("replaced")
            self._log.info("tx_replaced", call=label, nonce=attempt.nonce, max_fee=max_fee)

    def _broadcast(self, label: str, attempt: Attempt) -> None:
        """Hand the transaction to the node; sort its refusals."""
        if not attempt.raw:
            raw, digest = self._wallet.sign_transaction(attempt.request())
            attempt.raw = "0x" + raw.hex()
            attempt.hashes.append("0x" + digest.hex())
            self._log.debug("tx_sent", call=label, nonce=attempt.nonce, tx=attempt.hashes[-1])
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
                raise _RestartError from None
            if kind not in (Refusal.UNDERPRICED, Refusal.FEE_LOW):
                raise self._refused(label, error) from None
            attempt.price_refused = error.detail
            return
        if first:
            self._count("sent")

    def _find_receipt(self, attempt: Attempt) -> Receipt | None:
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

    # -- afterwards ----------------------------------------------------------------------------

    def _judge(self, label: str, attempt: Attempt, receipt: Receipt) -> Receipt:
        if receipt.status == 1:
            self._log.info("tx", call=label, tx=receipt.tx_hash, gas=receipt.gas_used)
            self._count("mined")
            return receipt
        self._count("reverted")
        raise Reverted(self._reason_of(attempt, receipt), label, receipt.tx_hash)

    def _reason_of(self, attempt: Attempt, receipt: Receipt) -> str:
        request = {
            "from": self.address,
            "to": attempt.to,
            "data": attempt.data,
            "value": hex(attempt.value),
            "gas": hex(attempt.gas),
        }
        # The state after the block shows what other transactions of the block had changed; the
        # state before it is the next best guess.
        for block in (receipt.block, receipt.block - 1):
            try:
                self._chain.request("eth_call", request, hex(block))
            except Reverted as error:
                return error.reason
            except (RpcRefused, RpcDown):
                continue
        return "out of gas" if receipt.gas_used >= attempt.gas else "the state has since changed"

    def _too_big(self, label: str) -> TxRefused:
        return TxRefused(
            f"{label} needs more than the {GAS_CAP} gas that one transaction may use. Send it in "
            "smaller batches."
        )

    def _refused(self, label: str, error: RpcRefused) -> TxRefused:
        self._count("refused")
        kind = refusal_of(error.detail)
        if kind is Refusal.POOR:
            return TxRefused(
                f"{self.address} cannot pay for {label}: it has "
                f"{self._chain.balance(self.address) / _WEI_PER_ETH:.6f} ETH. Send it some ETH."
            )
        if kind is Refusal.NO_GAS:
            return self._too_big(label)
        return TxRefused(f"The node will not take {label}: {error.detail} (code {error.code}).")

    def _patiently(self, look: Callable[[], Any]) -> Any:
        """Run `look` until the node answers: a transaction may be out, so giving up is wrong."""
        while True:
            try:
                return look()
            except RpcDown:
                self._pause(4 * self._poll_s)

    def _pause(self, seconds: float | None = None) -> None:
        if self._stop.wait(self._poll_s if seconds is None else seconds):
            raise Stopped(f"The sender of {self.address} was asked to stop.")

    def _count(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.transactions.labels(outcome).inc()
