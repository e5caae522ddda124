# SPDX-License-Identifier: Apache-2.0
"""A fast machine that carries on where titanoboa left off.

The system is deployed and peopled on titanoboa and py-evm (other tests: `revm.py`). Code and
storage are then copied into revm, which runs a call in a tenth of a millisecond instead of ten: a
search needs a million of them. Both give the same answers; `test_fuzz.py` compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boa
import pyrevm
from eth_abi import decode, encode
from eth_utils import keccak, to_canonical_address

from tests.stage.contracts.system import ERROR_SELECTOR, GAS_CAP, System

# Who asks views; an account with code may send nothing.
NOBODY = "0x" + "00" * 19 + "01"

CONTRACTS = (
    "token",
    "coordinator",
    "registry",
    "pool",
    "ledger",
    "jobs",
    "rounds",
    "results",
    "reports",
    "keys",
    "scores",
    "tasks",
    "appeals",
    "benchmarks",
)

# Views that depend on no clock: their answers hold until the next transaction.
STORED = {
    "appeals.appeal_of",
    "benchmarks.benchmark",
    "coordinator.has_approved",
    "coordinator.operation",
    "coordinator.operation_id",
    "jobs.job",
    "jobs.origin_of",
    "pool.escrow",
    "registry.operator_of",
    "registry.owner_of",
    "reports.announced_in",
    "reports.report_id_of",
    "reports.report_of",
    "reports.reporters",
    "results.announced_in",
    "results.is_invalid",
    "results.result",
    "rounds.round",
    "scores.adopted",
    "tasks.result_of",
    "tasks.task",
}
DECODINGS = 50_000


def _type(parameter: dict[str, Any]) -> str:
    """The canonical type of an ABI parameter, tuples written out."""
    if not parameter["type"].startswith("tuple"):
        return str(parameter["type"])
    inner = ",".join(_type(part) for part in parameter["components"])
    return f"({inner}){parameter['type'][5:]}"


# Types of one word. eth_abi is right for all types and takes ten times as long for these.
WORDS = ("uint256", "address", "bytes32", "bool")


def _word(value: Any) -> bytes:
    """A value of one word, as the ABI has it."""
    if isinstance(value, str):
        return bytes(12) + bytes.fromhex(value[2:])
    if isinstance(value, bytes):
        return value.ljust(32, b"\0")
    return int(value).to_bytes(32, "big")


def _from_word(kind: str, word: bytes) -> Any:
    """The value of a word, as eth_abi gives it."""
    if kind == "uint256":
        return int.from_bytes(word, "big")
    if kind == "bool":
        return word[31] == 1
    return word if kind == "bytes32" else "0x" + word[12:].hex()


@cache
def _parts(kind: str) -> tuple[str, ...]:
    """The types in a tuple's type."""
    parts, depth, start = [], 0, 1
    for place, letter in enumerate(kind):
        depth += (letter == "(") - (letter == ")")
        if (depth == 1 and letter == ",") or (depth == 0 and place > 0):
            parts.append(kind[start:place])
            start = place + 1
    return tuple(parts)


@cache
def _head(kind: str) -> int:
    """Bytes that a type takes where it stands; 0 for a dynamic one, which stands elsewhere."""
    if kind in WORDS or re.fullmatch(r"bytes\d+", kind):
        return 32
    if kind.startswith("(") and kind.endswith(")"):
        sizes = [_head(part) for part in _parts(kind)]
        return sum(sizes) if all(sizes) else 0
    if kind.endswith("]") and not kind.endswith("[]"):
        raise ValueError(kind)
    return 0


def _several(kinds: Sequence[str], data: bytes, base: int) -> tuple[Any, ...]:
    """Values that stand one behind another from `base` on."""
    values, at = [], base
    for kind in kinds:
        size = _head(kind)
        where = at if size else base + int.from_bytes(data[at : at + 32], "big")
        values.append(_value(kind, data, where))
        at += size or 32
    return tuple(values)


