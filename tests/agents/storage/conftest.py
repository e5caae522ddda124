# SPDX-License-Identifier: Apache-2.0
"""Rule: the IPFS store is tested over real sockets, against a server that can fail on command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboServer
from tests.stage.served import serving


@pytest.fixture
def kubo() -> Iterator[KuboServer]:
    """A running server on a free port."""
    with serving(KuboServer()) as server:
        yield server


@pytest.fixture
def ipfs(kubo: KuboServer) -> Iterator[IpfsStore]:
    """An IPFS store on that server that retries quickly."""
    store = IpfsStore(kubo.address, timeout_s=60, attempts=3, backoff_s=0.005)
    yield store
    store.close()


@pytest.fixture
def embedded(tmp_path: Path) -> EmbeddedStore:
    """An embedded store in a fresh folder."""
    return EmbeddedStore(tmp_path / "store")


@pytest.fixture(params=["embedded", "ipfs"])
def store(request: pytest.FixtureRequest) -> ContentStore:
    """Each implementation in turn: what a caller may rely on holds for both."""
    return request.getfixturevalue(request.param)
