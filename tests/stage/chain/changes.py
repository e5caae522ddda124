# SPDX-License-Identifier: Apache-2.0
"""Every kind of change that can be made to the events of some contracts, to be played on an audit.

A kind is an event of a contract and what is done to it: one of its fields says something else, or
the event is left out. It is played on the first, the middle and the last event of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.runtime.contracts import Deployment
from tests.stage.chain.lying_sources import Lie, changed, kinds_of, relogged

LEFT_OUT = "left out"
Log = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One change. `contract`, `event` and `what` are its kind; `args`: the true fields."""

    contract: str
    event: str
    what: str
    args: Mapping[str, Any]
    lie: Lie

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.contract, self.event, self.what


def in_place_of(log: Log, other: Log | None) -> Lie:
    """A lie: `other` in place of a log, or None to leave it out."""

    def same(one: Log) -> bool:
        return bool(one["blockNumber"] == log["blockNumber"] and one["logIndex"] == log["logIndex"])

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method != "eth_getLogs":
            return result
        return [other if same(one) else one for one in result if other or not same(one)]

    return lie


def logs_of(deployment: Deployment, provider: Any) -> list[Log]:
    """All logs of a network's contracts."""
    query = {
        "address": [contract.address for contract in deployment.contracts.values()],
        "fromBlock": "0x0",
        "toBlock": "latest",
    }
    found: list[Log] = provider.make_request("eth_getLogs", [query])["result"]
    return found


def changes(
    deployment: Deployment,
    provider: Any,
    contracts: frozenset[str],
    of: Callable[[str, Mapping[str, Any]], bool] = lambda event, args: True,
) -> Iterator[Change]:
    """Every kind of change of these contracts' events. `of`: which events count."""
    kinds = kinds_of(deployment)
    groups: dict[tuple[str, str], list[tuple[Log, Any, dict[str, Any]]]] = {}
    for log in logs_of(deployment, provider):
        contract, kind = kinds[str(log["address"]).lower(), log["topics"][0]]
        if contract.name not in contracts:
            continue
        args, name = kind.decode(log).args, str(kind.abi["name"])
        if of(name, args):
            groups.setdefault((contract.name, name), []).append((log, kind, args))
    for (contract_name, name), found in sorted(groups.items()):
        for index in sorted({0, len(found) // 2, len(found) - 1}):
            log, kind, args = found[index]
            yield Change(contract_name, name, LEFT_OUT, args, in_place_of(log, None))
            for item in kind.abi["inputs"]:
                for label, other in changed(item, args[item["name"]]):
                    lie = in_place_of(log, relogged(kind, log, {**args, item["name"]: other}))
                    yield Change(contract_name, name, label, args, lie)
