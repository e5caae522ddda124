# SPDX-License-Identifier: Apache-2.0
"""Reads the chain, and tells a node that is down from a contract that refuses.

Rule: a request is tried a bounded number of times and then raises `RpcDown`; the loop above waits
and tries for ever. A contract's refusal is always `Reverted` with the contract's own string, and
any other refusal of the node is `RpcRefused`. What is no JSON-RPC answer counts as none
(`agents.runtime.answers`). One outage is logged once, and its end once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from web3 import HTTPProvider, Web3
from web3.exceptions import BadResponseFormat
from web3.types import RPCEndpoint

from agents.runtime.answers import code_of, fault_in
from agents.runtime.contracts import Contract, Deployment, Event, Function
from agents.runtime.errors import ConfigError, Reverted, RpcDown, RpcRefused
from agents.runtime.head import Head as Head
from agents.runtime.head import head_from_json as head_from_json
from agents.runtime.lens import Answer, Call, Lens
from agents.runtime.log_book import RawLog
from agents.runtime.logs import Log, scrub
from agents.runtime.look import LATEST, PENDING, Look
from agents.runtime.sessions import Sessions
from agents.runtime.traffic import Traffic
from agents.runtime.urls import hide

_ERROR_SELECTOR = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR = bytes.fromhex("4e487b71")  # Panic(uint256)
# requests decodes bodies itself and can raise plain ValueError on half a JSON document.
_DOWN = (requests.RequestException, BadResponseFormat, ValueError, OSError)
_RANGE_WORDS = ("range", "more than", "too many", "limit", "too large")
_CHUNK = 2000  # blocks of logs in one request
_BATCH = 100  # calls in one request
NO_REASON = "no reason given"

BlockId = int | str


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
            url,
            request_kwargs={"timeout": timeout_s},
            session=Sessions(url),
            exception_retry_configuration=None,
        )
        self.w3 = Web3(self._provider)
        self._watched: list[str] = []
        self._of_the_block: frozenset[str] = frozenset()
        self._lens: Lens | None = None
        self._most = _BATCH
        self._looks = threading.local()
        self._outage_guard = threading.Lock()
        self._down_since: float | None = None

    # -- looks ---------------------------------------------------------------------------------

    def watch(self, deployment: Deployment, of_the_block: frozenset[str]) -> None:
        """Name the contracts whose views looks may keep. `of_the_block`: the views, as in
        "NodeRegistry.node", that depend on the block that they are asked of."""
        self._watched = [contract.address for contract in deployment.contracts.values()]
        self._of_the_block = of_the_block
        lens = deployment.contracts.get("Lens")
        self._lens = None if lens is None else Lens(lens)

    @contextmanager
    def look(self, head: Head) -> Iterator[Head]:
        """Within the block, what this thread reads is of one block, and is asked once.

        Gives that block: `head`, or a newer one that this thread has seen. Raises RpcDown or
        RpcRefused before anything is read.
        """
        kept: Look | None = getattr(self._looks, "kept", None)
        if kept is None or kept.watched != self._watched:
            kept = self._looks.kept = Look(self, self._watched, self._lens)
        kept.begin(head)
        self._looks.now = kept
        try:
            yield kept.head
        finally:
            self._looks.now = None

    @property
    def _look(self) -> Look | None:
        return getattr(self._looks, "now", None)

    def look_again(self, head: Head | None = None) -> None:
        """What this thread reads next is of `head`, by default of the newest block: something has
        changed."""
        if self._look is not None:
            self._look.end(head)

    # -- requests ------------------------------------------------------------------------------

    def request(self, method: str, *params: Any) -> Any:
        """Send one JSON-RPC request and return its result.

        Raises RpcDown, Reverted or RpcRefused.
        """
        answer = self.ask(method, list(params))
        return self._result(method, answer)

    def ask(self, method: str, params: list[Any]) -> Any:
        """The node's answer to one request, a refusal too."""
        return self._with_tries(
            [method], lambda: self._provider.make_request(RPCEndpoint(method), params)
        )

    def ask_many(self, batch: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        """The node's answers to several requests in one HTTP request, in order; in more, half as
        long, where the node refuses one as long as that."""
        found: list[Any] = []
        while len(found) < len(batch):
            part = batch[len(found) : len(found) + self._most]
            if len(part) == 1:
                found.append(self.ask(*part[0]))
                continue
            try:
                found += self._asked_together(part)
                self._most = min(self._most + 1, _BATCH)
            except RpcRefused:
                self._most = len(part) // 2
        return found

    def _asked_together(self, batch: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        sent: list[tuple[RPCEndpoint, Any]] = [(RPCEndpoint(m), params) for m, params in batch]
        methods = [method for method, _ in batch]

        def send() -> Any:
            try:
                return self._provider.make_batch_request(sent)
            except (AttributeError, TypeError) as error:  # web3 sorts the parts by their ids
                raise ValueError("the parts of its answer have no order") from error

        answers = self._with_tries(methods, send)
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
            fault = fault_in(methods, answer)
            if fault is not None:
                failure = scrub(fault)
                continue
            self._up()
            return answer
        self._down(failure)
        raise RpcDown(
            f"The RPC node at {self.place} did not answer {self._tries} tries ({failure}). "
            "Check that it runs and that the address is right; a running agent keeps trying."
        )

    def refuses(self, answer: Answer) -> bool:
        """Whether the node itself refuses, and not a contract."""
        try:
            self._result("", answer)
        except Reverted:
            return False
        except RpcRefused:
            return True
        return False

    def value(self, method: str, answer: Answer) -> Any:
        """Return the result in an answer of `ask` or `ask_many`. Raises Reverted or RpcRefused."""
        return self._result(method, answer)

    def _result(self, method: str, answer: Any, call: str = "") -> Any:
        error = answer.get("error") if isinstance(answer, dict) else repr(answer)
        if error is None:
            return answer.get("result")
        if not isinstance(error, dict):  # of a whole batch
            raise RpcRefused(method, 0, scrub(str(error)))
        code, message = code_of(error) or 0, scrub(str(error.get("message", "")))
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

    def head(self, block: BlockId = LATEST) -> Head:
        """Return the header of a block (number or tag): in a look, its block is the latest.

        Raises RpcRefused if there is none.
        """
        if self._look is not None and block == LATEST:
            self._look.renew()
            return self._look.head
        return self._header(block)

    def newest_head(self) -> Head:
        """Return the header of the newest block that the node has, whatever is looked at."""
        return self._header(LATEST)

    def _header(self, block: BlockId) -> Head:
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
        if self._look is not None:
            return self._look.hash_of(number)
        return self.newest_hash(number)

    def newest_hash(self, number: int) -> bytes | None:
        """The same of the node's branch, whatever is looked at."""
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
        block: BlockId = LATEST,
        sender: str | None = None,
    ) -> Any:
        """Call a function without a transaction and return its decoded result.

        Structs are named tuples, bytesN are bytes, addresses are checksummed. Raises Reverted
        with the contract's reason, ConfigError if the address has no such contract.
        """
        return self._called([(contract, function, args)], block, sender)[0]

    def call_many(
        self, calls: Sequence[tuple[Contract, str, Sequence[Any]]], block: BlockId = LATEST
    ) -> list[Any]:
        """Make several calls in one HTTP request; results in order. Raises as `call` does."""
        if not calls:
            return []
        return self._called(calls, block, None)

    def _called(
        self,
        calls: Sequence[tuple[Contract, str, Sequence[Any]]],
        block: BlockId,
        sender: str | None,
    ) -> list[Any]:
        kinds = [contract.function(name, len(args)) for contract, name, args in calls]
        built = [
            self._call_of(contract, kind, args, block, sender)
            for (contract, _, args), kind in zip(calls, kinds, strict=True)
        ]
        if self._look is not None and block in (LATEST, PENDING):
            answers = self._look.answers(built)
        elif len(built) == 1:
            answers = [self.ask("eth_call", built[0].params(_block(block)))]
        else:
            answers = self.ask_many([("eth_call", call.params(_block(block))) for call in built])
        return [
            kind.decode(bytes.fromhex(self._result("eth_call", answer, kind.label)[2:]))
            for kind, answer in zip(kinds, answers, strict=True)
        ]

    def _call_of(
        self,
        contract: Contract,
        kind: Function,
        args: Sequence[Any],
        block: BlockId,
        sender: str | None,
    ) -> Call:
        view = kind.abi.get("stateMutability") in ("view", "pure")
        lasting = (
            view
            and block == LATEST
            and kind.label not in self._of_the_block
            and contract.address in self._watched
        )
        data = "0x" + kind.encode(args).hex()
        return Call(contract.address, data, sender, str(block), view, lasting)

    def events(
        self,
        contract: Contract,
        event: str,
        first: int,
        last: int,
        where: dict[str, Any] | None = None,
        chunk: int = _CHUNK,
    ) -> list[Event]:
        """Return the events of blocks `first` to `last`, both included, in chain order.

        `where` keeps those whose indexed fields equal the given values. Ranges are asked for
        `chunk` blocks at a time, and halved when the node says that the range is too large.
        """
        kind = contract.event(event)
        topics = kind.topics(where or {})
        if self._look is None:
            found = self.logs(contract.address, topics, first, last, chunk)
        else:
            found = self._look.logs(contract.address, topics, first, last)
        return [kind.decode(entry) for entry in found]

    def logs(
        self,
        address: str | Sequence[str],
        topics: Sequence[str | None],
        first: int,
        last: int,
        chunk: int = _CHUNK,
    ) -> list[RawLog]:
        """Return the logs of a range of blocks as the node gives them; see `events`.

        Raises RpcRefused where the node has not got the last of these blocks: it is behind the one
        that told of it, and would give the logs that it has as if there were no others.
        """
        found: list[RawLog] = []
        while first <= last:
            end = min(first + chunk - 1, last)
            query = {
                "address": address,
                "topics": list(topics),
                "fromBlock": hex(first),
                "toBlock": hex(end),
            }
            # In one request, so that one node answers both where there are several.
            asked: list[tuple[str, list[Any]]] = [
                ("eth_getLogs", [query]),
                ("eth_getBlockByNumber", [hex(end), False]),
            ]
            answers = self.ask_many(asked)
            try:
                logs, newest = (self.value(asked[i][0], answers[i]) for i in range(2))
                if newest is None:
                    raise RpcRefused("eth_getLogs", 0, f"the node has no block {end} yet")
                found += logs
            except RpcRefused as error:
                if chunk == 1 or not any(word in error.detail.lower() for word in _RANGE_WORDS):
                    raise
                chunk = max(1, chunk // 2)
                continue
            first = end + 1
        return found


def _block(block: BlockId) -> str:
    return hex(block) if isinstance(block, int) else block
