# SPDX-License-Identifier: Apache-2.0
"""Sealed shards and envelopes: what is not exactly right is refused, and says what is wrong."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.storage.embedded import EmbeddedStore
from agents.storage.envelope import ENVELOPE_BYTES, EnvelopeError, Purpose, open_key, seal_key
from agents.storage.errors import CorruptContent, NotFound, TooLarge
from agents.storage.sealed import (
    HEADER_BYTES,
    SEGMENT_BYTES,
    SealedStore,
    SealError,
    key_id_of,
    new_key,
    seal,
    sealed_size,
    unseal,
)

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
TAG = 16
BOX = SEGMENT_BYTES + TAG
SIZES = (0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES)


def sealed(plain: bytes, index: int = 0, key: bytes = KEY) -> bytes:
    out = io.BytesIO()
    assert seal(io.BytesIO(plain), out, key, index) == len(out.getvalue())
    return out.getvalue()


def opened(box: bytes, index: int = 0, key: bytes = KEY) -> bytes:
    out = io.BytesIO()
    assert unseal(io.BytesIO(box), out, key, index) == len(out.getvalue())
    return out.getvalue()


@cache
def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@cache
def long_shard() -> bytes:
    """Shard 7: three and a half segments."""
    return sealed(content(7 * SEGMENT_BYTES // 2), 7)


def segments(box: bytes) -> list[bytes]:
    body = box[HEADER_BYTES:]
    return [body[at : at + BOX] for at in range(0, len(body), BOX)]


# -- sealing and opening -----------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_what_is_sealed_opens(size: int) -> None:
    plain = content(size)
    box = sealed(plain, 5)
    assert len(box) == sealed_size(size)
    assert opened(box, 5) == plain
    assert size < 16 or plain[:16] not in box


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_any_bytes_sealed_at_any_place_open_again(plain: bytes, index: int) -> None:
    assert opened(sealed(plain, index), index) == plain


def test_the_format_is_the_documented_one() -> None:
    """Opened by hand, from the module's description alone."""
    plain = content(SEGMENT_BYTES + 10)
    box = sealed(plain, 258)
    header, first, second = box[:84], box[84 : 84 + BOX], box[84 + BOX :]
    assert header[:9] == b"MENAGSHD\x01"
    assert header[9:41] == HKDF(SHA256(), 32, None, b"menagerie data key id v1").derive(KEY)
    assert header[41:45] == b"\0\0\1\2"
    salt, prefix = header[45:77], header[77:84]
    aead = AESGCM(HKDF(SHA256(), 32, salt, b"menagerie sealed shard v1").derive(KEY))
    assert aead.decrypt(prefix + b"\0\0\0\0\0", first, header) == plain[:SEGMENT_BYTES]
    assert aead.decrypt(prefix + b"\0\0\0\1\1", second, header) == plain[SEGMENT_BYTES:]


def test_the_same_bytes_are_sealed_differently_each_time() -> None:
    boxes = [sealed(b"the same") for _ in range(50)]
    assert len({box[45:84] for box in boxes}) == len({box[84:] for box in boxes}) == 50


