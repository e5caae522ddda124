# SPDX-License-Identifier: Apache-2.0
"""Sending transactions from one key, until the chain has answered.

Rule: `send` returns a successful receipt or raises; it never leaves a transaction of its own in an
unknown state while the process lives. Nothing about it is remembered across restarts: what an
earlier process left in the node's pool is waited for, then replaced.

1. Wait until the pool holds nothing of this key, and ask the contract by `eth_call` in the same
   request: a refusal costs no gas and carries the reason.
2. Sign with EIP-1559 fees and the next nonces, and send. Calls that do not depend on each other
   (`send_all`) go together: on a chain with a block every 12 seconds, eight of them one after the
   other take 96.
3. Wait for the receipts (`agents.runtime.delivery`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract
from agents.runtime.delivery import Delivery, NonceTaken
from agents.runtime.errors import AgentError, Reverted, RpcDown, RpcRefused, TxRefused
from agents.runtime.feed import HeadFeed
from agents.runtime.head import Head, head_from_json
from agents.runtime.logs import Log
from agents.runtime.metrics import Metrics
from agents.runtime.transaction import Attempt, Order, Receipt, gas_limit
from agents.runtime.wallet import Wallet

_MIN_TIP = 1
TOGETHER = 16  # transactions of one key that every node's pool has room for (geth: accountslots)
# What a contract refuses until the next block, which is where a transaction goes. Most nodes answer
# `eth_call` as if in the newest block.
_NEXT_BLOCK = ("randomness: too early", "tasks: too early")

_Asked = list[tuple[str, list[Any]]]
_Outcome = Receipt | AgentError


class _NotWanted(AgentError):
    """What was to be sent is not to be sent any more."""


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
        self.delivery = Delivery(
            chain,
            wallet,
            log,
            metrics,
            stop or threading.Event(),
            stuck_blocks,
            confirmations,
            poll_s,
            max_fee_wei,
            feed,
        )
        self._chain = chain
        self._chain_id = chain_id
        self._log = log
        self._stuck_blocks = stuck_blocks
        self._max_fee = max_fee_wei
        self._feed = feed
        self._one_at_a_time = threading.Lock()

    # -- public --------------------------------------------------------------------------------

    @property
    def block_s(self) -> float:
        """Seconds between two blocks, as they have come of late; 0 while that is not known."""
        return 0.0 if self._feed is None else self._feed.block_s

    def send(self, contract: Contract, function: str, *args: Any, value: int = 0) -> Receipt:
        """Call `function` in a transaction and return its successful receipt.

        Raises Reverted (before sending when possible), TxRefused (not enough ether, gas above
        the cap, fee above `max_fee_wei`), RpcDown (nothing was sent), or Stopped.
        """
        (outcome,) = self._together([Order(contract, function, args, value)])
        if isinstance(outcome, AgentError):
            raise outcome
        return outcome

    def ensure(
        self,
        done: Callable[[], bool],
        contract: Contract,
        function: str,
        *args: Any,
        value: int = 0,
        unless: Callable[[], bool] | None = None,
    ) -> Receipt | None:
        """Send unless `done()`; a revert is fine if `done()` holds after it (someone was faster).

        Returns the receipt, or None when there was nothing left to do. `unless`: asked right before
        it is signed, of the newest block, when nothing of this key is pending any more; if it holds
        nothing is sent, and None returned. What an earlier process left in the pool is in the chain
        by then, or is replaced by this call for good.
        """
        if done():
            return None
        try:
            (outcome,) = self._together([Order(contract, function, args, value)], unless)
            if isinstance(outcome, AgentError):
                raise outcome
            return outcome
        except _NotWanted:
            return None
        except Reverted:
            if done():
                return None
            raise

    def send_all(self, orders: Sequence[Order]) -> list[Receipt | Reverted]:
        """Send calls that do not depend on each other, up to 16 in one block.

        Returns, in order, what became of each: a call that the contract refuses holds up no other.
        Raises as `send` does for everything else, once those that could be sent are mined.
        """
        found: list[Receipt | Reverted] = []
        for first in range(0, len(orders), TOGETHER):
            for outcome in self._together(orders[first : first + TOGETHER]):
                if isinstance(outcome, AgentError) and not isinstance(outcome, Reverted):
                    raise outcome
                found.append(outcome)
        return found

    # -- together ------------------------------------------------------------------------------

    def _together(
        self, orders: Sequence[Order], unless: Callable[[], bool] | None = None
    ) -> list[_Outcome]:
        outcomes: dict[int, _Outcome] = {}
        seen: Head | None = None
        with self._one_at_a_time:
            try:
                while left := [place for place in range(len(orders)) if place not in outcomes]:
                    sent: dict[int, Attempt] = {}
                    prepared = self._prepare([orders[place] for place in left], unless)
                    for place, attempt in zip(left, prepared, strict=True):
                        if isinstance(attempt, AgentError):
                            outcomes[place] = attempt
                        elif not self._begin(place, attempt, sent, outcomes):
                            break  # the nonces of those that follow are another's
                    for place, attempt in sent.items():
                        self._finish(place, attempt, outcomes)
                        seen = attempt.seen
            finally:
                # A refusal says that the chain is not what the caller read.
                refused = any(isinstance(outcome, Reverted) for outcome in outcomes.values())
                if refused or seen is not None:
                    self._chain.look_again(None if refused else seen)
        return [outcomes[place] for place in range(len(orders))]

    def _begin(
        self,
        place: int,
        attempt: Attempt,
        sent: dict[int, Attempt],
        outcomes: dict[int, _Outcome],
    ) -> bool:
        """Hand one of several to the node; False if its nonce is not used by it."""
        try:
            self.delivery.begin(attempt)
        except NonceTaken:
            self._log.info("tx_nonce_taken", call=attempt.label, nonce=attempt.nonce)
            self.delivery.pause()  # a node may say so before it counts the other as pending
            return False
        except TxRefused as error:
            outcomes[place] = error
            return False
        sent[place] = attempt
        return True

    def _finish(self, place: int, attempt: Attempt, outcomes: dict[int, _Outcome]) -> None:
        """Wait for one of several; no outcome yet if its nonce went to another transaction."""
        try:
            outcomes[place] = self._judged(attempt, self.delivery.receipt(attempt))
        except NonceTaken:
            self._log.info("tx_nonce_taken", call=attempt.label, nonce=attempt.nonce)
        except TxRefused as error:
            outcomes[place] = error

    # -- before sending ------------------------------------------------------------------------

    def _prepare(
        self, orders: Sequence[Order], unless: Callable[[], bool] | None
    ) -> list[Attempt | AgentError]:
        """Wait until no transaction of this key is pending, or replace one that stays; ask.

        Raises _NotWanted if `unless` holds then.
        """
        requests = [order.request(self.address) for order in orders]
        batch: _Asked = [
            ("eth_getTransactionCount", [self.address, "pending"]),
            ("eth_getTransactionCount", [self.address, "latest"]),
            ("eth_getBlockByNumber", ["latest", False]),
            ("eth_maxPriorityFeePerGas", []),
        ]
        for request in requests:
            # Named, because some nodes estimate on the pending block: a stranger's transaction
            # that never gets mined could then hold an agent back.
            batch += self._questions(request, "latest")
        since: int | None = None
        while True:
            answers = self._chain.ask_many(batch)
            pending, nonce, raw = (
                self._chain.value(batch[place][0], answers[place]) for place in range(3)
            )
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
            self.delivery.pause()
        if unless is not None:
            self._chain.look_again()
            if unless():
                raise _NotWanted
        tip = self._tip(answers[3])
        found: list[Attempt | AgentError] = []
        next_nonce = int(nonce, 16)
        for place, (order, request) in enumerate(zip(orders, requests, strict=True)):
            asked = answers[4 + 2 * place : 6 + 2 * place]
            try:
                gas = self._gas(order, request, asked)
                max_fee = self._affordable(order.label, head.base_fee, tip)
            except AgentError as error:
                found.append(error)
                continue
            found.append(
                Attempt(
                    label=order.label,
                    nonce=next_nonce,
                    to=order.contract.address,
                    data=request["data"],
                    value=order.value,
                    gas=gas_limit(gas),
                    tip=tip,
                    max_fee=max_fee,
                    chain_id=self._chain_id,
                    seen=head,
                    replacing=int(pending, 16) > next_nonce,
                )
            )
            next_nonce += 1
        return found

    def _questions(self, request: dict[str, Any], block: str) -> _Asked:
        return [("eth_call", [request, block]), ("eth_estimateGas", [request, block])]

    def _gas(self, order: Order, request: dict[str, Any], answers: list[Any]) -> int:
        """What a call takes, as the node estimates it. Raises Reverted or TxRefused."""
        try:
            try:
                gas = self._estimate(answers)
            except Reverted as early:
                if early.reason not in _NEXT_BLOCK:
                    raise
                gas = self._estimate(self._chain.ask_many(self._questions(request, "pending")))
        except Reverted as error:
            self.delivery.count("reverted")
            raise Reverted(error.reason, order.label) from None
        except RpcRefused as error:
            raise self.delivery.refused(order.label, error) from None
        return gas

    def _estimate(self, answers: list[Any]) -> int:
        self._chain.value("eth_call", answers[0])
        return int(self._chain.value("eth_estimateGas", answers[1]), 16)

    def _tip(self, answer: dict[str, Any]) -> int:
        try:
            return max(int(self._chain.value("eth_maxPriorityFeePerGas", answer), 16), _MIN_TIP)
        except RpcRefused:
            return 10**9  # a node without the method: 1 gwei, raised later if it proves too little

    def _affordable(self, label: str, base_fee: int, tip: int) -> int:
        """What to offer per gas: room for the base fee to double, as far as the limit goes.

        Raises TxRefused where the limit does not pay for the next block as it is now.
        """
        if base_fee + tip > self._max_fee:
            raise TxRefused(
                f"{label} would cost {base_fee + tip} wei per gas, above the limit of "
                f"{self._max_fee} (`max_fee_wei`). Raise the limit or wait for cheaper blocks."
            )
        return min(2 * base_fee + tip, self._max_fee)

    # -- afterwards ----------------------------------------------------------------------------

    def _judged(self, attempt: Attempt, receipt: Receipt) -> _Outcome:
        if receipt.status == 1:
            self._log.info("tx", call=attempt.label, tx=receipt.tx_hash, gas=receipt.gas_used)
            self.delivery.count("mined")
            return receipt
        self.delivery.count("reverted")
        return Reverted(self._reason_of(attempt, receipt), attempt.label, receipt.tx_hash)

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
