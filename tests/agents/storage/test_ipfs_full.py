# SPDX-License-Identifier: Apache-2.0
"""A daemon whose disk is full can't have what others serve: an outage, and nobody's fault but its.

It goes on serving what it has, and takes that again without writing it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agents.storage import NotFound, StoreUnavailable
from agents.storage.cid import CidBuilder, cid_of_bytes, digest_of
from agents.storage.ipfs import IpfsStore
from scripts._net.kubo import KuboHandler, KuboServer, _file_part
from tests.stage.served import serving

OWN, OTHERS = b"what it has", b"what an honest node serves"
WORDS = "write /data/ipfs/blocks/put-7: no space left on device"


class Full(KuboHandler):
    """As Kubo on a disk that is full: it writes no block that it has not. While `full` is set."""

    def answer(self, call: str, options: dict[str, str], body: bytes, fault: str) -> None:
        writes = call in ("block/get", "cat", "pin/add") and not self._has(options["arg"])
        if call == "add":
            builder = CidBuilder()
            builder.update(_file_part(body))
            writes = not self._has(builder.cid())
        if self.server.full.is_set() and writes:
            self.send_json({"Message": WORDS, "Type": "error"}, status=500)
        else:
            super().answer(call, options, body, fault)

    def _has(self, cid: str) -> bool:
        return digest_of(cid).hex() in self.server.blocks


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = KuboServer(handler=Full)
    server.full = threading.Event()
    with serving(server):
        yield server


@pytest.fixture
def store(server: Any) -> Iterator[IpfsStore]:
    opened = IpfsStore(server.address, timeout_s=5.0, attempts=2, backoff_s=0.005)
    yield opened
    opened.close()


@pytest.mark.parametrize("how", ["get", "get_digest", "pin"])
def test_a_full_disk_is_an_outage_each_time(server: Any, store: IpfsStore, how: str) -> None:
    """Else an aggregator with a full disk leaves out all that it has not read yet."""
    cid, own = cid_of_bytes(OTHERS), store.put_bytes(OWN)
    use = {
        "get": lambda: store.get(cid, 100),
        "get_digest": lambda: store.get_digest(digest_of(cid), 100),
        "pin": lambda: store.pin(cid),
    }[how]
    assert store._daemon.works(), "it was asked before, when its disk had room"
    server.full.set()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="no space left"):
            use()
    assert store.get(own, 100) == OWN
    assert store.put_bytes(OWN) == own
    server.full.clear()
    with pytest.raises(NotFound):
        use()


def test_a_probe_is_not_kept_for_good(server: Any, store: IpfsStore) -> None:
    assert store._daemon.works()
    (options,) = [options for call, options in server.calls if call == "add"]
    assert options["pin"].lower() == "false"
    assert not server.pins
