# SPDX-License-Identifier: Apache-2.0
"""Parts of a file are read by their blocks alone, and no block can lie: attacks first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.storage import CorruptContent, NotFound, TooLarge, cid
from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    Profile,
    _inner_block,
    children_of,
    cid_from_digest,
    digest_of,
    root_file_size,
)
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.ipfs import IpfsStore
from agents.storage.keeping import KeepingStore
from agents.storage.several import SeveralStores
from agents.storage.spans import read_spans
from scripts._net.kubo import KuboServer, _Blocks

CHUNK, LINKS = PROFILE.chunk_size, PROFILE.max_links
LIMIT = 1 << 30


def content(size: int) -> bytes:
    return b"".join(i.to_bytes(4, "little") for i in range(size // 4 + 1))[:size]


SIZES = [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17]
SPANS = [(0, 1), (CHUNK - 3, CHUNK + 5), (2 * CHUNK + 7, 4 * CHUNK), (3, 3), (0, 9 * CHUNK)]


def block(children: list[tuple[bytes, int]], codec: int = RAW) -> bytes:
    """An inner node that says what its author wants of leaves that it names."""
    return _inner_block([(bytes((1, codec)) + b"\x12\x20" + c, n, n) for c, n in children])


class Blocks(dict[bytes, bytes]):
    """What a stranger's daemon serves, and what it was asked for."""

    def __init__(self, *blocks: bytes) -> None:
        super().__init__({hashlib.sha256(one).digest(): one for one in blocks})
        self.asked: list[bytes] = []

    def fetch(self, digest: bytes) -> bytes:
        self.asked.append(digest)
        if digest not in self:
            raise NotFound(digest.hex())
        return self[digest]


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# -- attacks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("served", [b"", b"x", b"longer than it was", content(2 * CHUNK)])
def test_a_block_with_another_digest_is_refused(served: bytes) -> None:
    one, two = content(CHUNK), b"the end"
    root = block([(sha(one), CHUNK), (sha(two), len(two))])
    for wrong in (root, one):
        blocks = Blocks(root, one, two)
        blocks[sha(wrong)] = served
        with pytest.raises(CorruptContent, match="are not it"):
            read_spans(sha(root), [(0, 9)], LIMIT, blocks.fetch)


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1])
def test_a_leaf_of_another_length_than_its_root_says_is_refused(length: int) -> None:
    """Its digest is right, so only the length shows that nobody has such a file."""
    short, end = content(length), b"the end"
    root = block([(sha(short), CHUNK), (sha(end), len(end))])
    assert root_file_size(root) == CHUNK + len(end), "the root alone must not show it"
    with pytest.raises(CorruptContent, match="leaf at 0"):
        read_spans(sha(root), [(0, 1)], LIMIT, Blocks(root, short, end).fetch)


def test_a_root_that_lies_about_sizes_or_order_is_a_file_of_its_own() -> None:
    """It is no canonical root, so its digest names its bytes, here as in every store."""
    one, two = content(CHUNK), b"the end"
    lies = [
        block([(sha(two), len(two)), (sha(one), CHUNK)]),  # the short leaf first
        block([(sha(one), CHUNK - 1), (sha(two), len(two) + 1)]),
        block([(sha(one), CHUNK), (sha(two), len(two))], DAG_PB),
        block([(sha(one), CHUNK)]),  # a level that the size does not need
        block([(sha(one), CHUNK), (sha(two), len(two))])[:-1],
    ]
    for root in lies:
        found = read_spans(sha(root), [(0, len(root))], LIMIT, Blocks(root, one, two).fetch)
        assert (found.size, found.parts) == (len(root), (root,))


def test_an_inner_node_that_is_not_the_only_one_of_its_size_is_refused() -> None:
    """Endless depth: a node in the place of leaves, and one that names itself by its own size."""
    leaf, end = content(CHUNK), b"the end"
    full = block([(sha(leaf), CHUNK)] * LINKS)
    size = CHUNK * LINKS
    tail = block([(sha(end), len(end))])
    for wrong in (full[:-1] + b"\0", block([(sha(full), CHUNK)] * LINKS, DAG_PB), leaf[:99]):
        root = _inner_block(
            [
                (bytes((1, DAG_PB)) + b"\x12\x20" + sha(wrong), size, len(full) + size),
                (bytes((1, DAG_PB)) + b"\x12\x20" + sha(tail), len(end), len(tail) + len(end)),
            ]
        )
        assert root_file_size(root) == size + len(end)
        blocks = Blocks(root, wrong, leaf, tail, end)
        with pytest.raises(CorruptContent, match="is no part of a file"):
            read_spans(sha(root), [(0, 1)], LIMIT, blocks.fetch)
        right = read_spans(sha(root), [(size, size + 3)], LIMIT, blocks.fetch)
        assert right.parts == (end[:3],), "a part beside it can be had"
    assert children_of(full, size, 2) is None and children_of(full, size, 1) is not None