@contextmanager
def little_memory() -> Iterator[None]:
    """What is done in it needs less memory than eight segments."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 8 * SEGMENT_BYTES
    finally:
        tracemalloc.stop()


def test_sealing_and_opening_need_little_memory_however_large_the_shard(tmp_path: Path) -> None:
    plain, box = tmp_path / "plain", tmp_path / "box"
    plain.write_bytes(bytes(32 * 2**20))
    with plain.open("rb") as source, box.open("wb") as target, little_memory():
        assert seal(source, target, KEY, 1) == sealed_size(32 * 2**20)
    with box.open("rb") as source, plain.open("wb") as target, little_memory():
        assert unseal(source, target, KEY, 1) == 32 * 2**20


def test_a_source_that_answers_in_odd_parts_is_sealed_whole() -> None:
    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size, 50_000) if size and size > 0 else 50_000)

    plain, target = content(7 * SEGMENT_BYTES // 2), io.BytesIO()
    seal(Pipe(plain), target, KEY, 0)
    assert opened(target.getvalue()) == plain


# -- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(HEADER_BYTES + 9 + TAG))
def test_every_flipped_byte_of_a_short_shard_is_found(at: int) -> None:
    box = bytearray(sealed(b"nine byte", 3))
    box[at] ^= 1 << at % 8
    where = [
        (8, "is not a sealed shard"),
        (9, "format"),
        (41, "names key"),
        (45, "stands in the place of shard 3"),
        (len(box), "does not authenticate at segment 0"),
    ]
    message = next(text for end, text in where if at < end)
    with pytest.raises(SealError, match=message):
        opened(bytes(box), 3)


@settings(max_examples=60)
@given(st.integers(HEADER_BYTES, sealed_size(7 * SEGMENT_BYTES // 2) - 1), st.integers(0, 7))
def test_any_flipped_bit_of_a_long_shard_is_found_in_its_segment(at: int, bit: int) -> None:
    box = bytearray(long_shard())
    box[at] ^= 1 << bit
    with pytest.raises(SealError, match=f"segment {(at - HEADER_BYTES) // BOX}:"):
        opened(bytes(box), 7)


@settings(max_examples=60)
@given(st.integers(0, sealed_size(7 * SEGMENT_BYTES // 2) - 1))
def test_any_truncation_is_found(size: int) -> None:
    with pytest.raises(SealError, match="cut off"):
        opened(long_shard()[:size], 7)


def reordered(*order: int) -> bytes:
    """Shard 7 with these of its segments."""
    parts = segments(long_shard())
    return long_shard()[:HEADER_BYTES] + b"".join(parts[i] for i in order)


TWO, FOUR, SECRET = sealed(content(2 * SEGMENT_BYTES)), sealed(b"four", 4), sealed(b"secret")
MINE, FOREIGN = sealed(content(BOX), 7), sealed(content(BOX), 7)
ORDERS = {(1, 0, 2, 3): 0, (0, 2, 1, 3): 1, (0, 0, 2, 3): 1, (1, 2, 3): 0, (0, 1, 3): 2}

# What is opened, in which place, with which key, and what is said of it.
DAMAGED: dict[str, tuple[bytes, int, bytes, str]] = {
    **{f"cut to {n} segments": (reordered(*range(n)), 7, KEY, "cut off") for n in range(4)},
    **{
        f"{size} bytes and one": (sealed(content(size)) + b"x", 0, KEY, "authenticate|its last seg")
        for size in SIZES
    },
    "a segment behind the end": (
        TWO + segments(TWO)[0],
        0,
        KEY,
        "bytes behind its last segment, 1",
    ),
    **{f"{o}": (reordered(*o), 7, KEY, f"segment {wrong}") for o, wrong in ORDERS.items()},
    "a segment of another shard": (
        MINE[:HEADER_BYTES] + segments(FOREIGN)[0] + segments(MINE)[1],
        *(7, KEY, "segment 0"),
    ),
    "another place": (FOUR, 5, KEY, "Sealed shard 4 stands in the place of shard 5"),
    "a rewritten place": (FOUR[:41] + (5).to_bytes(4, "big") + FOUR[45:], 5, KEY, "segment 0"),
    "another key": (
        *(SECRET, 0, OTHER),
        f"names key {key_id_of(KEY).hex()}.*{key_id_of(OTHER)[:4].hex()}",
    ),
    "a rewritten key id": (SECRET[:9] + key_id_of(OTHER) + SECRET[41:], 0, OTHER, "segment 0"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_or_moved_shard_is_refused(what: str) -> None:
    box, place, key, words = DAMAGED[what]
    with pytest.raises(SealError, match=words):
        opened(box, place, key)


def test_nothing_of_a_damaged_segment_is_written() -> None:
    box = bytearray(long_shard())
    box[HEADER_BYTES + BOX + 5] ^= 1
    out = io.BytesIO()
    with pytest.raises(SealError):
        unseal(io.BytesIO(bytes(box)), out, KEY, 7)
    assert out.getvalue() == content(7 * SEGMENT_BYTES // 2)[:SEGMENT_BYTES]


def test_bad_keys_and_places_are_refused() -> None:
    with pytest.raises(ValueError, match="has 32 bytes, got 31"):
        sealed(b"", key=bytes(31))
    for index in (-1, 2**32):
        with pytest.raises(ValueError, match="index"):
            sealed(b"", index)


# -- the store ---------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


def test_the_store_opens_shards_and_leaves_the_rest(store: EmbeddedStore) -> None:
    shards = [content(100 + i) for i in range(3)]
    cids = [store.put_bytes(sealed(shard, i)) for i, shard in enumerate(shards)]
    manifest = store.put_bytes(b"public")
    reader = SealedStore(store, KEY, cids)
    assert [reader.get(cid, 200) for cid in cids] == shards
    assert reader.get(manifest, 10) == b"public"


def test_the_store_bounds_the_plain_size(store: EmbeddedStore) -> None:
    cid = store.put_bytes(sealed(content(1_000)))
    reader = SealedStore(store, KEY, [cid])
    assert len(reader.get(cid, 1_000)) == 1_000
    with pytest.raises(TooLarge):
        reader.get(cid, 999)


def test_shards_that_a_manifest_swaps_are_found(store: EmbeddedStore) -> None:
    cids = [store.put_bytes(sealed(b"shard %d" % i, i)) for i in range(2)]
    with pytest.raises(SealError, match="Sealed shard 1 stands in the place of shard 0"):
        SealedStore(store, KEY, cids[::-1]).get(cids[1], 100)


def test_a_shard_has_one_place(store: EmbeddedStore) -> None:
    cid = store.put_bytes(sealed(b"shard"))
    with pytest.raises(SealError, match="twice"):
        SealedStore(store, KEY, [cid, cid])


def test_the_sealed_bytes_are_verified_by_their_cid(store: EmbeddedStore) -> None:
    cid = store.put_bytes(sealed(b"shard"))
    (file,) = (path for path in store.root.rglob("*.raw"))
    file.chmod(0o600)
    file.write_bytes(sealed(b"shard"))
    with pytest.raises(CorruptContent):
        SealedStore(store, KEY, [cid]).get(cid, 100)
    file.unlink()
    with pytest.raises(NotFound):
        SealedStore(store, KEY, [cid]).get(cid, 100)


# -- envelopes ---------------------------------------------------------------------------------

NODE = X25519PrivateKey.from_private_bytes(bytes(range(40, 72)))
PUBLIC = NODE.public_key().public_bytes_raw()
PURPOSE = Purpose(31_337, "0x" + "ab" * 20, 3, 9, key_id_of(KEY))
# The points of small order on Curve25519 and its twist (RFC 7748 section 7), little-endian.
LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ec" + "ff" * 30 + "7f"),
    bytes.fromhex("ed" + "ff" * 30 + "7f"),
    bytes.fromhex("ee" + "ff" * 30 + "7f"),
]


def test_an_envelope_opens_for_its_node() -> None:
    envelope = seal_key(KEY, PUBLIC, PURPOSE)
    assert len(envelope) == ENVELOPE_BYTES == 81
    assert open_key(envelope, NODE, PURPOSE) == KEY
    assert seal_key(KEY, PUBLIC, PURPOSE) != envelope


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("chain_id", 1), ("contract", "0x" + "ac" * 20), ("job_id", 4), ("node_id", 8)],
        ("key_id", key_id_of(OTHER)),
    ],
)
def test_an_envelope_opens_for_its_purpose_only(field: str, value: Any) -> None:
    with pytest.raises(EnvelopeError, match="another encryption key, job, node, key or contract"):
        open_key(seal_key(KEY, PUBLIC, PURPOSE), NODE, replace(PURPOSE, **{field: value}))


def test_an_envelope_opens_with_its_nodes_key_only() -> None:
    with pytest.raises(EnvelopeError, match="does not open"):
        open_key(seal_key(KEY, PUBLIC, PURPOSE), X25519PrivateKey.generate(), PURPOSE)


@pytest.mark.parametrize("at", range(ENVELOPE_BYTES))
def test_every_flipped_byte_of_an_envelope_is_found(at: int) -> None:
    envelope = bytearray(seal_key(KEY, PUBLIC, PURPOSE))
    envelope[at] ^= 0x41
    with pytest.raises(EnvelopeError, match="version" if at == 0 else "does not open"):
        open_key(bytes(envelope), NODE, PURPOSE)


@pytest.mark.parametrize("size", [0, 1, 80, 82, 256])
def test_other_lengths_are_refused(size: int) -> None:
    with pytest.raises(EnvelopeError, match=f"has {size} bytes"):
        open_key((seal_key(KEY, PUBLIC, PURPOSE) + bytes(200))[:size], NODE, PURPOSE)


@pytest.mark.parametrize(
    ("key", "public", "words"),
    [(OTHER, PUBLIC, "is not the key"), (KEY, PUBLIC[:31], "no X25519 public key")],
    ids=["key of another name", "short public key"],
)
def test_a_key_is_sent_under_its_own_name_only(key: bytes, public: bytes, words: str) -> None:
    with pytest.raises(EnvelopeError, match=words):
        seal_key(key, public, PURPOSE)


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda point: point.hex()[:8])
def test_points_of_small_order_are_refused_on_both_sides(point: bytes) -> None:
    with pytest.raises(EnvelopeError, match="no X25519 public key"):
        seal_key(KEY, point, PURPOSE)
    envelope = seal_key(KEY, PUBLIC, PURPOSE)
    with pytest.raises(EnvelopeError, match="does not open"):
        open_key(envelope[:1] + point + envelope[33:], NODE, PURPOSE)


def test_a_sponsor_cannot_send_another_key_than_it_announced() -> None:
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    envelope = b"\1" + suite.encrypt(OTHER, NODE.public_key(), info=PURPOSE.to_bytes())
    with pytest.raises(EnvelopeError, match=f"holds key {key_id_of(OTHER).hex()}"):
        open_key(envelope, NODE, PURPOSE)


def test_keys_are_random_and_their_names_say_nothing() -> None:
    keys = [new_key() for _ in range(20)]
    assert len({*keys, *(key_id_of(key) for key in keys)}) == 40