def _value(kind: str, data: bytes, at: int) -> Any:
    """The value of a type at a place."""
    if kind in WORDS:
        return _from_word(kind, data[at : at + 32])
    if kind.startswith("(") and kind.endswith(")"):
        return _several(_parts(kind), data, at)
    if kind.startswith("bytes") and _head(kind):
        return data[at : at + int(kind[5:])]
    count = int.from_bytes(data[at : at + 32], "big")
    if kind.endswith("[]"):
        return _several([kind[:-2]] * count, data, at + 32)
    content = data[at + 32 : at + 32 + count]
    return content.decode() if kind == "string" else content


def _decoded_as(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """The values of some bytes, as eth_abi gives them, in a tenth of its time."""
    try:
        return _several(types, data, 0)
    except ValueError:
        return tuple(decode(types, data))


@dataclass(frozen=True)
class Function:
    """An external function as the ABI states it."""

    contract: str
    name: str
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    view: bool
    selector: bytes
    types: tuple[str, ...]
    answers: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.contract}.{self.name}"

    def data(self, args: Sequence[Any]) -> bytes:
        """The bytes of a call."""
        if all(kind in WORDS for kind in self.types):
            return self.selector + b"".join(map(_word, args))
        return self.selector + encode(self.types, args)


@dataclass(frozen=True)
class Event:
    """An event that a call emitted."""

    contract: str
    name: str
    fields: dict[str, Any]


@dataclass
class _EventType:
    name: str
    inputs: list[dict[str, Any]]
    plain: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What came of a call: its answer and events, or the reason why it reverted."""

    ok: bool
    answer: tuple[Any, ...] = ()
    events: tuple[Event, ...] = ()
    reason: str = ""


class Struct(dict[str, Any]):
    """A struct whose parts are read as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def _structured(parameter: dict[str, Any], value: Any) -> Any:
    if parameter["type"] == "tuple":
        parts = parameter["components"]
        return Struct(
            {part["name"]: _structured(part, v) for part, v in zip(parts, value, strict=True)}
        )
    return value


@dataclass(frozen=True)
class Copy:
    """The system at one moment, as plain data."""

    addresses: dict[str, str]
    codes: dict[str, bytes]
    storage: dict[str, dict[int, int]]
    abis: dict[str, list[dict[str, Any]]]
    block: int
    time: int


def copied(system: System) -> Copy:
    """The code and storage of all contracts as they stand on titanoboa."""
    state = boa.env.evm.vm.state
    contracts = {name: getattr(system, name) for name in CONTRACTS}
    at = {name: str(contract.address) for name, contract in contracts.items()}
    slots = {n: boa.env.sstore_trace.get(c.address, ()) for n, c in contracts.items()}
    return Copy(
        addresses=at,
        codes={n: bytes(state.get_code(to_canonical_address(a))) for n, a in at.items()},
        storage={
            n: {slot: state.get_storage(to_canonical_address(a), slot) for slot in slots[n]}
            for n, a in at.items()
        },
        abis={name: contract.abi for name, contract in contracts.items()},
        block=int(boa.env.evm.patch.block_number),
        time=int(boa.env.timestamp),
    )


