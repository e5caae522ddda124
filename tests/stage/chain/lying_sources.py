# SPDX-License-Identifier: Apache-2.0
"""An RPC node and a store that lie about one thing at a time.

Rule: a lie is well formed (it decodes, it is of the right type and size); everything else is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from eth_abi.abi import encode

from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment, EventType, abi_type
from agents.runtime.logs import open_log
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound
from agents.storage.sink import Sink

Lie = Callable[[str, list[Any], Any], Any]  # (method, params, true result) -> result


class RecordedProvider:
    """Remembers what a node answered: the chain under audit is finished, so it says it again."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._known: dict[str, Any] = {}

    def make_request(self, method: Any, params: Any) -> Any:
        key = f"{method} {params}"
        if key not in self._known:
            self._known[key] = self._inner.make_request(method, params)
        return self._known[key]

    def make_batch_request(self, batch: Any) -> Any:
        return [self.make_request(method, params) for method, params in batch]


class LyingProvider:
    """Passes requests on and lets `lie` change what comes back."""

    def __init__(self, inner: Any, lie: Lie) -> None:
        self._inner = inner
        self._lie = lie

    def make_request(self, method: Any, params: Any) -> Any:
        return self._changed(method, params, self._inner.make_request(method, params))

    def make_batch_request(self, batch: Any) -> Any:
        answers = self._inner.make_batch_request(batch)
        pairs = zip(batch, answers, strict=True)
        return [self._changed(method, params, answer) for (method, params), answer in pairs]

    def _changed(self, method: Any, params: Any, answer: Any) -> Any:
        if "result" not in answer:
            return answer
        return {**answer, "result": self._lie(str(method), list(params), answer["result"])}


def truth(method: str, params: list[Any], result: Any) -> Any:
    return result


def lying_network(true: Any, deployment: Deployment, lie: Lie = truth) -> Network:
    """The contracts over an RPC node that lies. `true`: a provider that doesn't."""
    chain = ChainClient("http://liar", open_log("audit test", "error", True, None))
    chain._provider = LyingProvider(true, lie)  # type: ignore[assignment]
    return Network(chain, deployment)


# -- events -------------------------------------------------------------------------------------


def changed(item: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
    """(what was done, another value of the same type) for a value of an ABI item."""
    kind, name = str(item["type"]), str(item.get("name") or "")
    if kind.endswith("[2]"):
        element = {**item, "type": kind[:-3]}
        for label, other in changed(element, value[1]):
            yield f"last {label}", [value[0], other]
        for label, other in changed(element, value[0]):
            yield f"first {label}", [other, value[1]]
    elif kind.endswith("[]"):
        element = {**item, "type": kind[:-2]}
        if value:
            for label, other in changed(element, value[-1]):
                yield f"last {label}", [*value[:-1], other]
            yield f"{name} shortened", list(value[:-1])
            yield f"{name} lengthened", [*value, value[-1]]
    elif kind == "tuple":
        for index, part in enumerate(item["components"]):
            for label, other in changed(part, value[index]):
                yield f"{name}.{label}", (*value[:index], other, *value[index + 1 :])
    elif kind.startswith("uint"):
        yield name, value + 1
    elif kind == "bool":
        yield name, not value
    elif kind == "address":
        yield name, value[:-1] + ("0" if value[-1] != "0" else "1")
    elif kind == "bytes32":
        yield name, bytes([value[0] ^ 1]) + bytes(value[1:])
    elif kind.startswith("string"):
        yield name, value + "."
    else:
        raise AssertionError(f"no way to change a {kind}")


def relogged(kind: EventType, log: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """The log with other fields."""
    plain = [item for item in kind.abi["inputs"] if not item["indexed"]]
    indexed = [item for item in kind.abi["inputs"] if item["indexed"]]
    data = encode([abi_type(item) for item in plain], [args[item["name"]] for item in plain])
    topics = [log["topics"][0]]
    topics += ["0x" + encode([i["type"]], [args[i["name"]]]).hex() for i in indexed]
    return {**log, "data": "0x" + data.hex(), "topics": topics}


def kinds_of(deployment: Deployment) -> dict[tuple[str, str], tuple[Contract, EventType]]:
    """Contract and event type by (address, topic)."""
    found = {}
    for contract in deployment.contracts.values():
        for item in contract.abi:
            if item["type"] == "event":
                kind = contract.event(item["name"])
                found[contract.address.lower(), "0x" + kind.topic.hex()] = (contract, kind)
    return found


# -- the store ----------------------------------------------------------------------------------


class LyingStore:
    """A store that gives other bytes for one CID and verifies nothing."""

    def __init__(self, store: ContentStore, cid: str, data: bytes | None) -> None:
        """`data` None: it says that it doesn't have it."""
        self._store = store
        self._cid = cid
        self._data = data
        self.location = store.location
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, cid: str, max_bytes: int) -> bytes:
        if cid != self._cid:
            return self._store.get(cid, max_bytes)
        self.asked = True
        if self._data is None:
            raise NotFound(f"{cid} is not here")
        return self._data

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        if cid != self._cid:
            return self._store.stream(cid, sink, max_bytes)
        data = self.get(cid, max_bytes)
        sink.begin()
        sink.write(data)
        return len(data)

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        return self.get(self._store.resolve(digest), max_bytes)
