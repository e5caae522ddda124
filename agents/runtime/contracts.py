# SPDX-License-Identifier: Apache-2.0
"""Deployed contracts: addresses and ABIs from one file, calls and events to and from bytes.

Rule: everything an agent knows of the contracts comes from `deployments/<chain id>.json`, with
fields `chain_id`, `block` (first block worth scanning) and `contracts: {name: {address, abi}}`.
The ABI is in the file, so an agent needs neither ape nor vyper.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from eth_abi.abi import encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.address import is_address, to_checksum_address
from eth_utils.crypto import keccak

from agents.runtime.errors import ConfigError
from agents.runtime.files import DEPLOYMENT_BYTES, read_json
from agents.runtime.words import decode


def abi_type(item: Mapping[str, Any]) -> str:
    """Return the canonical type of an ABI item: structs become "(type,type)"."""
    kind = str(item["type"])
    if not kind.startswith("tuple"):
        return kind
    inner = ",".join(abi_type(part) for part in item["components"])
    return f"({inner}){kind[len('tuple') :]}"


def _shape(item: Mapping[str, Any], value: Any) -> Any:
    """Turn eth-abi's output into Python: checksummed addresses, structs as named tuples."""
    kind = str(item["type"])
    if kind.endswith("]"):
        element = {**item, "type": kind[: kind.rindex("[")]}
        return [_shape(element, part) for part in value]
    if kind == "tuple":
        return _named(item.get("name") or "Struct", item["components"], value)
    return _checksummed(value) if kind == "address" else value


@lru_cache(maxsize=16_384)
def _checksummed(address: str) -> str:
    # Takes a keccak of its own, and a network has few addresses that events name again and again.
    return to_checksum_address(address)


def _named(title: str, items: Sequence[Mapping[str, Any]], values: Iterable[Any]) -> Any:
    names = tuple(item.get("name") or f"field{i}" for i, item in enumerate(items))
    maker = _named_tuple(title if title.isidentifier() else "Struct", names)
    return maker(*(_shape(item, value) for item, value in zip(items, values, strict=True)))


@lru_cache(maxsize=1_024)
def _named_tuple(title: str, names: tuple[str, ...]) -> Any:
    # Python compiles a class for each: a third of a millisecond.
    return namedtuple(title, names, rename=True)


@dataclass(frozen=True)
class Function:
    """One callable of a contract."""

    label: str
    abi: Mapping[str, Any]

    @cached_property
    def _inputs(self) -> list[str]:
        return [abi_type(item) for item in self.abi["inputs"]]

    @cached_property
    def _outputs(self) -> list[str]:
        return [abi_type(item) for item in self.abi["outputs"]]

    @cached_property
    def selector(self) -> bytes:
        """First 4 bytes of the keccak of the signature."""
        return keccak(text=f"{self.abi['name']}({','.join(self._inputs)})")[:4]

    def encode(self, args: Sequence[Any]) -> bytes:
        """Return call data. Raises TypeError naming the function when arguments do not fit."""
        try:
            return self.selector + encode(self._inputs, list(args))
        except (EncodingError, TypeError, ValueError) as error:
            raise TypeError(f"{self.label}({','.join(self._inputs)}): {error}") from None

    def arguments(self, data: bytes) -> dict[str, Any]:
        """Return the arguments of call data by name, in their order.

        Raises ValueError unless `encode` gives these very bytes for them: what else a call holds
        may mean something to a contract that its ABI does not say.
        """
        items = self.abi["inputs"]
        try:
            values = decode(self._inputs, data[4:])
            exact = data[:4] == self.selector and encode(self._inputs, values) == data[4:]
        except (DecodingError, EncodingError, OverflowError) as error:
            raise ValueError(f"no call of {self.label}: {error}") from None
        if not exact:
            raise ValueError(f"no call of {self.label}: other bytes than its arguments take")
        return {i["name"]: _shape(i, value) for i, value in zip(items, values, strict=True)}

    def decode(self, data: bytes) -> Any:
        """Return the result: None, one value, or a named tuple of several."""
        outputs = self.abi["outputs"]
        if not outputs:
            return None
        try:
            values = decode(self._outputs, data)
        except (DecodingError, ValueError) as error:
            raise ConfigError(
                f"{self.label} answered {len(data)} bytes that do not fit its ABI ({error}). The "
                "deployment file does not belong to the contract at this address."
            ) from None
        if len(outputs) == 1:
            return _shape(outputs[0], values[0])
        return _named("Result", outputs, values)


@dataclass(frozen=True)
class Event:
    """One decoded log entry. `args` maps every event field to its value."""

    name: str
    args: dict[str, Any]
    address: str
    block: int
    block_hash: bytes
    tx_hash: bytes
    log_index: int


