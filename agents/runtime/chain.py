# SPDX-License-Identifier: Apache-2.0
"""Reads the chain, and tells a node that is down from a contract that refuses.

Rule: a request is tried a bounded number of times and then raises `RpcDown`; the loop above waits
and tries for ever. A contract's refusal is always `Reverted` with the contract's own string, and
any other refusal of the node is `RpcRefused`. One outage is logged once, and its end once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from web3 import HTTPProvider, Web3
from web3.exceptions import BadResponseFormat
from web3.types import RPCEndpoint

from agents.runtime.contracts import Contract, Deployment, Event, Function
from agents.runtime.errors import ConfigError, Reverted, RpcDown, RpcRefused
from agents.runtime.logs import Log, scrub
from agents.runtime.traffic import Traffic
from agents.runtime.urls import hide

_ERROR_SELECTOR = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR = bytes.fromhex("4e487b71")  # Panic(uint256)
# requests decodes bodies itself and can raise plain ValueError on half a JSON document.
_DOWN = (requests.RequestException, BadResponseFormat, ValueError, OSError)
_BUSY_CODES = (-32005, 429)  # rate limited: waiting helps
_RANGE_WORDS = ("range", "more than", "too many", "limit", "too large")
NO_REASON = "no reason given"

BlockId = int | str


@dataclass(frozen=True)
class Head:
    """A block header. `reorged` says that blocks seen before are no longer in the chain."""

    number: int
    hash: bytes
    parent: bytes
    timestamp: int
    base_fee: int = 0
    reorged: bool = False


def revert_reason(data: bytes, message: str) -> str:
    """Return the reason in revert data, else the one in the node's message."""
    try:
        if data[:4] == _ERROR_SELECTOR:
            return str(decode(["string"], data[4:])[0])
        if data[:4] == _PANIC_SELECTOR:
            return f"panic {decode(['uint256'], data[4:])[0]:#x}"
    except (DecodingError, ValueError):
        return f"undecodable revert data 0x{data.hex()}"
    if data:
        return f"revert data 0x{data.hex()}"
    for prefix in ("execution reverted:", "VM Exception while processing transaction: reverted:"):
        if message.startswith(prefix):
            return message.removeprefix(prefix).strip()
    return NO_REASON


def _error_data(error: dict[str, Any]) -> bytes:
    """Return revert data from the shapes nodes use: a string, or an object holding one."""
    data = error.get("data")
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    if not isinstance(data, str):
        return b""
    text = data.removeprefix("Reverted ").removeprefix("0x")
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _failure(error: BaseException) -> str:
    """The kind of a failure and what the system said: the text of the HTTP layer holds the URL."""
    kind = type(error).__name__
    response = getattr(error, "response", None)
    if response is not None:
        return f"{kind}: HTTP status {response.status_code}"
    if isinstance(error, ValueError) and not isinstance(error, requests.RequestException):
        return f"{kind}: {scrub(str(error))[:200]}"
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return f"{kind}: {inner.strerror}"
        inner = inner.__cause__ or inner.__context__
    return kind


