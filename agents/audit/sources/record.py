# SPDX-License-Identifier: Apache-2.0
"""Everything the chain says about a job, read once, up to one block.

Rule: history comes from events, transactions and block headers, which every full node keeps, and
state is only read at the newest block; no archive is needed. What can still change is read first,
in one go, and the block is looked at again afterwards: a reorganisation ends the audit with a
sentence, never with a false difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address

from agents.audit.sources.task_state import TaskState
from agents.protocol.network import ChainMoved, Network
from agents.protocol.numbers import MAX_VIOLATION
from agents.protocol.slashing import Row
from agents.protocol.structs import Benchmark, Job, LedgerEntry, Node, Round, read
from agents.runtime.chain import Head, head_from_json
from agents.runtime.contracts import Contract, Event, EventType
from agents.runtime.errors import AgentError, ConfigError, RpcRefused

_CONTRACTS = (
    "NodeBenchmarks",
    "NodeRegistry",
    "RedundantTasks",
    "RewardPool",
    "ScoreConsensus",
    "TaskAppeals",
    "TrainingJobs",
    "TrainingLedger",
    "TrainingResults",
    "TrainingRounds",
    "ViolationReports",
)
_CHUNK = 2_000  # blocks per request for logs
_BATCH = 200  # calls per request
_RANGE_WORDS = ("range", "more than", "too many", "limit", "too large")


class BadChain(AgentError):
    """The RPC node's answers can't be those of one chain."""


@dataclass(frozen=True)
class Opening:
    """What a reveal transaction carries. `sender` opened the commitment."""

    sender: str
    input_root: bytes
    content: bytes
    trace_root: bytes
    salt: bytes
    proof: bytes


@dataclass(frozen=True)
class ScoreOpening:
    """What a transaction that reveals scores carries. `sender` as in `Opening`."""

    sender: str
    scores: tuple[int, ...]
    record: bytes
    salt: bytes


class Record:
    """The events of all contracts and the newest state, as of `head`."""

    def __init__(
        self,
        network: Network,
        job_id: int,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Read. Raises AgentError: no such job, an RPC node that is down or answers nonsense."""
        self.network = network
        self.chain = network.chain
        self.chain_id = network.deployment.chain_id
        self.job_id = job_id
        self._headers: dict[int, Any] = {}
        self._sorted: dict[tuple[str, ...], list[Event]] = {}
        self._transactions: dict[bytes, Any] = {}
        self.raw: dict[int, list[Any]] = {}  # logs as the node gave them, by block
        self.contracts = [network.deployment[name] for name in _CONTRACTS]
        self.addresses = [contract.address for contract in self.contracts]
        self.head = self.chain.head()
        if not 1 <= job_id <= self._number("job_count", network.jobs):
            raise AgentError(f"There is no job {job_id} on chain {self.chain_id}.")
        progress("reading state")
        self.job = read(Job, self._read("job", network.jobs, job_id))
        self.current = {
            number: read(Round, self._read("round", network.rounds, job_id, number))
            for number in range(1, self.job.rounds_opened + 1)
        }
        self.ledger = self._read_ledger()
        places = [(job_id, n) for n in self.current]
        self.pools = self._many(network.pool, "pool", places)
        self.adopted = read(bool, self._read("adopted", network.scores, job_id))
        self.windows = tuple(self._read("windows_of", network.scores, job_id))
        self.last_scored = self._number("last_scored", network.scores, job_id)
        self.scorings = self._many(network.scores, "scoring", places)
        self.escrow = self._number("escrow", network.pool, job_id)
        self.carried = self._number("carried", network.pool, job_id)
        self.totals = {
            name: self._number(name, network.pool)
            for name in ("total_escrow", "total_reserved", "total_pending", "total_held")
        }
        ids = [(number,) for number in range(1, self._number("node_count", network.registry) + 1)]
        nodes = self._many(network.registry, "node", ids)
        self.nodes = {number: read(Node, node) for number, node in nodes.items()}
        attempts = self._many(network.benchmarks, "benchmark", ids)
        self.benchmarks = {number: read(Benchmark, found) for number, found in attempts.items()}
        progress("reading events")
        self.events = self._all_events()
        if not self.events:
            raise BadChain("The RPC node gives no event of these contracts, not even the job's.")
        accounts = [(account,) for account in self.payees]
        self.pending = self._many(network.pool, "pending", accounts)
        owed = [(account,) for account in self._owed()]
        self.bounties = self._many(network.registry, "bounty", owed)
        self.parameters = self._read("parameters", network.registry)
        rows = [(row,) for row in range(1, MAX_VIOLATION + 1)]
        penalties = self._many(network.registry, "penalty", rows)
        self.penalties = {number: read(Row, row) for number, row in penalties.items()}
        self.owners = {
            contract.address: self._read("owner", contract)
            for contract in self.contracts
            if any(item.get("name") == "owner" for item in contract.abi)
        }
        self.tasks = TaskState.read(self._read, self._many, network, self.events)
        if self.chain.block_hash(self.head.number) != self.head.hash:
            raise ChainMoved("The chain was reorganised while it was read; audit again.")

    # -- events --------------------------------------------------------------------------------

    def of(self, name: str, round_id: int | None = None, **where: Any) -> list[Event]:
        """This job's events `name`, in chain order; of one round if given."""
        found = []
        for event in self.events.get(name, []):
            args = event.args
            if args.get("job_id", self.job_id) != self.job_id:
                continue
            if round_id is not None and args["round_id"] != round_id:
                continue
            if all(args[field] == value for field, value in where.items()):
                found.append(event)
        return found

    def all(self, *names: str) -> list[Event]:
        """The events of these names of every job, in chain order."""
        if names not in self._sorted:
            found = [event for name in names for event in self.events.get(name, [])]
            self._sorted[names] = sorted(found, key=place)
        return self._sorted[names]

    @cached_property
    def seeds(self) -> dict[tuple[str, bytes], list[Event]]:
        """What happened to each seed, by contract and key."""
        found: dict[tuple[str, bytes], list[Event]] = {}
        for event in self.all("SeedRequested", "SeedRearmed", "SeedCaptured"):
            found.setdefault((event.address, event.args["key"]), []).append(event)
        return found

    @property
    def last(self) -> Event:
        """The newest event of all."""
        return max((e for events in self.events.values() for e in events), key=place)

    @cached_property
    def payees(self) -> dict[str, int]:
        """Everything credited by the pool so far, of any job, by address."""
        found: dict[str, int] = {}
        forfeits = ("RetainedForfeited", "CarriedForfeited")
        releases = ("PayReleased", "RetainedReleased", *forfeits)
        for event in self.all("CutCredited", *releases, "RewardsDistributed", "ShareSettled"):
            args = event.args
            if event.name == "ShareSettled":
                # Its payout is the one that the registry names, now or then.
                node = self.nodes.get(args["node_id"])
                pairs = [] if args["guilty"] or node is None else [(node.payout, args["amount"])]
            elif event.name == "RewardsDistributed":
                pairs = list(zip(args["payouts"], args["amounts"], strict=False))
            elif event.name in forfeits:
                pairs = [(args["treasury"], args["amount"])]
            else:
                pairs = [(args["payout"], args["amount"])]
            for account, amount in pairs:
                found[account] = found.get(account, 0) + amount
        return found

    def _owed(self) -> list[str]:
        """Everybody whom a slash may have credited."""
        found = {e.args["reporter"] for e in self.all("NodeSlashed")}
        found |= {e.args["new_parameters"].treasury for e in self.all("ParametersChanged")}
        return sorted(found)

    def _all_events(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        seen: set[tuple[int, int]] = set()
        for log in self._logs():
            self.raw.setdefault(int(log["blockNumber"], 16), []).append(log)
            matching = self._kind(log)
            if matching is None:
                continue
            event = matching.decode(log)
            if place(event) in seen:
                raise BadChain(f"The RPC node gave log {place(event)} ({event.name}) twice.")
            seen.add(place(event))
            found.setdefault(event.name, []).append(event)
        for events in found.values():
            events.sort(key=place)
        return found

    @cached_property
    def _kinds(self) -> dict[tuple[str, str], EventType]:
        kinds: dict[tuple[str, str], EventType] = {}
        for name in _CONTRACTS:
            contract = self.network.deployment[name]
            for item in contract.abi:
                if item["type"] == "event":
                    kind = contract.event(item["name"])
                    kinds[contract.address.lower(), "0x" + kind.topic.hex()] = kind
        return kinds

    def _kind(self, log: Any) -> EventType | None:
        return self._kinds.get((str(log["address"]).lower(), (log.get("topics") or [""])[0]))

    def fields(self, log: Any) -> dict[str, Any]:
        """The fields of a log; of one that no event fits, its topics and data."""
        kind = self._kind(log)
        try:
            if kind is not None:
                return kind.decode({**log, "blockNumber": log.get("blockNumber", "0x0")}).args
        except ConfigError:
            pass
        return {"topics": log["topics"], "data": log["data"]}

    def describe(self, log: Any) -> str:
        """What a log is, in words."""
        kind, args = self._kind(log), self.fields(log)
        name = "a log" if kind is None else str(kind.abi["name"])
        where = f" of round {args['round_id']}" if "round_id" in args else ""
        return f"{name}{where}"

    def _logs(self) -> list[Any]:
        first, chunk = self.network.deployment.block, _CHUNK
        found: list[Any] = []
        while first <= self.head.number:
            last = min(first + chunk - 1, self.head.number)
            query = {
                "address": self.addresses,
                "fromBlock": hex(first),
                "toBlock": hex(last),
            }
            try:
                found += self.chain.request("eth_getLogs", query)
            except RpcRefused as error:
                if chunk == 1 or not any(word in error.detail.lower() for word in _RANGE_WORDS):
                    raise
                chunk //= 2
                continue
            first = last + 1
        return found

    # -- blocks and transactions ---------------------------------------------------------------

    def raw_header(self, block: int) -> Any:
        """A block's header as the node gives it."""
        if block not in self._headers:
            raw = self.chain.request("eth_getBlockByNumber", hex(block), False)
            if not isinstance(raw, dict):
                raise BadChain(f"The RPC node has no block {block}.")
            self._headers[block] = raw
        return self._headers[block]

    @property
    def seen(self) -> list[int]:
        """Blocks whose headers were used."""
        return list(self._headers)

    def header(self, block: int) -> Head:
        """A block's header."""
        return head_from_json(self.raw_header(block))

    def parameters_at(self, at: Event) -> Any:
        """The registry's parameters when an event happened; None before they were set."""
        found = None
        for event in self.all("ParametersChanged"):
            if place(event) > place(at):
                break
            found = event.args["new_parameters"]
        return found

    def time(self, event: Event) -> int:
        """Chain time of an event, in seconds."""
        return self.header(event.block).timestamp

    def openings(self, revealed: Event) -> list[Opening]:
        """What the transaction of a Revealed event carries: one opening when it called `reveal`
        itself, else every one found in its data (a batch, or an account that is a contract)."""
        kinds = ["uint256"] * 3 + ["bytes32"] * 5
        return [
            Opening(sender, *values[3:])
            for sender, values in self.calls(self.network.rounds, "reveal", kinds, revealed)
            if values[:3] == _place(revealed, "node_id")
        ]

    def score_openings(self, revealed: Event) -> list[ScoreOpening]:
        """What the transaction of a ScoresRevealed event carries; see `openings`."""
        kinds = ["uint256"] * 3 + ["uint256[]", "bytes32", "bytes32"]
        called = self.calls(self.network.scores, "reveal_scores", kinds, revealed)
        return [
            ScoreOpening(sender, *values[3:])
            for sender, values in called
            if values[:3] == _place(revealed, "verifier_id")
        ]

    def calls(
        self, contract: Contract, name: str, kinds: Sequence[str], event: Event
    ) -> list[tuple[str, tuple[Any, ...]]]:
        """(sender, arguments) of the calls of a function in the transaction of an event; the
        sender is empty where it is not the transaction's."""
        tx = self._transaction(event)
        if not isinstance(tx, dict):
            return []
        data = bytes.fromhex(str(tx.get("input") or tx.get("data") or "0x")[2:])
        selector = contract.function(name, len(kinds)).selector
        direct = str(tx.get("to") or "").lower() == contract.address.lower()
        sender = to_checksum_address(tx["from"]) if direct else ""
        found = []
        at = data.find(selector)
        while at >= 0:
            with suppress(DecodingError, ValueError, OverflowError):
                found.append((sender, tuple(decode(kinds, data[at + 4 :]))))
            if direct:
                break
            at = data.find(selector, at + 1)
        return found

    def _transaction(self, event: Event) -> Any:
        if event.tx_hash not in self._transactions:
            found = self.chain.request("eth_getTransactionByHash", "0x" + event.tx_hash.hex())
            self._transactions[event.tx_hash] = found
        return self._transactions[event.tx_hash]

    def fetch_transactions(self, events: Iterable[Event]) -> None:
        """Ask for the transactions of these events together."""
        wanted = list({e.tx_hash for e in events} - self._transactions.keys())
        method = "eth_getTransactionByHash"
        answers = self.chain.ask_many([(method, ["0x" + tx.hex()]) for tx in wanted])
        for tx, answer in zip(wanted, answers, strict=True):
            self._transactions[tx] = self.chain.value(method, answer)

    def fetch_headers(self, blocks: Iterable[int]) -> None:
        """Ask for these headers together; a block that the node lacks is said when it is used."""
        wanted = sorted(set(blocks) - self._headers.keys())
        method = "eth_getBlockByNumber"
        answers = self.chain.ask_many([(method, [hex(block), False]) for block in wanted])
        for block, answer in zip(wanted, answers, strict=True):
            raw = self.chain.value(method, answer)
            if isinstance(raw, dict):
                self._headers[block] = raw

    def sender(self, event: Event) -> str:
        """Who called the contract that logged an event: the transaction's sender, or the account
        it went to when that is another contract."""
        tx = self._transaction(event)
        if not isinstance(tx, dict):
            raise BadChain(f"The RPC node has no transaction 0x{event.tx_hash.hex()}.")
        target = to_checksum_address(tx["to"]) if tx.get("to") else ""
        return to_checksum_address(tx["from"]) if target == event.address else target

    # -- state ---------------------------------------------------------------------------------

    def flags(self, name: str, round_id: int, nodes: Sequence[int]) -> dict[int, Any]:
        """What a view of TrainingRounds or TrainingResults says of each of these nodes."""
        keys = [(self.job_id, round_id, node) for node in nodes]
        answers = self._many(self.network.declares(name), name, keys, block="latest")
        return {node: answer for (_, _, node), answer in answers.items()}

    def ask(self, contract: Contract, name: str, keys: Sequence[tuple[Any, ...]]) -> dict[Any, Any]:
        """What a view answers for each key."""
        return self._many(contract, name, keys, block="latest")

    def settled(self, round_id: int) -> bool:
        """Whether the contract says that nothing can happen in a round any more."""
        return self.current[round_id].settled

    def _read(self, name: str, contract: Contract, *args: Any) -> Any:
        return self.chain.call(contract, name, *args, block=self.head.number)

    def _number(self, name: str, contract: Contract, *args: Any) -> int:
        return read(int, self._read(name, contract, *args))

    def _read_ledger(self) -> list[LedgerEntry]:
        count = self._number("length", self.network.ledger, self.job_id)
        keys = [(self.job_id, index) for index in range(count)]
        entries = self._many(self.network.ledger, "entry", keys)
        return [read(LedgerEntry, entry) for entry in entries.values()]

    def _many(
        self,
        contract: Contract,
        name: str,
        keys: Sequence[tuple[Any, ...]],
        block: int | str | None = None,
    ) -> dict[Any, Any]:
        at = self.head.number if block is None else block
        found: dict[Any, Any] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            answers = self.chain.call_many([(contract, name, key) for key in part], block=at)
            for key, answer in zip(part, answers, strict=True):
                found[key[0] if len(key) == 1 else key] = answer
        return found


def place(event: Event) -> tuple[int, int]:
    """Where an event is in the chain."""
    return (event.block, event.log_index)


def _place(event: Event, node: str) -> tuple[int, int, int]:
    return event.args["job_id"], event.args["round_id"], event.args[node]