@dataclass(frozen=True)
class EventType:
    """One event of a contract's ABI."""

    label: str
    abi: Mapping[str, Any]

    @cached_property
    def _plain(self) -> list[tuple[Mapping[str, Any], str]]:
        """The fields that are in a log's data, each with its type."""
        return [(item, abi_type(item)) for item in self.abi["inputs"] if not item["indexed"]]

    @cached_property
    def _indexed(self) -> list[tuple[Mapping[str, Any], bool]]:
        """The fields that are topics, each with whether the topic is its value: of a value whose
        length is not fixed it is the hash."""
        return [
            (item, item["type"] not in ("string", "bytes") and "[" not in item["type"])
            for item in self.abi["inputs"]
            if item["indexed"]
        ]

    @cached_property
    def topic(self) -> bytes:
        """Keccak of the event's signature: its first topic."""
        kinds = ",".join(abi_type(item) for item in self.abi["inputs"])
        return keccak(text=f"{self.abi['name']}({kinds})")

    def topics(self, where: Mapping[str, Any]) -> list[str | None]:
        """Return the topic filter for indexed fields equal to the values in `where`."""
        indexed = [item for item in self.abi["inputs"] if item["indexed"]]
        unknown = set(where) - {item["name"] for item in indexed}
        if unknown:
            raise TypeError(f"{self.label} has no indexed field {', '.join(sorted(unknown))}.")
        topics: list[str | None] = ["0x" + self.topic.hex()]
        for item in indexed:
            wanted = where.get(item["name"])
            encoded = None if wanted is None else encode([abi_type(item)], [wanted])
            topics.append(None if encoded is None else "0x" + encoded.hex())
        return topics

    def decode(self, log: Mapping[str, Any]) -> Event:
        """Return the event in a JSON-RPC log object. Raises ConfigError if it does not fit."""
        try:
            data = decode([kind for _, kind in self._plain], _bytes(log["data"]))
            args = {i["name"]: _shape(i, v) for (i, _), v in zip(self._plain, data, strict=True)}
            for (item, fixed), topic in zip(self._indexed, log["topics"][1:], strict=True):
                value = decode([item["type"]], _bytes(topic))[0] if fixed else _bytes(topic)
                args[item["name"]] = _shape(item, value) if fixed else value
        except (DecodingError, ValueError) as error:
            raise ConfigError(f"A log of {self.label} does not fit its ABI: {error}.") from None
        return Event(
            name=self.abi["name"],
            args={item["name"]: args[item["name"]] for item in self.abi["inputs"]},
            address=_checksummed(log["address"]),
            block=int(log["blockNumber"], 16),
            block_hash=_bytes(log["blockHash"]),
            tx_hash=_bytes(log["transactionHash"]),
            log_index=int(log["logIndex"], 16),
        )


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


class Contract:
    """A deployed contract: name, checksummed address, functions and events by name."""

    def __init__(self, name: str, address: str, abi: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.address: str = to_checksum_address(address)
        self.abi = abi
        self._functions: dict[tuple[str, int], Function] = {}
        self._events: dict[str, EventType] = {}
        for item in abi:
            label = f"{name}.{item.get('name')}"
            if item["type"] == "function":
                self._functions[item["name"], len(item["inputs"])] = Function(label, item)
            elif item["type"] == "event":
                self._events[item["name"]] = EventType(label, item)

    def __repr__(self) -> str:
        return f"Contract({self.name} at {self.address})"

    def function(self, name: str, arguments: int) -> Function:
        """Return the function `name` taking that many arguments. Raises TypeError if none does."""
        found = self._functions.get((name, arguments))
        if found is None:
            counts = sorted(count for known, count in self._functions if known == name)
            why = f"takes {' or '.join(map(str, counts))} arguments" if counts else "does not exist"
            raise TypeError(f"{self.name}.{name} {why}; it was given {arguments}.")
        return found

    def function_of(self, selector: bytes) -> Function | None:
        """Return the function with these first 4 bytes of call data, None if the ABI has none."""
        known = self._functions.values()
        return next((kind for kind in known if kind.selector == selector), None)

    def event(self, name: str) -> EventType:
        """Return the event `name`. Raises TypeError if the ABI has none."""
        if name not in self._events:
            raise TypeError(f"{self.name} has no event {name}; it has {sorted(self._events)}.")
        return self._events[name]


@dataclass(frozen=True)
class Deployment:
    """The contracts of one network."""

    path: str
    chain_id: int
    block: int
    contracts: dict[str, Contract]

    def __getitem__(self, name: str) -> Contract:
        if name not in self.contracts:
            raise ConfigError(
                f"The deployment file {self.path} has no contract {name}; it lists "
                f"{', '.join(sorted(self.contracts))}. Use the file of the current deployment."
            )
        return self.contracts[name]


def load_deployment(path: Path | str, expected_chain_id: int | None = None) -> Deployment:
    """Read a deployment file.

    Raises ConfigError when it is missing, malformed, or for another chain than expected.
    """
    try:
        raw = read_json(path, DEPLOYMENT_BYTES)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no deployment file {path}. Deploy first, or correct `deployment`."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"The deployment file {path} cannot be read: {error}.") from None
    try:
        contracts = {
            name: Contract(name, _address(entry["address"]), entry["abi"])
            for name, entry in raw["contracts"].items()
        }
        deployment = Deployment(str(path), int(raw["chain_id"]), int(raw["block"]), contracts)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(
            f"The deployment file {path} is malformed: {type(error).__name__} {_clip(error)}. It "
            "needs chain_id, block, and contracts with an address and abi each."
        ) from None
    if expected_chain_id is not None and deployment.chain_id != expected_chain_id:
        raise ConfigError(
            f"The deployment file {path} is for chain {deployment.chain_id}, but chain_id is set "
            f"to {expected_chain_id}. Use the deployment file of chain {expected_chain_id}."
        )
    return deployment


def _clip(error: Exception) -> str:
    return str(error)[:200]


def _address(value: Any) -> str:
    if not isinstance(value, str) or not is_address(value):
        raise ValueError(f"{value!r} is not an address")
    return value
