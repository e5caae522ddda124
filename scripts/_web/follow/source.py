# SPDX-License-Identifier: Apache-2.0
"""Reads the contracts' logs of a range of blocks, with one request for all contracts.

Rule: what is returned belongs to one chain, the one that holds the range's last block. Logs of
contracts that the page does not show (the token's transfers) are not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.protocol.network import ChainMoved
from agents.runtime.chain import ChainClient, Head
from agents.runtime.contracts import Contract, Deployment, EventType
from scripts._web.index.entry import Entry

_WITHOUT = ("ZooToken", "Lens")


@dataclass(frozen=True)
class Range:
    """The events of blocks up to `last`, in chain order."""

    entries: list[Entry]
    last: Head


class Source:
    """The contracts of a deployment on one RPC node."""

    def __init__(self, chain: ChainClient, deployment: Deployment) -> None:
        self.chain = chain
        contracts = [c for c in deployment.contracts.values() if c.name not in _WITHOUT]
        self._addresses = [contract.address for contract in contracts]
        self._kinds: dict[tuple[str, str], tuple[Contract, EventType]] = {}
        for contract in contracts:
            for item in contract.abi:
                if item["type"] == "event":
                    kind = contract.event(item["name"])
                    key = contract.address.lower(), "0x" + kind.topic.hex()
                    self._kinds[key] = contract, kind

    def read(self, first: int, last: Head) -> Range:
        """Return the events of blocks `first` to `last`, both included.

        Raises ChainMoved when the chain was reorganised meanwhile, and what ChainClient raises.
        """
        blocks = last.number - first + 1
        logs = self.chain.logs(self._addresses, [], first, last.number, blocks)
        if self.chain.block_hash(last.number) != last.hash:
            raise ChainMoved("The chain was reorganised while the index read it.")
        known = [(log, *kind) for log in logs if (kind := self._kind(log)) is not None]
        known.sort(key=lambda item: (int(item[0]["blockNumber"], 16), int(item[0]["logIndex"], 16)))
        times = self._times([log for log, _, _ in known])
        return Range(
            [
                Entry(kind.decode(log), contract.name, times[log["blockNumber"]])
                for log, contract, kind in known
            ],
            last,
        )

    def _kind(self, log: Any) -> tuple[Contract, EventType] | None:
        topics = log.get("topics") or [""]
        return self._kinds.get((str(log["address"]).lower(), topics[0]))

    def _times(self, logs: Sequence[Any]) -> dict[str, int]:
        """The time of each block by its number in hexadecimal. Newer nodes say it in the log."""
        found = {
            log["blockNumber"]: int(log["blockTimestamp"], 16)
            for log in logs
            if log.get("blockTimestamp")
        }
        asked = sorted({log["blockNumber"] for log in logs} - found.keys())
        method = "eth_getBlockByNumber"
        answers = self.chain.ask_many([(method, [number, False]) for number in asked])
        for number, answer in zip(asked, answers, strict=True):
            block = self.chain.value(method, answer)
            if block is None:
                raise ChainMoved(f"Block {int(number, 16)} is gone.")
            found[number] = int(block["timestamp"], 16)
        return found
