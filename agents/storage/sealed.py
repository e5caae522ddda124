# SPDX-License-Identifier: Apache-2.0
"""Shards that only holders of a key can read: streamed, authenticated encryption.

The key is the job's, or the shard's own (`shard_key`); this format is the same for both, and its
header names the key that opens the shard.

Rule: no plain byte is given out before its segment has been authenticated, and a shard that is cut
off, reordered, altered, in another's place or under another key is refused with a sentence.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizar, "Online Authenticated-Encryption
and its Nonce-Reuse Misuse-Resistance", CRYPTO 2015, section 7) over AES-256-GCM, with a key for
each shard as in Tink's AES-GCM-HKDF streaming AEAD:

    header   magic 8 | version 1 | key id 32 | shard index 4 | salt 32 | prefix 7      (84 bytes)
    key      HKDF-SHA256(job key, salt, label)
    segment  64 KiB of plain bytes, the last 0 to 64 KiB, each followed by its 16-byte tag
    nonce    prefix 7 | segment number 4 | 1 for the last segment, else 0
    AD       the header, for every segment

Numbers are big-endian. A pair of key and nonce repeats only if two shards of a job draw the same
32-byte salt and 7-byte prefix: after n shards with probability below n^2 / 2^313. Within a shard
the counter cannot repeat; it ends after 2^32 segments (256 TiB), and GCM's own limits (2^36 bytes
for a nonce, 2^32 nonces for a key) are not reached.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from agents.storage.errors import StoreError

KEY_BYTES: Final = 32
SEGMENT_BYTES: Final = 64 * 1024
_MAGIC: Final = b"MENAGSHD"
_VERSION: Final = b"\x01"
_SALT, _PREFIX, _TAG = 32, 7, 16
_FIXED: Final = len(_MAGIC) + len(_VERSION)
HEADER_BYTES: Final = _FIXED + 32 + 4 + _SALT + _PREFIX
_MAX_SEGMENTS: Final = 2**32
_ID_LABEL: Final = b"menagerie data key id v1"
_SHARD_LABEL: Final = b"menagerie sealed shard v1"
_OWN_KEY_LABEL: Final = b"menagerie key of one shard v1"


class SealError(StoreError):
    """A sealed shard cannot be read: wrong key, wrong place, cut off or altered."""


class Reader(Protocol):
    """The part of a content store that sealed data needs."""

    def get(self, cid: str, max_bytes: int) -> bytes: ...


def new_key() -> bytes:
    """A job key: 32 bytes from the system's generator."""
    return secrets.token_bytes(KEY_BYTES)


def key_id_of(key: bytes) -> bytes:
    """The 32-byte name of a job key: a binding commitment that reveals nothing about the key.

    HKDF-SHA256 with its own label, so that it is independent of every key that is derived.
    Raises ValueError unless the key has 32 bytes.
    """
    return _derive(key, None, _ID_LABEL)


def shard_key(master: bytes, salt: bytes, index: int) -> bytes:
    """The key of shard `index` (0 to 2^32 - 1) of one dataset, from the sponsor's one secret.

    HKDF-SHA256 with the dataset's public random salt: whoever holds some shards' keys learns
    nothing about another's, and a secret that serves two datasets gives other keys in each. Raises
    ValueError unless master and salt have 32 bytes.
    """
    if len(salt) != KEY_BYTES:
        raise ValueError(f"a dataset's salt has {KEY_BYTES} bytes, got {len(salt)}")
    return _derive(master, salt, _OWN_KEY_LABEL + index.to_bytes(4, "big"))


def key_id_in(sealed: bytes) -> bytes:
    """The id of the key that opens a sealed shard, as its first bytes name it.

    Whether a leaked key is genuine anybody can tell by that, without the shard's text. Raises
    SealError if these bytes are no sealed shard.
    """
    if not sealed.startswith(_MAGIC + _VERSION) or len(sealed) < HEADER_BYTES:
        raise SealError("These bytes are no sealed shard: the header is another.")
    return sealed[_FIXED : _FIXED + 32]