class Machine:
    """The deployed contracts, on revm."""

    def __init__(self, copy: Copy) -> None:
        self._evm = pyrevm.EVM(spec_id="CANCUN", gas_limit=2 * GAS_CAP)
        self.addresses = copy.addresses
        self.functions: dict[str, Function] = {}
        # Answers of views until the next transaction, and until the next block; decoded bytes.
        self._stored: dict[tuple[Any, ...], Any] = {}
        self._answers: dict[tuple[Any, ...], Any] = {}
        self._decodings: dict[tuple[str, bytes], Any] = {}
        self._names = {address.lower(): name for name, address in copy.addresses.items()}
        self._events: dict[tuple[str, bytes], _EventType] = {}
        for name, address in copy.addresses.items():
            account = pyrevm.AccountInfo(nonce=1, code=copy.codes[name])
            self._evm.insert_account_info(address, account)
            for slot, value in copy.storage[name].items():
                self._evm.insert_account_storage(address, slot, value)
            self._read_abi(name, copy.abis[name])
        self.block, self.time = copy.block, copy.time
        self._set_clock()

    def _read_abi(self, contract: str, abi: list[dict[str, Any]]) -> None:
        for entry in abi:
            if entry["type"] == "function":
                types = tuple(_type(i) for i in entry["inputs"])
                function = Function(
                    contract=contract,
                    name=entry["name"],
                    inputs=tuple(entry["inputs"]),
                    outputs=tuple(entry["outputs"]),
                    view=entry["stateMutability"] in ("view", "pure"),
                    selector=keccak(text=f"{entry['name']}({','.join(types)})")[:4],
                    types=types,
                    answers=tuple(_type(o) for o in entry["outputs"]),
                )
                self.functions[function.title] = function
            elif entry["type"] == "event":
                types = tuple(_type(i) for i in entry["inputs"])
                topic = keccak(text=f"{entry['name']}({','.join(types)})")
                plain = [_type(i) for i in entry["inputs"] if not i["indexed"]]
                self._events[contract, topic] = _EventType(entry["name"], entry["inputs"], plain)

    # Time

    def _set_clock(self) -> None:
        self._answers.clear()
        self._evm.set_block_env(
            pyrevm.BlockEnv(number=self.block, timestamp=self.time, gas_limit=2 * GAS_CAP)
        )

    def mine(self, blocks: int, seconds: int) -> None:
        """Moves the chain `blocks` blocks and `seconds` seconds forward."""
        self.block += blocks
        self.time += seconds
        self._set_clock()

    # Calls

    def snapshot(self) -> tuple[Any, int, int]:
        """A point to return to with `revert`."""
        return self._evm.snapshot(), self.block, self.time

    def revert(self, point: tuple[Any, int, int]) -> None:
        """Undoes everything since a point."""
        self._stored.clear()
        checkpoint, self.block, self.time = point
        self._evm.revert(checkpoint)
        self._set_clock()

    def send(self, sender: str, title: str, args: Sequence[Any]) -> Outcome:
        """A transaction. It changes nothing when it reverts."""
        function = self.functions[title]
        answer = self._run(sender, function, args, False)
        if isinstance(answer, str):
            return Outcome(False, reason=answer)
        self._answers.clear()
        self._stored.clear()
        events = tuple(self._decoded())
        return Outcome(True, _decoded_as(function.answers, answer), events)

    def ask(self, title: str, *args: Any) -> Any:
        """The answer of a view; a struct's parts are attributes. Nobody may change it."""
        call = (title, *(tuple(arg) if isinstance(arg, list) else arg for arg in args))
        answers = self._stored if title in STORED else self._answers
        if call not in answers:
            answers[call] = self._asked(title, args)
        return answers[call]

    def _asked(self, title: str, args: Sequence[Any]) -> Any:
        function = self.functions[title]
        answer = self._run(NOBODY, function, args, True)
        assert not isinstance(answer, str), f"{title}{args}: {answer}"
        if (title, answer) not in self._decodings:
            values = _decoded_as(function.answers, answer)
            given = [_structured(o, v) for o, v in zip(function.outputs, values, strict=True)]
            if len(self._decodings) >= DECODINGS:
                self._decodings.clear()
            self._decodings[title, answer] = given[0] if len(given) == 1 else tuple(given)
        return self._decodings[title, answer]

    def _run(
        self, sender: str, function: Function, args: Sequence[Any], static: bool
    ) -> bytes | str:
        try:
            return bytes(
                self._evm.message_call(
                    caller=sender,
                    to=self.addresses[function.contract],
                    calldata=function.data(args),
                    gas=GAS_CAP,
                    is_static=static,
                )
            )
        except RuntimeError as error:
            return _reason(str(error))

    def _decoded(self) -> Iterator[Event]:
        for log in self._evm.result.logs:
            topics, data = log.data
            contract = self._names[log.address.lower()]
            kind = self._events[contract, bytes(topics[0])]
            plain = iter(_decoded_as(kind.plain, data))
            marked = iter(topics[1:])
            fields = {}
            for part in kind.inputs:
                if part["indexed"]:
                    (value,) = _decoded_as([_type(part)], bytes(next(marked)))
                else:
                    value = _structured(part, next(plain))
                fields[part["name"]] = value
            yield Event(contract, kind.name, fields)


def _reason(text: str) -> str:
    """The reason string in revm's words about a call that failed."""
    mark = "output: 0x"
    if mark not in text:
        return text
    data = bytes.fromhex(text.split(mark)[1].split()[0].rstrip("},"))
    if data[:4] != ERROR_SELECTOR:
        return "no reason given"
    return str(_decoded_as(("string",), data[4:])[0])
