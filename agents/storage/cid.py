# SPDX-License-Identifier: Apache-2.0
"""CIDs: the same bytes always get the same CID, on every machine and from every store.

The CID of a file is that of its UnixFS DAG: the bytes are cut into chunks, the chunks are the
leaves of a balanced tree of at most `max_links` children per node, and the root's sha2-256 digest
is the identity. Sources: the CID, dag-pb and UnixFS specifications (specs.ipfs.tech); the default
profile is what `ipfs add --cid-version=1 --raw-leaves --chunker=size-262144` gives.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import BinaryIO, Final

from agents.storage.errors import InvalidCid

Buffer = bytes | bytearray | memoryview

RAW: Final = 0x55
"""Multicodec of a block that is plain bytes."""
DAG_PB: Final = 0x70
"""Multicodec of a block that is a dag-pb node."""
_SHA256: Final = b"\x12\x20"  # multihash header: sha2-256, 32 bytes
_READ_SIZE: Final = 1 << 20  # a multiple of the chunk, small enough to stay in the cache
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True)
class Profile:
    """How a file becomes a DAG. Changing any field changes the CIDs.

    chunk_size: bytes per leaf. max_links: children per inner node. raw_leaves: leaves are plain
    blocks, not dag-pb nodes. cid_version: 1, or 0 (dag-pb only, base58).
    """

    chunk_size: int = 262_144
    max_links: int = 174
    raw_leaves: bool = True
    cid_version: int = 1

    def __post_init__(self) -> None:
        if self.chunk_size < 1 or self.max_links < 2:
            raise ValueError("a profile needs chunk_size >= 1 and max_links >= 2")
        if self.cid_version not in (0, 1) or (self.cid_version == 0 and self.raw_leaves):
            raise ValueError("cid_version is 0 (without raw leaves) or 1")


PROFILE: Final = Profile()
"""The profile of every artefact in Menagerie."""


@dataclass(frozen=True)
class Node:
    """One DAG node. cid: binary CID; file_size: content bytes below; dag_size: block bytes below
    including its own; block: the encoded dag-pb node, None for a raw leaf."""

    cid: bytes
    file_size: int
    dag_size: int
    block: bytes | None = None


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, next offset). Raises ValueError when cut off or longer than 64 bits."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("truncated or oversized varint")


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _binary_cid(digest: bytes, codec: int, version: int) -> bytes:
    if version == 0:
        return _SHA256 + digest
    return bytes((1, codec)) + _SHA256 + digest


def _inner_block(children: list[tuple[bytes, int, int]]) -> bytes:
    """Encode a dag-pb UnixFS file node from (binary CID, file size, dag size) of its children."""
    links = b"".join(
        _field(2, _field(1, cid) + b"\x12\x00\x18" + _varint(dag_size))
        for cid, _, dag_size in children
    )
    sizes = [size for _, size, _ in children]
    unixfs = b"\x08\x02\x18" + _varint(sum(sizes)) + b"".join(b"\x20" + _varint(s) for s in sizes)
    return links + _field(1, unixfs)


class CidBuilder:
    """Computes a CID from content that arrives in pieces of any size.

    Memory: one chunk plus at most `max_links` nodes per tree level, whatever the file size.
    """

    def __init__(self, profile: Profile = PROFILE) -> None:
        self.profile = profile
        self.size = 0
        """Content bytes seen so far."""
        self._pending = bytearray()
        self._levels: list[list[Node]] = []

    def update(self, data: Buffer) -> None:
        """Append bytes. Whole chunks are hashed in place, without a copy."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        chunk = self.profile.chunk_size
        if self._pending:
            taken = min(chunk - len(self._pending), len(view))
            self._pending += view[:taken]
            view = view[taken:]
            if len(self._pending) < chunk:
                return
            self._push(self._levels, 0, self._leaf(self._pending))
            self._pending = bytearray()
        whole = len(view) - len(view) % chunk
        for start in range(0, whole, chunk):
            self._push(self._levels, 0, self._leaf(view[start : start + chunk]))
        self._pending += view[whole:]

    def root(self) -> Node:
        """The root of everything seen so far. More bytes may follow."""
        levels = [list(nodes) for nodes in self._levels]
        if self._pending or not levels:
            self._push(levels, 0, self._leaf(self._pending))
        at = 0
        while at < len(levels) - 1 or len(levels[at]) > 1:
            self._push(levels, at + 1, self._parent(levels[at]))
            at += 1
        return levels[at][0]

    def cid(self) -> str:
        """The CID of everything seen so far, as text."""
        return format_cid(self.root().cid)

    def _leaf(self, data: Buffer) -> Node:
        size = len(data)
        if self.profile.raw_leaves:
            digest = hashlib.sha256(data).digest()
            return Node(_binary_cid(digest, RAW, self.profile.cid_version), size, size)
        body = _field(2, bytes(data)) if size else b""
        return self._node(_field(1, b"\x08\x02" + body + b"\x18" + _varint(size)), size, 0)

    def _parent(self, nodes: list[Node]) -> Node:
        block = _inner_block([(n.cid, n.file_size, n.dag_size) for n in nodes])
        return self._node(block, sum(n.file_size for n in nodes), sum(n.dag_size for n in nodes))

    def _node(self, block: bytes, file_size: int, below: int) -> Node:
        digest = hashlib.sha256(block).digest()
        cid = _binary_cid(digest, DAG_PB, self.profile.cid_version)
        return Node(cid, file_size, below + len(block), block)

    def _push(self, levels: list[list[Node]], at: int, node: Node) -> None:
        # A full level is folded only when one more node arrives: a level that is exactly full at
        # the end may be the root's own children.
        if at == len(levels):
            levels.append([])
        elif len(levels[at]) == self.profile.max_links:
            full, levels[at] = levels[at], []
            self._push(levels, at + 1, self._parent(full))
        levels[at].append(node)


