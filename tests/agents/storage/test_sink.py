# SPDX-License-Identifier: Apache-2.0
"""Content that comes piece by piece is verified at the end, and nobody holds all of it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from agents.audit.sources.artefacts import Artefacts
from agents.storage.cid import PROFILE, Buffer, cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, InvalidCid, NotFound, TooLarge
from agents.storage.keeping import KeepingStore
from agents.storage.several import SeveralStores

CHUNK = PROFILE.chunk_size
LIMIT = 1 << 30
LARGE = 48 << 20


class Kept:
    """A sink that keeps all of it. `begun`: how often it was told to begin."""

    def __init__(self) -> None:
        self.came, self.begun = bytearray(), 0

    def begin(self) -> None:
        self.came.clear()
        self.begun += 1

    def write(self, data: Buffer, /) -> None:
        self.came += data


class Counted:
    """A sink that keeps nothing."""

    size = 0

    def begin(self) -> None:
        self.size = 0

    def write(self, data: Buffer, /) -> None:
        self.size += len(data)


def content(size: int) -> bytes:
    return b"".join(i.to_bytes(4, "little") for i in range(size // 4 + 1))[:size]


def spoil(store: EmbeddedStore, cid: str, size: int) -> None:
    """Change the last byte of a file of a store, or let it end there."""
    (path,) = (store.root / "objects").glob("??/*.dag")
    raw = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes((raw[:-1] + bytes([raw[-1] ^ 1]))[:size])


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17, 9_000_001])
@pytest.mark.parametrize("audited", [False, True])
def test_it_comes_in_order_and_whole(store: ContentStore, size: int, audited: bool) -> None:
    cid, sink = store.put_bytes(content(size)), Kept()
    source = Artefacts(store) if audited else store
    assert source.stream(cid, sink, size) == size
    assert sink.came == content(size) and sink.begun == 1


@pytest.mark.parametrize("audited", [False, True])
def test_what_can_not_be_had_is_said_as_by_get(store: ContentStore, audited: bool) -> None:
    source = Artefacts(store) if audited else store
    for size in (3, CHUNK + 3):
        with pytest.raises(NotFound):
            source.stream(cid_of_bytes(content(size)), Counted(), LIMIT)
        cid = store.put_bytes(content(size))
        with pytest.raises(TooLarge, match=str(size - 1)):
            source.stream(cid, Counted(), size - 1)
    with pytest.raises(InvalidCid):
        source.stream("../../etc/passwd", Counted(), LIMIT)


@pytest.mark.parametrize("end", [3 * CHUNK, 3 * CHUNK - 1])
def test_other_bytes_are_refused_after_the_last_one(embedded: EmbeddedStore, end: int) -> None:
    cid = embedded.put_bytes(content(3 * CHUNK))
    spoil(embedded, cid, end)
    for source in (embedded, Artefacts(embedded)):
        with pytest.raises(CorruptContent):
            source.stream(cid, Counted(), LIMIT)


def test_an_audit_believes_no_store(embedded: EmbeddedStore) -> None:
    """One that verifies nothing gives another file, a longer one, or nothing at all."""

    class Lying(EmbeddedStore):
        pieces = 0

        def stream(self, cid: str, sink: Kept, max_bytes: int) -> int:  # type: ignore[override]
            sink.begin()
            for _ in range(self.pieces):
                sink.write(bytes(CHUNK))
            return self.pieces * CHUNK

    cid, lying = embedded.put_bytes(content(3 * CHUNK)), Lying(embedded.root)
    for pieces, error in ((3, CorruptContent), (0, CorruptContent), (9, TooLarge)):
        lying.pieces, audited = pieces, Artefacts(lying)
        with pytest.raises(error):
            audited.stream(cid, Counted(), 4 * CHUNK)
        (failure,) = audited.failures()
        assert failure.altered == (error is CorruptContent)


def test_where_one_store_breaks_off_the_next_one_begins_anew(tmp_path: Path) -> None:
    first, second = EmbeddedStore(tmp_path / "1"), EmbeddedStore(tmp_path / "2")
    data = content(20 * CHUNK)
    cid = first.put_bytes(data)
    second.put_bytes(data)
    spoil(first, cid, len(data))
    sink = Kept()
    assert SeveralStores([first, second]).stream(cid, sink, LIMIT) == len(data)
    assert sink.came == data and sink.begun == 2


def test_a_keeping_store_gives_its_copy(tmp_path: Path) -> None:
    copies, source = EmbeddedStore(tmp_path / "1"), EmbeddedStore(tmp_path / "2")
    cid, sink = source.put_bytes(content(3 * CHUNK)), Kept()
    keeping = KeepingStore(copies, source)
    for _ in range(2):
        assert keeping.stream(cid, sink, LIMIT) == 3 * CHUNK
        assert sink.came == content(3 * CHUNK) and copies.has(cid)


@pytest.mark.parametrize("audited", [False, True])
def test_nobody_holds_all_of_it(embedded: EmbeddedStore, audited: bool) -> None:
    cid = embedded.put_bytes(bytes(LARGE))
    source = Artefacts(embedded) if audited else embedded
    tracemalloc.start()
    try:
        assert source.stream(cid, Counted(), LARGE) == LARGE
        assert tracemalloc.get_traced_memory()[1] < LARGE // 8
    finally:
        tracemalloc.stop()