def sealed_size(plain_bytes: int) -> int:
    """Bytes that a shard of `plain_bytes` (>= 0) has once it is sealed."""
    segments = max(1, -(-plain_bytes // SEGMENT_BYTES))
    return HEADER_BYTES + plain_bytes + segments * _TAG


def seal(source: BinaryIO, target: BinaryIO, key: bytes, index: int) -> int:
    """Encrypt `source` to its end into `target` as shard `index` (0 to 2^32 - 1) of a job.

    Two segments are in memory at a time. Returns the bytes written. Raises ValueError for a key
    that is not 32 bytes, an index out of range or more than 2^32 segments.
    """
    if not 0 <= index < 2**32:
        raise ValueError(f"the shard's index must be from 0 to 2^32 - 1, got {index}")
    salt, prefix = secrets.token_bytes(_SALT), secrets.token_bytes(_PREFIX)
    header = _MAGIC + _VERSION + key_id_of(key) + index.to_bytes(4, "big") + salt + prefix
    aead = AESGCM(_derive(key, salt, _SHARD_LABEL))
    written = target.write(header)
    for number, plain, last in _segments(source, SEGMENT_BYTES):
        written += target.write(aead.encrypt(_nonce(prefix, number, last), plain, header))
    return written


def unseal(source: BinaryIO, target: BinaryIO, key: bytes, index: int) -> int:
    """Decrypt the sealed shard `index` of the job with `key` from `source` into `target`.

    Two segments are in memory at a time. Returns the plain bytes written; when SealError is
    raised, what was written is authentic but incomplete and must be thrown away. Raises SealError,
    and ValueError for a key that is not 32 bytes.
    """
    header = _read(source, HEADER_BYTES)
    _check_header(header, key, index)
    salt, prefix = header[-_SALT - _PREFIX : -_PREFIX], header[-_PREFIX:]
    aead = AESGCM(_derive(key, salt, _SHARD_LABEL))
    written = 0
    for number, box, last in _segments(source, SEGMENT_BYTES + _TAG):
        try:
            plain = aead.decrypt(_nonce(prefix, number, last), box, header)
        except InvalidTag:
            why = _explain(aead, header, prefix, number, box, last)
            raise SealError(f"Sealed shard {index} {why}.") from None
        written += target.write(plain)
    return written


class SealedStore:
    """Reads the shards of one sealed dataset as if they were plain; everything else untouched.

    The store below verifies the CID of the sealed bytes; this one opens them in memory. Plain
    bytes and the key are never written anywhere.
    """

    def __init__(
        self, store: Reader, key: bytes | Callable[[int], bytes], shards: Sequence[str]
    ) -> None:
        """`key`: the key of all shards, or what gives that of the shard in a place; it is asked
        each time, and what it raises is passed on. `shards`: the CIDs of the sealed shards, in the
        manifest's order.

        Raises ValueError for a key that is not 32 bytes, SealError for a shard listed twice.
        """
        if isinstance(key, bytes):
            key_id_of(key)  # refuses another length here, and not at the first shard
        self._store = store
        self._key = key
        self._places = {cid: index for index, cid in enumerate(shards)}
        if len(self._places) != len(shards):
            raise SealError("The sealed dataset lists a shard twice; each has one place only.")

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The plain bytes of a shard (at most `max_bytes`), or any other content as it is.

        Raises SealError, and StoreError as the store below does.
        """
        place = self._places.get(cid)
        if place is None:
            return self._store.get(cid, max_bytes)
        key = self._key if isinstance(self._key, bytes) else self._key(place)
        plain = io.BytesIO()
        unseal(io.BytesIO(self._store.get(cid, sealed_size(max_bytes))), plain, key, place)
        return plain.getvalue()


# -- inside ------------------------------------------------------------------------------------


def _derive(key: bytes, salt: bytes | None, label: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a job key has {KEY_BYTES} bytes, got {len(key)}")
    return HKDF(SHA256(), KEY_BYTES, salt, label).derive(key)


def _nonce(prefix: bytes, number: int, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


def _read(source: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes, fewer only at the end: pipes and sockets may answer in parts."""
    parts = bytearray()
    while len(parts) < size:
        part = source.read(size - len(parts))
        if not part:
            break
        parts += part
    return bytes(parts)


def _segments(source: BinaryIO, size: int) -> Iterator[tuple[int, bytes, bool]]:
    """(number, bytes, whether it is the last); an empty source has one empty segment."""
    number, current = 0, _read(source, size)
    while True:
        following = _read(source, size) if len(current) == size else b""
        yield number, current, not following
        if not following:
            return
        number, current = number + 1, following
        if number >= _MAX_SEGMENTS:
            raise ValueError(f"a shard has at most {_MAX_SEGMENTS} segments; split it")


def _check_header(header: bytes, key: bytes, index: int) -> None:
    mine = key_id_of(key)
    if header[: len(_MAGIC)] != _MAGIC[: len(header)]:
        raise SealError(f"Shard {index} is not a sealed shard: its first bytes are others.")
    if len(header) < HEADER_BYTES:
        raise SealError(f"Sealed shard {index} is cut off after {len(header)} bytes.")
    version = header[len(_MAGIC)]
    if version != _VERSION[0]:
        raise SealError(f"Sealed shard {index} has format {version}; this program knows 1 only.")
    theirs, place = header[_FIXED : _FIXED + 32], header[_FIXED + 32 : _FIXED + 36]
    if theirs != mine:
        raise SealError(
            f"Sealed shard {index} names key {theirs.hex()}, but the key given is {mine.hex()}."
        )
    if int.from_bytes(place, "big") != index:
        raise SealError(
            f"Sealed shard {int.from_bytes(place, 'big')} stands in the place of shard {index}."
        )


def _explain(
    aead: AESGCM, header: bytes, prefix: bytes, number: int, box: bytes, last: bool
) -> str:
    """Why a segment does not open: tried once more with the other end mark, for the message."""
    try:
        aead.decrypt(_nonce(prefix, number, not last), box, header)
    except InvalidTag:
        cut = " or the shard is cut off in it" if last else ""
        return f"does not authenticate at segment {number}: it is altered or out of place{cut}"
    if last:
        return f"is cut off after segment {number}"
    return f"has bytes behind its last segment, {number}"
