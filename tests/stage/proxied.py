# SPDX-License-Identifier: Apache-2.0
"""A network whose agents reach the chain by a provider's proxy; the test itself has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from tests.stage.chain.proxy import Count, Proxy
from tests.stage.network import LocalNetwork


@dataclass(frozen=True)
class Asked:
    """One agent's requests over a number of blocks."""

    blocks: int
    count: Count

    @property
    def requests(self) -> float:
        """For each block."""
        return self.count.requests / self.blocks

    @property
    def calls(self) -> float:
        """For each block."""
        return self.count.calls.total() / self.blocks


def asked(
    local: LocalNetwork, proxy: Proxy, names: list[str], meanwhile: Callable[[], object]
) -> dict[str, Asked]:
    """What these agents asked while something went on."""
    first, before = local.network.chain.head().number, {n: proxy.count(n) for n in names}
    meanwhile()
    blocks = max(1, local.network.chain.head().number - first)
    return {name: Asked(blocks, proxy.count(name) - before[name]) for name in names}


@contextmanager
def behind(local: LocalNetwork, **options: Any) -> Iterator[Proxy]:
    """Put a proxy between the chain and every agent that is started from now on."""
    proxy = Proxy(local.net.anvil.url, **options)
    before = {seat.config: seat.config.read_text() for seat in local.net.seats.values()}
    try:
        for name, seat in local.net.seats.items():
            settings = {**yaml.safe_load(before[seat.config]), "rpc_url": proxy.url_of(name)}
            seat.config.write_text(yaml.safe_dump(settings, sort_keys=False))
        yield proxy
    finally:
        for config, text in before.items():
            config.write_text(text)
        proxy.close()
