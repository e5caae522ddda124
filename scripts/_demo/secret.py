# SPDX-License-Identifier: Apache-2.0
"""The sponsor of a demo whose data is encrypted: it holds the secret and gives out keys.

It runs beside the demo's watch, with what `ape run keys serve` runs. `Sight` is what the demo's
judge sees of it at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.protocol.network import Network
from agents.runtime.contracts import Contract
from agents.storage.content_store import ContentStore
from scripts._net.localnet import Localnet
from scripts._shared.key_server import KeyServer


@dataclass(frozen=True)
class Sight:
    """What there is to judge. `key`: the sponsor's secret; `folders`: of nodes by seat. `run`: all
    files of the run."""

    network: Network
    store: ContentStore
    job_id: int
    key: bytes
    folders: dict[str, Path]
    nodes: dict[str, int]
    run: Path


class DemoKeyServer:
    """Gives out the keys of a demo's job at each look."""

    def __init__(
        self, net: Localnet, network: Network, store: ContentStore, job_id: int, key: bytes
    ) -> None:
        self._net = net
        self.said: list[str] = []
        sponsor = net.sponsor.address
        self._server = KeyServer(network, store, job_id, key, sponsor, self._send, self.said.append)
        self._server.holder.announce()

    def look(self) -> None:
        """Give what is due now."""
        self._server.step()

    def _send(self, contract: Contract, function: str, args: tuple[Any, ...]) -> Any:
        batch = self._net.batch()
        own = self._net.contract(contract.name)
        batch.add(self._net.sponsor, own.functions[function](*args))
        return batch.settle()