def read_pieces(file: BinaryIO, size: int = _READ_SIZE) -> Iterator[memoryview]:
    """Yield a file's content through one reused buffer; each piece is valid until the next."""
    buffer = memoryview(bytearray(size))
    fill = getattr(file, "readinto", None)
    while True:
        if fill is not None:
            count = fill(buffer)
        else:
            piece = file.read(size)
            count = len(piece)
            buffer[:count] = piece
        if not count:
            return
        yield buffer[:count]


def cid_of_bytes(data: Buffer, profile: Profile = PROFILE) -> str:
    """The CID of bytes held in memory."""
    builder = CidBuilder(profile)
    builder.update(data)
    return builder.cid()


def cid_of_file(file: BinaryIO, profile: Profile = PROFILE) -> str:
    """The CID of what is left to read in a binary file object, in bounded memory."""
    builder = CidBuilder(profile)
    if isinstance(file, BytesIO):
        builder.update(file.getbuffer()[file.tell() :])
        file.seek(0, 2)
    else:
        for piece in read_pieces(file):
            builder.update(piece)
    return builder.cid()


def format_cid(binary: bytes) -> str:
    """Text of a binary CID: base32 lower case for version 1, base58btc for version 0."""
    if binary[:2] == _SHA256 and len(binary) == 34:
        value, text = int.from_bytes(binary, "big"), ""
        while value:
            value, digit = divmod(value, 58)
            text = _BASE58[digit] + text
        return text
    return _base32(bytes(binary))


@lru_cache(maxsize=4_096)
def _base32(binary: bytes) -> str:
    return "b" + base64.b32encode(binary).decode("ascii").lower().rstrip("=")


@dataclass(frozen=True)
class Cid:
    """A parsed CIDv1. codec: RAW or DAG_PB; digest: the 32 sha2-256 bytes."""

    codec: int
    digest: bytes

    def __str__(self) -> str:
        return format_cid(_binary_cid(self.digest, self.codec, 1))


def parse_cid(text: str) -> Cid:
    """Parse a base32 CIDv1 with sha2-256 and codec raw or dag-pb.

    Raises InvalidCid for anything else, including other spellings of the same CID.
    """
    cid = _parsed(text) if isinstance(text, str) and len(text) == 59 else None
    if cid is None:
        shown = repr(text[:80]) if isinstance(text, str) else type(text).__name__
        raise InvalidCid(
            f"{shown} is not a CID of this network; expected CIDv1 in base32 (it starts with "
            "'bafk' or 'bafy') with sha2-256; add the file again with cid-version=1 and "
            "raw-leaves=true"
        )
    return cid


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Cid | None:
    # Whoever reads a store parses the same few CIDs over and over.
    if text[0] != "b" or not text.isascii():
        return None
    try:
        binary = base64.b32decode(text[1:].upper() + "======")
    except ValueError:
        return None
    if binary[0] != 1 or binary[1] not in (RAW, DAG_PB) or binary[2:4] != _SHA256:
        return None
    if format_cid(binary) != text:  # upper case or stray low bits
        return None
    return Cid(binary[1], binary[4:])


