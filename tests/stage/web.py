# SPDX-License-Identifier: Apache-2.0
"""The page of a real chain: an index in a database, and the application on a port of its own.

with served(finished.network, database, deployment_file) as page: httpx.get(page.url + "/api/home")
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from agents.runtime.chain import ChainClient
from agents.runtime.logs import open_log
from agents.storage.content_store import ContentStore
from scripts._web.api.app import Pages
from scripts._web.api.site import Site, read_deployment
from scripts._web.follow.indexer import Indexer
from scripts._web.index.database import open_database
from scripts._web.serve import Server

_START_S = 120.0


@dataclass
class Served:
    """A page that is being served. `indexer` follows the chain in a thread, until `stop` is set."""

    url: str
    site: Site
    indexer: Indexer
    stop: threading.Event


def make_site(
    rpc_url: str,
    deployment: Path,
    database: str,
    store: ContentStore | None = None,
    timeout_s: float = 20.0,
) -> tuple[Site, Indexer]:
    """An index of the deployment in the database at this URL; it has followed nothing yet."""
    log = open_log("web test", "error", True, None)
    chain = ChainClient(rpc_url, log, tries=1, timeout_s=timeout_s)
    deployed, raw = read_deployment(deployment)
    engine = open_database(database)
    site = Site(deployed, raw, chain, engine, rpc_url=rpc_url, store=store)
    indexer = Indexer(chain, deployed, site.identity, engine, log, site.live.told)
    site.standing = indexer.standing
    return site, indexer


@contextmanager
def served(
    rpc_url: str,
    deployment: Path,
    database: str,
    *,
    store: ContentStore | None = None,
    pages: Pages | None = None,
    follow: bool = True,
    caught_up: bool = True,
    timeout_s: float = 20.0,
) -> Iterator[Served]:
    """Serve a deployment's page on a free port, with its index at the chain's head.

    `pages`: the HTML; without it the API alone. `follow`: keep following the chain; else the
    index stays where it is. `caught_up`: it begins at the chain's head; else it is empty.
    `timeout_s`: how long the chain's node has to answer.
    """
    site, indexer = make_site(rpc_url, deployment, database, store, timeout_s)
    if caught_up:
        indexer.catch_up()
    stop = threading.Event()
    threads = []
    if follow:
        threads.append(threading.Thread(target=indexer.run, args=(stop, 0.05), daemon=True))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Server(site, pages)
        sockets = {"sockets": [listener]}
        threads.append(threading.Thread(target=server.run, kwargs=sockets, daemon=True))
        for thread in threads:
            thread.start()
        try:
            _await(server)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Served(url, site, indexer, stop)
        finally:
            stop.set()
            server.should_exit = True
            for thread in threads:
                thread.join(_START_S)
            site.engine.dispose()


def _await(server: uvicorn.Server) -> None:
    end = time.monotonic() + _START_S
    while not server.started:
        assert time.monotonic() < end, "the page did not start"
        time.sleep(0.01)
