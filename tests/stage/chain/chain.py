# SPDX-License-Identifier: Apache-2.0
"""A real chain as an attacker meets it: signed transactions in, receipts and revert reasons out.

Rule: every action is an ordinary transaction with a signature and the largest gas limit that
EIP-7825 allows. Nothing is impersonated; only the clock is turned, as time would.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

from eth_abi import decode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak, to_checksum_address

from agents.runtime.contracts import Contract, Event
from agents.runtime.sessions import Sessions

GAS_CAP = 16_777_216  # EIP-7825
_FEE = 10 * 10**9
_TIP = 10**9
_ERROR = keccak(text="Error(string)")[:4]
_RECEIPT_WAIT_S = 60.0
_ANSWER_WAIT_S = 120.0  # a busy machine took more than 30 s for 256 blocks
_JSON = {"Content-Type": "application/json"}
_MINED_AT_ONCE = 128
_MINERS = itertools.count(1 << 64)  # addresses that nobody else has

Query = tuple[Contract, str, tuple[Any, ...]]


def key_of(name: str) -> LocalAccount:
    """A key that is always the same for a name."""
    return Account.from_key(keccak(text=f"attack test key {name}"))  # type: ignore[no-any-return]


class Refused(AssertionError):
    """A transaction reverted; the message is the contract's reason."""


class Chain:
    """A client of one anvil, which mines a block for each transaction."""

    def __init__(self, url: str, chain_id: int) -> None:
        self._url = url
        self._chain_id = chain_id
        self._sessions = Sessions(url)
        self._nonces: dict[str, int] = {}

    def rpc(self, method: str, *params: Any) -> Any:
        """One JSON-RPC request. Raises AssertionError with the node's message."""
        return self._batch([(method, list(params))])[0]

    def _batch(self, requests_: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        body = [
            {"jsonrpc": "2.0", "id": i, "method": method, "params": params}
            for i, (method, params) in enumerate(requests_)
        ]
        sent = json.dumps(body).encode()
        got = self._sessions.post(self._url, data=sent, headers=_JSON, timeout=_ANSWER_WAIT_S)
        answers = got.json()
        answers.sort(key=lambda answer: answer["id"])
        for answer, (method, _) in zip(answers, requests_, strict=True):
            assert "error" not in answer, f"{method}: {answer.get('error')}"
        return [answer["result"] for answer in answers]

    # Reading

    def call(self, contract: Contract, function: str, *args: Any) -> Any:
        return self.calls([(contract, function, args)])[0]

    def calls(self, queries: Sequence[Query]) -> list[Any]:
        """What several views answer, in one request."""
        found = [contract.function(name, len(args)) for contract, name, args in queries]
        wanted = [
            {"to": contract.address, "data": "0x" + function.encode(args).hex()}
            for (contract, _, args), function in zip(queries, found, strict=True)
        ]
        answers = self._batch([("eth_call", [call, "latest"]) for call in wanted])
        return [
            function.decode(bytes.fromhex(answer[2:]))
            for function, answer in zip(found, answers, strict=True)
        ]

    @property
    def now(self) -> int:
        return int(self.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    # Writing

    def send(
        self, account: LocalAccount, contract: Contract, function: str, *args: Any
    ) -> dict[str, Any]:
        """Send a transaction and return its receipt. Raises Refused when it reverts."""
        data = contract.function(function, len(args)).encode(args)
        receipt = self.transact(account, contract.address, data)
        if int(receipt["status"], 16) != 1:
            raise Refused(self._reason(receipt))
        return receipt

    def refuse(
        self, reason: str, account: LocalAccount, contract: Contract, function: str, *args: Any
    ) -> None:
        """The transaction is mined and reverts with exactly this reason."""
        try:
            self.send(account, contract, function, *args)
        except Refused as error:
            assert str(error) == reason, f"{function}: {str(error)!r} instead of {reason!r}"
            return
        raise AssertionError(f"{function}{args} was accepted; {reason!r} was expected")

    def transact(
        self, account: LocalAccount, to: str | None, data: bytes = b"", value: int = 0
    ) -> dict[str, Any]:
        """Sign, send and wait; the receipt says whether it reverted. `to` None deploys code."""
        return self.receipt(self.submit(account, to, data, value))

    def submit(
        self,
        account: LocalAccount,
        to: str | None,
        data: bytes = b"",
        value: int = 0,
        tip: int = _TIP,
        gas: int = GAS_CAP,
    ) -> str:
        """Sign and send, without waiting: the transaction's hash. A higher tip goes first."""
        address = account.address
        if address not in self._nonces:
            self._nonces[address] = int(self.rpc("eth_getTransactionCount", address, "latest"), 16)
        tx = {
            "type": 2,
            "chainId": self._chain_id,
            "nonce": self._nonces[address],
            "gas": gas,
            "maxFeePerGas": _FEE + tip,
            "maxPriorityFeePerGas": tip,
            "value": value,
            "data": data,
            **({} if to is None else {"to": to_checksum_address(to)}),
        }
        raw = account.sign_transaction(tx).raw_transaction
        tx_hash = self.rpc("eth_sendRawTransaction", "0x" + raw.hex())
        self._nonces[address] += 1
        return str(tx_hash)

    def receipt(self, tx_hash: str) -> dict[str, Any]:
        end = time.monotonic() + _RECEIPT_WAIT_S
        while time.monotonic() < end:
            found = self.rpc("eth_getTransactionReceipt", tx_hash)
            if found is not None:
                return found  # type: ignore[no-any-return]
            time.sleep(0.002)
        raise AssertionError(f"{tx_hash} was not mined")

    def _reason(self, receipt: dict[str, Any]) -> str:
        trace = self.rpc(
            "debug_traceTransaction", receipt["transactionHash"], {"tracer": "callTracer"}
        )
        output = bytes.fromhex(trace.get("output", "0x")[2:])
        if output[:4] != _ERROR:
            return f"no reason string: 0x{output.hex()}, {trace.get('error')}"
        return str(decode(["string"], output[4:])[0])

    def event(self, receipt: dict[str, Any], contract: Contract, name: str) -> dict[str, Any]:
        """The fields of the one event of this name in a receipt."""
        kind = contract.event(name)
        found: list[Event] = [
            kind.decode(log)
            for log in receipt["logs"]
            if log["address"].lower() == contract.address.lower()
            and log["topics"][0] == "0x" + kind.topic.hex()
        ]
        assert len(found) == 1, f"{len(found)} events {name}"
        return found[0].args

    # Time

    def warp(self, seconds: int) -> None:
        """Let time pass, and mine a block at its end."""
        self.rpc("evm_increaseTime", hex(seconds))
        self.rpc("evm_mine")

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks, no more in one request than a slow machine mines before it times out."""
        for done in range(0, blocks, _MINED_AT_ONCE):
            self.rpc("anvil_mine", hex(min(_MINED_AT_ONCE, blocks - done)))

    def snapshot(self) -> str:
        return str(self.rpc("evm_snapshot"))

    def revert(self, snapshot: str) -> None:
        """Return to a remembered state, once. From here on blocks have another miner.

        Else the same transactions at the same second give a block of the same hash. Anvil keeps
        states by hashes: it would drop that of the second one with that of the first.
        """
        assert self.rpc("evm_revert", snapshot) is True
        self.rpc("anvil_setCoinbase", f"0x{next(_MINERS):040x}")
        self._nonces.clear()