def digest_of(cid: str) -> bytes:
    """The 32-byte sha2-256 digest inside a CID: its form on chain. Raises InvalidCid."""
    return parse_cid(cid).digest


def codec_of(cid: str) -> int:
    """RAW or DAG_PB. Raises InvalidCid."""
    return parse_cid(cid).codec


def cid_from_digest(digest: bytes, codec: int = RAW) -> str:
    """The CIDv1 text of a 32-byte digest. Raises InvalidCid on a wrong length or codec."""
    if len(digest) != 32 or codec not in (RAW, DAG_PB):
        raise InvalidCid(
            f"a digest of {len(digest)} bytes with codec {codec:#x} is not a CID of this network; "
            "expected 32 bytes and codec raw (0x55) or dag-pb (0x70)"
        )
    return str(Cid(codec, bytes(digest)))


def root_file_size(block: bytes, profile: Profile = PROFILE) -> int | None:
    """Content size in bytes when `block` is a canonical file root, else None.

    Canonical: byte for byte what the importer makes for a file of that size from those child
    hashes. A digest whose block passes names the file below it; any other block names itself.
    Both stores use this one rule, so a digest on chain means the same content everywhere.
    """
    try:
        size = _parse_root(block)[1]
    except ValueError:
        return None
    return None if children_of(block, size, depth_of(size, profile), profile) is None else size


def depth_of(size: int, profile: Profile = PROFILE) -> int:
    """Levels of inner nodes above the leaves of a file of `size` bytes; 0 where it is one leaf."""
    depth = 0
    while profile.chunk_size * profile.max_links**depth < size:
        depth += 1
    return depth


def children_of(
    block: bytes, size: int, depth: int, profile: Profile = PROFILE
) -> list[tuple[Cid, int]] | None:
    """CID and content bytes of each child of an inner node, None unless its block is canonical.

    Canonical: byte for byte what the importer makes of these children for `size` content bytes at
    `depth` levels above the leaves. So no block can lie about sizes, or have more levels than its
    size needs.
    """
    try:
        children, said = _parse_root(block)
    except ValueError:
        return None
    if said != size or depth == 0 or size >= 1 << 63:
        return None
    shapes = _child_shapes(size, depth, profile)
    codec = RAW if depth == 1 else DAG_PB
    if len(shapes) != len(children) or any(cid[1] != codec for cid in children):
        return None
    expected = _inner_block([(cid, *shape) for cid, shape in zip(children, shapes, strict=True)])
    if expected != block:
        return None
    return [(Cid(codec, cid[4:]), below) for cid, (below, _) in zip(children, shapes, strict=True)]


def _parse_root(block: bytes) -> tuple[list[bytes], int]:
    """Pull the child CIDs and the file size out of a block; the caller compares the rest."""
    at, children = 0, []
    while block[at : at + 1] == b"\x12":
        length, start = _read_varint(block, at + 1)
        cid = block[start + 2 : start + 38]
        if block[start : start + 2] != b"\x0a\x24" or cid[:1] != b"\x01" or cid[2:4] != _SHA256:
            raise ValueError("not a link to a CIDv1 with sha2-256")
        children.append(cid)
        at = start + length
    if block[at : at + 1] != b"\x0a":
        raise ValueError("not a dag-pb node")
    _, at = _read_varint(block, at + 1)
    if block[at : at + 3] != b"\x08\x02\x18":
        raise ValueError("not a UnixFS file without inline data")
    return children, _read_varint(block, at + 3)[0]


def _child_shapes(size: int, depth: int, profile: Profile) -> list[tuple[int, int]]:
    """(file size, dag size) of each child of a balanced node with raw leaves."""
    capacity = profile.chunk_size * profile.max_links ** (depth - 1)
    full, rest = divmod(size, capacity)
    shapes = [(capacity, _dag_size(capacity, depth - 1, profile))] * full
    return shapes + ([(rest, _dag_size(rest, depth - 1, profile))] if rest else [])


def _dag_size(size: int, depth: int, profile: Profile) -> int:
    if depth == 0:
        return size
    shapes = _child_shapes(size, depth, profile)
    block = _inner_block([(bytes(36), *shape) for shape in shapes])
    return len(block) + sum(dag_size for _, dag_size in shapes)
