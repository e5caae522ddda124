# SPDX-License-Identifier: Apache-2.0
"""A page whose index has one block of a network without events: for what needs no chain.

with empty_page(tmp_path) as site: create_app(site, html())
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.storage.content_store import ContentStore
from scripts._net.compiled import compile_contracts
from scripts._web.api.site import Site
from scripts._web.index.database import open_database
from scripts._web.index.tables import BLOCKS

NOBODY = "http://127.0.0.1:9"


@contextmanager
def empty_page(
    directory: Path, rpc_url: str = NOBODY, store: ContentStore | None = None, timeout_s: float = 60
) -> Iterator[Site]:
    """A site whose chain's node is at `rpc_url`, where nothing needs to listen."""
    contracts = {
        name: {"address": f"0x{number:040x}", "abi": artefact.abi}
        for number, (name, artefact) in enumerate(sorted(compile_contracts().items()), start=1)
    }
    raw = json.dumps({"chain_id": 31337, "block": 0, "contracts": contracts}).encode()
    file = directory / "deployment.json"
    file.write_bytes(raw)
    chain = ChainClient(
        rpc_url, open_log("web test", "error", True, None), tries=1, timeout_s=timeout_s
    )
    engine = open_database(f"sqlite:///{directory / 'index.db'}")
    with engine.begin() as connection:
        connection.execute(BLOCKS.insert(), [{"number": 7, "hash": f"0x{7:064x}", "time": 1_000}])
    yield Site(load_deployment(file), raw, chain, engine, store=store)
    engine.dispose()
