# SPDX-License-Identifier: Apache-2.0
"""A daemon that fails after it has sent a good answer says so in a trailer, which counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.storage import NotFound, StoreUnavailable
from agents.storage.cid import cid_of_bytes
from agents.storage.ipfs import IpfsStore

DATA = b"an artefact"
FULL = "late:write /data/ipfs/blocks/put-1: no space left on device"
WRITES: dict[str, Callable[[IpfsStore], object]] = {
    "put": lambda store: store.put_bytes(DATA),
    "pin": lambda store: store.pin(cid_of_bytes(DATA)),
}
by_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@by_write
def test_what_failed_after_its_answer_was_not_done(kubo: Any, ipfs: IpfsStore, write: Any) -> None:
    ipfs.put_bytes(DATA)
    kubo.faults.extend([FULL] * 3)
    if write is WRITES["pin"]:
        # It is asked then whether it works: for its version, and to keep a probe.
        kubo.faults.extend([FULL] * 2)
    with pytest.raises(StoreUnavailable, match="no space left on device"):
        write(ipfs)
    assert not kubo.faults, "it was tried again, as after any failure"


@by_write
def test_a_passing_failure_is_overcome(kubo: Any, ipfs: IpfsStore, write: Any) -> None:
    ipfs.put_bytes(DATA)
    kubo.faults.append(FULL)
    write(ipfs)
    assert not kubo.faults


def test_a_pin_whose_content_went_away_meanwhile_is_missing(kubo: Any, ipfs: IpfsStore) -> None:
    cid = ipfs.put_bytes(DATA)
    kubo.faults.append(f"late:pin: block was not found locally: ipld: could not find {cid}")
    with pytest.raises(NotFound):
        ipfs.pin(cid)


def test_a_stream_that_breaks_is_taken_up_where_it_did_as_before(
    kubo: Any, ipfs: IpfsStore
) -> None:
    """What a daemon calls its timeout bounds a whole transfer, so a long one may end so."""
    data = bytes(range(256)) * 4096
    cid = ipfs.put_bytes(data)
    kubo.faults.append("truncate")
    assert ipfs.get(cid, 1 << 30) == data