def test_nothing_below_the_root_is_fetched_of_a_file_that_is_too_large() -> None:
    leaf, end = content(CHUNK), b"the end"
    root = block([(sha(leaf), CHUNK), (sha(end), len(end))])
    blocks = Blocks(root)
    with pytest.raises(TooLarge):
        read_spans(sha(root), [(0, 1)], CHUNK, blocks.fetch)
    assert blocks.asked == [sha(root)]


def test_a_leaf_that_is_withheld_is_missed_by_those_alone_who_need_it() -> None:
    leaf, end = content(CHUNK), b"the end"
    root = block([(sha(leaf), CHUNK), (sha(end), len(end))])
    blocks = Blocks(root, leaf)
    assert read_spans(sha(root), [(5, 9)], LIMIT, blocks.fetch).parts == (leaf[5:9],)
    with pytest.raises(NotFound):
        read_spans(sha(root), [(5, 9), (CHUNK, CHUNK + 1)], LIMIT, blocks.fetch)


# -- what it gives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_parts_are_those_of_the_whole(store: ContentStore, size: int) -> None:
    data = content(size)
    digest = digest_of(store.put_bytes(data))
    found = store.get_spans(digest, SPANS, size)
    assert found.size == size and found.parts == tuple(data[a:b] for a, b in SPANS)
    assert store.get_spans(digest, [], size).parts == ()
    if size:
        with pytest.raises(TooLarge):
            store.get_spans(digest, SPANS, size - 1)


@pytest.mark.parametrize("size", [1, 3, 7, 27, 28, 100])
def test_files_of_any_depth_are_walked(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With leaves of one byte and three children a node: all spans of all files."""
    profile = Profile(chunk_size=1, max_links=3)
    for name in ("root_file_size", "depth_of", "children_of"):
        monkeypatch.setattr(f"agents.storage.spans.{name}", _with(name, profile))
    monkeypatch.setattr("agents.storage.spans.cid_of_bytes", lambda b: _raw(b))
    data = bytes(range(size))
    builder = _Blocks(profile)
    builder.update(data)
    root = builder.root()
    blocks = Blocks(*builder.blocks.values())
    for first in range(size):
        for last in (first, first + 1, size):
            found = read_spans(root.cid[-32:], [(first, last)], LIMIT, blocks.fetch)
            assert found.parts == (data[first:last],)


def _with(name: str, profile: Profile) -> Callable[..., object]:
    function = getattr(cid, name)
    return lambda *arguments: function(*arguments, profile)


def _raw(data: bytes) -> str:
    return cid_from_digest(sha(data), RAW)


def test_a_daemon_sends_only_the_blocks_that_are_needed(kubo: KuboServer, ipfs: IpfsStore) -> None:
    data = content(40 * CHUNK + 5)
    digest = digest_of(ipfs.put_bytes(data))
    kubo.calls.clear()
    found = ipfs.get_spans(digest, [(3 * CHUNK, 5 * CHUNK), (5 * CHUNK, 5 * CHUNK + 9)], LIMIT)
    assert [call for call, _ in kubo.calls] == ["block/get"] * 4
    assert 3 * CHUNK < found.fetched < 3 * CHUNK + 4096
    assert b"".join(found.parts) == data[3 * CHUNK : 5 * CHUNK + 9]


def test_a_daemon_that_gives_other_bytes_is_found_out(kubo: KuboServer, ipfs: IpfsStore) -> None:
    data = content(3 * CHUNK)
    digest = digest_of(ipfs.put_bytes(data))
    leaf = sha(data[CHUNK : 2 * CHUNK]).hex()
    kubo.blocks[leaf] = kubo.blocks[leaf][:-1] + b"\xff"
    with pytest.raises(CorruptContent):
        ipfs.get_spans(digest, [(CHUNK, CHUNK + 1)], LIMIT)
    assert ipfs.get_spans(digest, [(0, 3)], LIMIT).parts == (data[:3],)
    del kubo.blocks[leaf]
    with pytest.raises(NotFound):
        ipfs.get_spans(digest, [(CHUNK, CHUNK + 1)], LIMIT)


def test_several_stores_give_what_one_of_them_has(ipfs: IpfsStore, tmp_path: Path) -> None:
    data = content(3 * CHUNK)
    digest = digest_of(ipfs.put_bytes(data))
    several = SeveralStores([EmbeddedStore(tmp_path / "one"), ipfs])
    assert several.get_spans(digest, [(CHUNK, CHUNK + 4)], LIMIT).fetched < 2 * CHUNK
    keeping = KeepingStore(EmbeddedStore(tmp_path / "two"), ipfs)
    assert keeping.get_spans(digest, [(7, 9)], LIMIT).parts == (data[7:9],)