class ChainClient:
    """One connection to an RPC node. Safe for threads.

    `tries` bounds one request; the pause doubles from `pause_s`. `timeout_s` bounds one answer.
    """

    def __init__(
        self,
        url: str,
        log: Log,
        tries: int = 3,
        pause_s: float = 0.2,
        timeout_s: float = 10.0,
    ) -> None:
        self.url = url
        self.place = hide(url)
        self._log = log
        self._tries = tries
        self._pause_s = pause_s
        self.traffic = Traffic()
        self._provider = HTTPProvider(
            url, request_kwargs={"timeout": timeout_s}, exception_retry_configuration=None
        )
        self.w3 = Web3(self._provider)
        self._outage_guard = threading.Lock()
        self._down_since: float | None = None

    # -- requests ------------------------------------------------------------------------------

    def request(self, method: str, *params: Any) -> Any:
        """Send one JSON-RPC request and return its result.

        Raises RpcDown, Reverted or RpcRefused.
        """
        answer = self._ask(method, list(params))
        return self._result(method, answer)

    def _ask(self, method: str, params: list[Any]) -> Any:
        """The node's answer to one request, a refusal too."""
        return self._with_tries(
            [method], lambda: self._provider.make_request(RPCEndpoint(method), params)
        )

    def _ask_many(self, batch: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        """The node's answers to several requests in one HTTP request, in order."""
        sent: list[tuple[RPCEndpoint, Any]] = [(RPCEndpoint(m), params) for m, params in batch]
        methods = [method for method, _ in batch]
        answers = self._with_tries(methods, lambda: self._provider.make_batch_request(sent))
        if not isinstance(answers, list) or len(answers) != len(batch):
            self._result("batch", answers)
            raise RpcRefused("batch", 0, "the answer does not match the request")
        return answers

    def _with_tries(self, methods: Sequence[str], send: Callable[[], Any]) -> Any:
        failure = ""
        for attempt in range(self._tries):
            if attempt:
                time.sleep(self._pause_s * 2 ** (attempt - 1))
            self.traffic.sent(methods)
            try:
                answer = send()
            except _DOWN as error:
                failure = _failure(error)
                continue
            error_part = answer.get("error") if isinstance(answer, dict) else None
            if isinstance(error_part, dict) and error_part.get("code") in _BUSY_CODES:
                failure = scrub(str(error_part.get("message")))
                continue
            self._up()
            return answer
        self._down(failure)
        raise RpcDown(
            f"The RPC node at {self.place} did not answer {self._tries} tries ({failure}). The "
            "agent keeps trying; check that the node runs and that `rpc_url` is right."
        )

    def _result(self, method: str, answer: Any, call: str = "") -> Any:
        error = answer.get("error") if isinstance(answer, dict) else {"message": repr(answer)}
        if error is None:
            return answer.get("result")
        code, message = int(error.get("code", 0)), scrub(str(error.get("message", "")))
        data = _error_data(error)
        if code == 3 or data or "revert" in message.lower():
            raise Reverted(revert_reason(data, message), call)
        raise RpcRefused(method, code, message)

    def _down(self, why: str) -> None:
        with self._outage_guard:
            if self._down_since is None:
                self._down_since = time.monotonic()
                self._log.warning("rpc_down", url=self.place, why=why)

    def _up(self) -> None:
        if self._down_since is None:
            return
        with self._outage_guard:
            if self._down_since is not None:
                lasted = round(time.monotonic() - self._down_since, 1)
                self._down_since = None
                self._log.info("rpc_back", url=self.place, after_s=lasted)

    # -- the network ---------------------------------------------------------------------------

    def chain_id(self) -> int:
        """Return the chain id that the node serves."""
        return int(self.request("eth_chainId"), 16)

    def check(self, deployment: Deployment) -> None:
        """Raise ConfigError unless the node serves the deployment's chain and has its code."""
        served = self.chain_id()
        if served != deployment.chain_id:
            raise ConfigError(
                f"The RPC node at {self.place} serves chain {served}, but the deployment file "
                f"{deployment.path} is for chain {deployment.chain_id}. Correct `rpc_url` or "
                "`deployment`."
            )
        for contract in deployment.contracts.values():
            if self.request("eth_getCode", contract.address, "latest") in ("0x", None):
                raise ConfigError(
                    f"There is no code at {contract.address}, where the deployment file "
                    f"{deployment.path} places {contract.name}. The chain was probably restarted; "
                    "deploy again."
                )

    def head(self, block: BlockId = "latest") -> Head:
        """Return the header of a block (number or tag). Raises RpcRefused if there is none."""
        raw = self.request("eth_getBlockByNumber", _block(block), False)
        if raw is None:
            raise RpcRefused("eth_getBlockByNumber", 0, f"there is no block {block}")
        return head_from_json(raw)

    def chain_time(self) -> int:
        """Return the timestamp of the latest block, in seconds: the only clock of the protocol."""
        return self.head().timestamp

    def timestamp(self, block: BlockId) -> int:
        """Return a block's timestamp in seconds."""
        return self.head(block).timestamp

    def block_hash(self, number: int) -> bytes | None:
        """Return the hash of the canonical block `number`, or None if there is none."""
        raw = self.request("eth_getBlockByNumber", hex(number), False)
        return None if raw is None else bytes.fromhex(raw["hash"][2:])

    def balance(self, address: str) -> int:
        """Return the balance of an address in wei."""
        return int(self.request("eth_getBalance", address, "latest"), 16)

    # -- contracts -----------------------------------------------------------------------------

    def call(
        self,
        contract: Contract,
        function: str,
        *args: Any,
        block: BlockId = "latest",
        sender: str | None = None,
    ) -> Any:
        """Call a function without a transaction and return its decoded result.

        Structs are named tuples, bytesN are bytes, addresses are checksummed. Raises Reverted
        with the contract's reason, ConfigError if the address has no such contract.
        """
        kind, request = self._request_of(contract, function, args, sender)
        return self._decoded(kind, self._ask("eth_call", [request, _block(block)]))

    def call_many(
        self, calls: Sequence[tuple[Contract, str, Sequence[Any]]], block: BlockId = "latest"
    ) -> list[Any]:
        """Make several calls in one HTTP request; results in order. Raises as `call` does."""
        if not calls:
            return []
        built = [self._request_of(contract, name, args, None) for contract, name, args in calls]
        answers = self._ask_many([("eth_call", [request, _block(block)]) for _, request in built])
        pairs = zip(built, answers, strict=True)
        return [self._decoded(kind, answer) for (kind, _), answer in pairs]

    def _request_of(
        self, contract: Contract, name: str, args: Sequence[Any], sender: str | None
    ) -> tuple[Function, dict[str, str]]:
        kind = contract.function(name, len(args))
        request = {"to": contract.address, "data": "0x" + kind.encode(args).hex()}
        if sender is not None:
            request["from"] = sender
        return kind, request

    def _decoded(self, kind: Function, answer: Any) -> Any:
        return kind.decode(bytes.fromhex(self._result("eth_call", answer, kind.label)[2:]))

    def events(
        self,
        contract: Contract,
        event: str,
        first: int,
        last: int,
        where: dict[str, Any] | None = None,
        chunk: int = 2000,
    ) -> list[Event]:
        """Return the events of blocks `first` to `last`, both included, in chain order.

        `where` keeps those whose indexed fields equal the given values. Ranges are asked for
        `chunk` blocks at a time, and halved when the node says that the range is too large.
        """
        kind = contract.event(event)
        topics = kind.topics(where or {})
        found: list[Event] = []
        while first <= last:
            end = min(first + chunk - 1, last)
            query = {
                "address": contract.address,
                "topics": topics,
                "fromBlock": hex(first),
                "toBlock": hex(end),
            }
            try:
                logs = self.request("eth_getLogs", query)
            except RpcRefused as error:
                if chunk == 1 or not any(word in error.detail.lower() for word in _RANGE_WORDS):
                    raise
                chunk = max(1, chunk // 2)
                continue
            found += [kind.decode(entry) for entry in logs]
            first = end + 1
        return found


def head_from_json(raw: dict[str, Any]) -> Head:
    """Return the Head in a JSON-RPC block or newHeads notification."""
    return Head(
        number=int(raw["number"], 16),
        hash=bytes.fromhex(raw["hash"][2:]),
        parent=bytes.fromhex(raw["parentHash"][2:]),
        timestamp=int(raw["timestamp"], 16),
        base_fee=int(raw.get("baseFeePerGas") or "0x0", 16),
    )


def _block(block: BlockId) -> str:
    return hex(block) if isinstance(block, int) else block
