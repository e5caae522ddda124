# SPDX-License-Identifier: Apache-2.0
"""What one page serves: a deployment, the index of it, and where its artefacts are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sqlalchemy.engine import Engine

from agents.protocol.network import Network
from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Deployment, load_deployment
from agents.runtime.errors import AgentError
from agents.runtime.files import DEPLOYMENT_BYTES, read_bounded
from agents.storage.content_store import ContentStore
from scripts._web.api.artefacts import Artefacts
from scripts._web.api.at_once import AtOnce
from scripts._web.api.live import Live
from scripts._web.follow.indexer import Standing


class Silent(AgentError):
    """The chain's node did not answer when it was asked last."""

    def __init__(self) -> None:
        super().__init__("The chain's node does not answer.")


@dataclass
class Site:
    """Everything that routes need. It holds no key.

    `rpc_url`: the node that a browser may ask, None for the wallet's own alone. `raw`: the
    deployment file's bytes, which browsers check. `names`: under which the page may be asked for,
    beside addresses of machines. `standing`: the indexer's, which writes it. `searched`: the same
    store with short searches, from which pages take small files; None for `store`.
    """

    deployment: Deployment
    raw: bytes
    chain: ChainClient
    engine: Engine
    rpc_url: str | None = None
    store: ContentStore | None = None
    names: tuple[str, ...] = ()
    searched: ContentStore | None = None
    standing: Standing = field(default_factory=Standing)
    live: Live = field(default_factory=Live)
    at_the_chain: AtOnce = field(default_factory=lambda: AtOnce(16, waiting=8, patience_s=1.0))
    _grace: int | None = field(default=None, init=False)

    @cached_property
    def identity(self) -> str:
        """The SHA-256 of the deployment file, in hexadecimal."""
        return digest(self.raw)

    @cached_property
    def network(self) -> Network:
        """The agents' typed reader of the same contracts, for what no event says. Whoever answers a
        reader takes it from `asked`."""
        return Network(self.chain, self.deployment)

    @contextmanager
    def asked(self) -> Iterator[Network]:
        """The reader of the contracts, for one of those who may ask the chain at once.

        Raises Silent while the indexer gets no answer, so that nobody waits for one, and
        TooMany.
        """
        if self.standing.rpc_down:
            raise Silent
        with self.at_the_chain.taken():
            yield self.network

    @cached_property
    def artefacts(self) -> Artefacts:
        """The store's files, each of which is read once."""
        return Artefacts(self.searched or self.store)

    def grace_period(self) -> int:
        """Seconds that a queued operation stays executable: fixed by the deployment, so it is asked
        for once. Raises AgentError while nobody has answered."""
        if self._grace is None:
            with self.asked() as network:
                self._grace = int(self.chain.call(network.coordinator, "grace_period"))
        return self._grace


def digest(raw: bytes) -> str:
    """The SHA-256 of a deployment file's bytes, by which browsers and databases know it."""
    return hashlib.sha256(raw).hexdigest()


def read_deployment(path: Path) -> tuple[Deployment, bytes]:
    """Return a deployment and its file's bytes. Raises ConfigError as `load_deployment` does."""
    deployment = load_deployment(path)
    return deployment, read_bounded(path, DEPLOYMENT_BYTES)
