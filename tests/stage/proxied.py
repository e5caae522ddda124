# SPDX-License-Identifier: Apache-2.0
"""A network whose agents reach the chain by a provider's proxy; the test itself has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.stage.chain.proxy import Proxy
from tests.stage.network import LocalNetwork


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
