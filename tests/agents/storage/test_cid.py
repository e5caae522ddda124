# SPDX-License-Identifier: Apache-2.0
"""CIDs equal those of the reference importer, however the bytes arrive."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    CidBuilder,
    Profile,
    cid_from_digest,
    cid_of_bytes,
    cid_of_file,
    codec_of,
    digest_of,
    format_cid,
    parse_cid,
    root_file_size,
)
from agents.storage.errors import InvalidCid

VECTORS = json.loads((Path(__file__).parent / "cid_vectors.json").read_text())
TINY = Profile(chunk_size=4, max_links=3)
_CYCLE = bytes(range(251)) * 4200


class Pattern(io.RawIOBase):
    """The vectors' content, byte[i] = i % 251, produced as it is read."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = min(len(buffer), self._size - self._at, len(_CYCLE) - 251)
        start = self._at % 251
        buffer[:count] = _CYCLE[start : start + count]
        self._at += count
        return count


def _name(vector: dict) -> str:
    kind = "raw" if vector["raw_leaves"] else f"v{vector['cid_version']}"
    return f"{vector['size']}-{vector['chunker']}-{vector['max_links']}-{kind}"


def _profile(vector: dict) -> Profile:
    return Profile(
        chunk_size=int(vector["chunker"].removeprefix("size-")),
        max_links=vector["max_links"],
        raw_leaves=vector["raw_leaves"],
        cid_version=vector["cid_version"],
    )


def test_there_are_65_vectors() -> None:
    assert len(VECTORS["vectors"]) == 65


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=_name)
def test_each_vector_has_the_cid_that_kubo_gave_it(vector: dict) -> None:
    builder = CidBuilder(_profile(vector))
    source, buffer = Pattern(vector["size"]), memoryview(bytearray(1 << 20))
    while count := source.readinto(buffer):
        builder.update(buffer[:count])
    root = builder.root()
    assert format_cid(root.cid) == vector["cid"]
    assert root.dag_size == vector["dag_size"]
    assert root.file_size == vector["size"]
    if vector["raw_leaves"] and root.block is not None:
        assert root_file_size(root.block, builder.profile) == vector["size"]


def test_cidv1_without_raw_leaves() -> None:
    vector = VECTORS["cidv1_without_raw_leaves"]
    cid = cid_of_file(Pattern(vector["size"]), Profile(raw_leaves=False))
    assert cid == vector["cid"]


def test_a_file_is_hashed_from_where_it_stands(tmp_path: Path) -> None:
    content = _CYCLE[:600_000]
    (tmp_path / "f").write_bytes(content)
    with (tmp_path / "f").open("rb") as file:
        file.seek(1000)
        assert cid_of_file(file) == cid_of_bytes(content[1000:])
    memory = io.BytesIO(content)
    memory.seek(1000)
    assert cid_of_file(memory) == cid_of_bytes(content[1000:])
    assert memory.read() == b""


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    for profile in (TINY, Profile(4, 3, raw_leaves=False), Profile(4, 3, False, 0)):
        builder = CidBuilder(profile)
        for piece in pieces:
            builder.update(piece)
            builder.root()  # looking does not disturb
        assert builder.cid() == cid_of_bytes(b"".join(pieces), profile)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_different_content_has_different_cids(one: bytes, other: bytes) -> None:
    assert (cid_of_bytes(one, TINY) == cid_of_bytes(other, TINY)) == (one == other)


@given(st.binary(min_size=1, max_size=300))
def test_canonical_roots_are_recognised(content: bytes) -> None:
    builder = CidBuilder(TINY)
    builder.update(content)
    block = builder.root().block
    assert (block is None) == (len(content) <= TINY.chunk_size)
    if block is not None:
        assert root_file_size(block, TINY) == len(content)


@settings(max_examples=200)
@given(st.integers(5, 300), st.data())
def test_a_root_with_any_bit_of_its_structure_changed_is_not_canonical(
    size: int, data: st.DataObject
) -> None:
    builder = CidBuilder(TINY)
    builder.update(bytes(size))
    block = builder.root().block
    assert block is not None
    at = data.draw(st.integers(0, len(block) - 1))
    changed = bytearray(block)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    hashes = [i for i in range(len(block)) if block[i : i + 4] == block[4:8]]
    in_a_hash = any(i + 4 <= at < i + 36 for i in hashes)
    assert root_file_size(bytes(changed), TINY) == (size if in_a_hash else None)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x12",
        b"\x12\xff",
        b"\x12" + b"\x80" * 20,
        b"\x0a\x04\x08\x02\x18\x00",
        b"\x0a\x02\x08\x01",
    ],
    ids=["empty", "cut", "cut-length", "long-varint", "empty-file", "directory"],
)
def test_other_blocks_are_not_roots(block: bytes) -> None:
    assert root_file_size(block) is None


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_root_check(block: bytes) -> None:
    assert root_file_size(block) is None


def test_digest_and_codec_round_trip() -> None:
    small, large = cid_of_bytes(b"x"), cid_of_bytes(bytes(PROFILE.chunk_size + 1))
    assert (codec_of(small), codec_of(large)) == (RAW, DAG_PB)
    for cid in (small, large):
        assert len(digest_of(cid)) == 32
        assert cid_from_digest(digest_of(cid), codec_of(cid)) == cid
        assert str(parse_cid(cid)) == cid


GOOD = cid_of_bytes(b"x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "a",
        "z" + GOOD[1:],
        GOOD[:-1] + "7",  # the last character's low bits must be zero
        GOOD[:20] + "1" + GOOD[21:],  # not a base32 digit
        GOOD[:20] + "é" + GOOD[21:],
        "bafyreidykglsfhoixmivffc5uwhcgshx4j465xwqntbmu43nb2dzqwfvae",  # dag-cbor
        "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
        None,
        b"bytes",
    ],
    ids=str,
)
def test_what_is_not_a_cid_is_refused(text: str) -> None:
    with pytest.raises(InvalidCid, match="expected CIDv1 in base32"):
        parse_cid(text)


@given(st.text(max_size=70))
def test_no_text_crashes_the_parser(text: str) -> None:
    with pytest.raises(InvalidCid):
        parse_cid(text)


@pytest.mark.parametrize(("digest", "codec"), [(b"", RAW), (bytes(31), RAW), (bytes(32), 0x71)])
def test_a_digest_is_32_bytes_of_a_known_codec(digest: bytes, codec: int) -> None:
    with pytest.raises(InvalidCid, match="expected 32 bytes"):
        cid_from_digest(digest, codec)


@pytest.mark.parametrize(
    "arguments", [(0, 174, True, 1), (1, 1, True, 1), (4, 3, True, 0), (4, 3, False, 2)], ids=str
)
def test_impossible_profiles_are_refused(arguments: tuple[int, int, bool, int]) -> None:
    with pytest.raises(ValueError, match=r"profile|cid_version"):
        Profile(*arguments)
