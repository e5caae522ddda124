# SPDX-License-Identifier: Apache-2.0
"""Boxes of a store, in which anybody leaves CIDs: what whoever uses them may rely on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.storage import InvalidCid, NotFound, StoreError, StoreUnavailable
from agents.storage.cid import cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.ipfs import IpfsStore
from agents.storage.several import SeveralStores
from tests.agents.storage.conftest import KuboServer

BOX, OTHER = b"\1" * 32, b"\2" * 32


def test_what_is_left_in_a_box_lies_there_until_it_is_taken_away(store: ContentStore) -> None:
    cids = {store.put_bytes(bytes([number])) for number in range(3)}
    assert store.left(BOX, 10) == [], "nobody made this box"
    for cid in [*cids, *cids]:
        store.leave(BOX, cid)
    assert set(store.left(BOX, 10)) == cids and store.left(OTHER, 10) == []
    assert len(store.left(BOX, 2)) == 2
    gone = min(cids)
    for _ in range(2):
        store.take_away(BOX, gone)
    assert set(store.left(BOX, 10)) == cids - {gone}
    assert store.has(gone), "its content stays"
    for cid in cids:
        store.take_away(BOX, cid)
    assert store.left(BOX, 10) == []


def test_only_what_the_store_has_is_left(store: ContentStore) -> None:
    with pytest.raises(NotFound):
        store.leave(BOX, cid_of_bytes(b"nowhere"))
    assert store.left(BOX, 10) == []


def test_a_box_and_what_lies_in_it_are_named_properly(store: ContentStore) -> None:
    cid = store.put_bytes(b"kept")
    for box, what in ((b"short", cid), (BOX, "../../etc/passwd")):
        for call in (store.leave, store.take_away):
            with pytest.raises(InvalidCid):
                call(box, what)
    with pytest.raises(InvalidCid):
        store.left(b"short", 1)


def test_a_box_is_filled_while_others_empty_it(embedded: EmbeddedStore) -> None:
    """The last CID's folder goes with it, at any moment of another process's `leave`."""
    cids = [embedded.put_bytes(bytes([number])) for number in range(3)]

    def leave_and_take_away(cid: str) -> None:
        for _ in range(100):
            embedded.leave(BOX, cid)
            assert cid in embedded.left(BOX, 10)
            embedded.take_away(BOX, cid)

    with ThreadPoolExecutor(len(cids)) as pool:
        list(pool.map(leave_and_take_away, cids))
    assert embedded.left(BOX, 10) == []


def test_a_box_whose_place_is_taken_is_an_error(embedded: EmbeddedStore) -> None:
    cid = embedded.put_bytes(b"kept")
    (embedded.root / "boxes").mkdir()
    (embedded.root / "boxes" / BOX.hex()).touch()
    with pytest.raises(StoreUnavailable, match="leave something in"):
        embedded.leave(BOX, cid)


def test_what_strangers_put_into_the_folder_is_no_cid(embedded: EmbeddedStore) -> None:
    cid = embedded.put_bytes(b"kept")
    embedded.leave(BOX, cid)
    (embedded.root / "boxes" / BOX.hex() / "no cid").touch()
    assert embedded.left(BOX, 10) == [cid]


def test_a_list_of_nonsense_or_too_much_is_read_as_far_as_it_is_bounded(
    kubo: KuboServer, ipfs: IpfsStore
) -> None:
    cid = ipfs.put_bytes(b"kept")
    ipfs.leave(BOX, cid)
    folder = next(iter(kubo.folders))
    kubo.folders[folder] |= {"no cid", "../x"}
    assert ipfs.left(BOX, 10) == [cid]
    kubo.folders[folder] |= {cid_of_bytes(b"%d" % number) for number in range(50_000)}
    assert len(ipfs.left(BOX, 1_024)) == 1_024
    before = kubo.sent
    assert 1_024 < len(ipfs.left(BOX, 100_000)) < 5_000
    assert kubo.sent - before < 5 << 20


def test_a_daemon_that_answers_something_else_is_not_read(
    kubo: KuboServer, ipfs: IpfsStore
) -> None:
    cid = ipfs.put_bytes(b"kept")
    ipfs.leave(BOX, cid)
    kubo.faults.extend(["garbage"] * 9)
    with pytest.raises(StoreError):
        ipfs.left(BOX, 10)


def test_several_stores_share_their_boxes(
    embedded: EmbeddedStore, tmp_path: Path, kubo: KuboServer
) -> None:
    """Writer and reader may list different ones, and one of them may be down."""
    shared, own = embedded, EmbeddedStore(tmp_path / "own")
    dead = IpfsStore("/ip4/127.0.0.1/tcp/9", timeout_s=0.2, attempts=1, backoff_s=0.01)
    several = SeveralStores([dead, own, shared])
    cid = several.put_bytes(b"kept")
    assert shared.put_bytes(b"kept") == cid
    several.leave(BOX, cid)
    assert own.left(BOX, 10) == shared.left(BOX, 10) == several.left(BOX, 10) == [cid]
    several.take_away(BOX, cid)
    assert shared.left(BOX, 10) == []
    with pytest.raises(StoreUnavailable):
        SeveralStores([dead]).left(BOX, 10)
