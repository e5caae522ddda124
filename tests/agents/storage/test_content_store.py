# SPDX-License-Identifier: Apache-2.0
"""What a caller may rely on, whichever store is behind: each test runs on both."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.storage import InvalidCid, NotFound, StoreError, TooLarge
from agents.storage.cid import DAG_PB, PROFILE, RAW, CidBuilder, cid_from_digest, cid_of_bytes
from agents.storage.cid import digest_of as digest
from agents.storage.content_store import ContentStore, open_store
from agents.storage.embedded import EmbeddedStore
from agents.storage.ipfs import IpfsStore

CHUNK = PROFILE.chunk_size
SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17, 9_000_001]
LIMIT = 1 << 30

pytestmark = pytest.mark.filterwarnings("ignore:The 'strict' parameter:FutureWarning")


@functools.cache
def content(size: int) -> bytes:
    """Bytes whose chunks all differ, so that reordered slices show."""
    return b"".join(i.to_bytes(4, "little") for i in range(size // 4 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_round_trip(store: ContentStore, tmp_path: Path, size: int) -> None:
    data = content(size)
    cid = store.put_bytes(data)
    assert cid == cid_of_bytes(data)
    assert store.get(cid, LIMIT) == data
    assert store.get(cid, size) == data
    assert store.get_digest(digest(cid), LIMIT) == data
    assert store.resolve(digest(cid)) == cid
    assert store.get_file(cid, tmp_path / "out", size) == size
    assert (tmp_path / "out").read_bytes() == data


@pytest.mark.parametrize("size", SIZES)
def test_files_and_bytes_have_the_same_cid(store: ContentStore, tmp_path: Path, size: int) -> None:
    (tmp_path / "in").write_bytes(content(size))
    assert store.put_file(tmp_path / "in") == store.put_bytes(content(size))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300), st.integers(0, 3))
def test_any_bytes_round_trip(store: ContentStore, seed: bytes, chunks: int) -> None:
    data = seed + bytes(chunks * CHUNK) + seed
    cid = store.put_bytes(bytearray(data))
    assert store.get(cid, len(data)) == data
    assert store.get_digest(digest(cid), len(data)) == data


@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 1])
def test_the_bound_is_a_bound(store: ContentStore, tmp_path: Path, size: int) -> None:
    cid = store.put_bytes(content(size))
    for limit in (size - 1, 0):
        for call, arguments in (
            (store.get, (cid,)),
            (store.get_digest, (digest(cid),)),
            (store.get_file, (cid, tmp_path / "out")),
        ):
            with pytest.raises(TooLarge, match=str(limit)):
                call(*arguments, limit)
    assert list(tmp_path.glob("*out*")) + list(tmp_path.glob(".part*")) == []


@pytest.mark.parametrize("size", [3, CHUNK + 3])
def test_absent_content_is_not_found(store: ContentStore, tmp_path: Path, size: int) -> None:
    cid = cid_of_bytes(content(size))
    assert not store.has(cid)
    for call, *arguments in (
        (store.get, cid, LIMIT),
        (store.get_file, cid, tmp_path / "out", LIMIT),
        (store.pin, cid),
        (store.get_digest, digest(cid), LIMIT),
        (store.resolve, digest(cid)),
    ):
        with pytest.raises(NotFound):
            call(*arguments)
    assert not (tmp_path / "out").exists()


def test_has_and_pin(store: ContentStore) -> None:
    cid = store.put_bytes(b"kept")
    assert store.has(cid)
    store.pin(cid)
    assert store.has(cid)


@pytest.mark.parametrize(
    "cid", ["", "../../etc/passwd", "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH"]
)
def test_a_bad_cid_is_refused_before_anything_is_asked(
    store: ContentStore, tmp_path: Path, cid: str
) -> None:
    for call, *more in (
        *((store.get, 1), (store.get_file, tmp_path / "out", 1)),
        *((store.has,), (store.pin,)),
    ):
        with pytest.raises(InvalidCid):
            call(cid, *more)


def test_a_digest_of_31_bytes_is_refused(store: ContentStore) -> None:
    with pytest.raises(InvalidCid, match="31 bytes"):
        store.get_digest(bytes(31), 1)


def root_block(data: bytes) -> bytes:
    """The block that a file of several chunks is named by."""
    builder = CidBuilder()
    builder.update(data)
    block = builder.root().block
    assert block is not None
    return block


def test_a_root_stored_as_plain_bytes_does_not_take_its_files_place(store: ContentStore) -> None:
    data = content(3 * CHUNK)
    block = root_block(data)
    fake = store.put_bytes(block)
    assert digest(fake) == digest(cid_of_bytes(data))
    assert store.get(fake, LIMIT) == block  # asked for by its own CID it is what it is
    with pytest.raises(NotFound):
        store.get_digest(digest(fake), LIMIT)
    store.put_bytes(data)
    assert store.get_digest(digest(fake), LIMIT) == data
    assert store.resolve(digest(fake)) == cid_from_digest(digest(fake), DAG_PB)


def test_bytes_that_only_look_like_a_root_are_themselves(store: ContentStore) -> None:
    block = root_block(content(3 * CHUNK)) + b"\x00"
    cid = store.put_bytes(block)
    assert store.resolve(digest(cid)) == cid_from_digest(digest(cid), RAW)
    assert store.get_digest(digest(cid), LIMIT) == block


def test_an_unreadable_source_is_named(store: ContentStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*missing: No such file"):
        store.put_file(tmp_path / "missing")
    with pytest.raises(StoreError, match="Is a directory"):
        store.put_file(tmp_path)


def test_a_destination_without_a_folder_is_named(store: ContentStore, tmp_path: Path) -> None:
    cid = store.put_bytes(b"x")
    with pytest.raises(StoreError, match="nowhere"):
        store.get_file(cid, tmp_path / "nowhere" / "out", 1)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_open_a_folder(tmp_path: Path, form: str) -> None:
    store = open_store(form.format(tmp_path / "a b"))
    assert isinstance(store, EmbeddedStore)
    assert store.root == tmp_path / "a b"
    assert open_store(f"file://{tmp_path}/a%20b").location == store.location


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("/ip4/127.0.0.1/tcp/5001", "ipfs:///ip4/127.0.0.1/tcp/5001"),
        ("ipfs:///dns/example.org/tcp/443/https", "ipfs:///dns/example.org/tcp/443/https"),
        ("http://127.0.0.1:5001", "ipfs:///ip4/127.0.0.1/tcp/5001/http"),
        ("http://[::1]:5001/", "ipfs:///ip6/::1/tcp/5001/http"),
        ("https://me:secret@example.org/kubo", "ipfs:///dns/example.org/tcp/443/https"),
    ],
)
def test_open_a_daemon(url: str, location: str) -> None:
    store = open_store(url)
    assert isinstance(store, IpfsStore)
    assert store.location == location
    store.close()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        *((url, "give a folder") for url in ("", "  ", "s3://bucket", "file://host/x", "file://")),
        *((url, "give a folder") for url in ("ipfs://bafk", "http://", "http://h:x/")),
        *((f"/ip4/{at}", "give a multiaddr") for at in ("127.0.0.1", "1.2.3/tcp/5001")),
        ("/ip4/1.2.3.4/udp/1", "give a multiaddr"),
    ],
)
def test_other_settings_are_refused(setting: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        open_store(setting)
