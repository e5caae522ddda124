# SPDX-License-Identifier: Apache-2.0
"""Serves a deployment's page until a signal ends it: the indexer's thread and the web server.

Rule: one process, no key. What is not there at the start is said on the page and waited for, but
a wish that can never be met is refused with a sentence.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from agents.runtime.chain import ChainClient
from agents.runtime.errors import ConfigError
from agents.runtime.logs import Log
from agents.storage.content_store import open_store
from scripts._web.api.app import Pages, create_app
from scripts._web.api.artefacts import SEARCH_S
from scripts._web.api.site import Site, digest, read_deployment
from scripts._web.follow.indexer import Indexer
from scripts._web.index.database import only_writer, open_database
from scripts._web.pages.routes import STATIC, problem, router
from scripts._web.patience import PatientConnection

_LEAVE_S = 3  # that requests have at the end
_MOST_CONNECTIONS = 1_024
_TURN_S = 0.0005  # that a thread which makes a page lets the server's loop wait
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Wishes:
    """What is served where.

    `rpc_url`: the node that the indexer asks. `browser_rpc`: the one that browsers may ask, None
    for the wallet's own alone. `database`: its URL, None for a file in the cache folder. `names`:
    under which the page may be asked for, beside addresses of machines.
    """

    rpc_url: str
    deployment: Path
    store: str | None
    database: str | None
    host: str
    port: int
    browser_rpc: str | None
    names: tuple[str, ...] = ()


def html() -> Pages:
    """The pages of the site."""
    return Pages(router, STATIC, problem)


def cached_database(identity: str, chain_id: int) -> str:
    """The URL of the database of a deployment in the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return f"sqlite:///{home / 'menagerie' / 'web' / f'{chain_id}-{identity[:16]}.db'}"


def is_local(url: str) -> bool:
    """Whether a URL is of this machine, so that a browser here may be told of it."""
    return urlsplit(url).hostname in _LOCAL


def serve(wishes: Wishes, log: Log, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the page's address once it answers.

    Raises ConfigError for a wish that can't be met, StoreError for a store that is none.
    """
    deployment, raw = read_deployment(wishes.deployment)
    store = None if wishes.store is None else open_store(wishes.store)
    # A checkpoint may take a daemon long; what a page shows of a round may not.
    searched = None if wishes.store is None else open_store(wishes.store, timeout_s=SEARCH_S)
    chain = ChainClient(wishes.rpc_url, log, tries=2)
    with _listening(wishes.host, wishes.port) as listener:
        identity = digest(raw)
        database = wishes.database or cached_database(identity, deployment.chain_id)
        engine = open_database(database)
        shown = wishes.browser_rpc, store, wishes.names, searched
        site = Site(deployment, raw, chain, engine, *shown)
        with only_writer(engine):
            indexer = Indexer(chain, deployment, site.identity, site.engine, log, site.live.told)
            site.standing = indexer.standing
            _serve(site, indexer, listener, ready)
        engine.dispose()


def _serve(
    site: Site, indexer: Indexer, listener: socket.socket, ready: Callable[[str], None]
) -> None:
    host, port = listener.getsockname()[:2]
    server = Server(site, html(), lambda: ready(f"http://{_shown(host)}:{port}"))
    stop = threading.Event()
    thread = threading.Thread(target=indexer.run, args=(stop,), name="indexer", daemon=True)
    thread.start()
    sys.setswitchinterval(_TURN_S)
    try:
        server.run(sockets=[listener])
    finally:
        stop.set()
        thread.join(_LEAVE_S)


class Server(uvicorn.Server):
    """The web server of a site. Ending, it ends the streams of open pages first."""

    def __init__(
        self, site: Site, pages: Pages | None, ready: Callable[[], None] = lambda: None
    ) -> None:
        self._site = site
        self._ready = ready
        super().__init__(
            uvicorn.Config(
                create_app(site, pages),
                http=PatientConnection,
                log_level="warning",
                access_log=False,
                server_header=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_LEAVE_S,
                timeout_keep_alive=10,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        self._site.live.close()
        await super().shutdown(sockets)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"The page can't be served at {host}:{port}: {error}. Choose another --port, or "
                "--host."
            ) from None
        yield listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
