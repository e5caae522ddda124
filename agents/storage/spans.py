# SPDX-License-Identifier: Apache-2.0
"""Reads parts of a file by its blocks, each checked against the CID before it is used.

A file of several leaves has a root that lists them, by inner nodes if they are many. A reader
fetches the root and the blocks that its parts need. Each must have the digest that its parent names
and the only form that a block of its size has (`cid.children_of`). So a byte that is given is the
file's, or nobody has such a file: leaves that were not read may not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agents.storage.cid import (
    RAW,
    Cid,
    children_of,
    cid_of_bytes,
    depth_of,
    root_file_size,
)
from agents.storage.errors import CorruptContent, NoSuchFile, TooLarge

Span = tuple[int, int]
"""First byte, and last + 1."""
FetchBlock = Callable[[bytes], bytes]
"""The bytes that a store has for a block of this digest, unchecked."""


@dataclass(frozen=True)
class Spans:
    """Parts of a file. `size`: of the whole file. `parts`: one for each span, cut off where the
    file ends. `fetched`: bytes that came from the store for them. `blocks`: those that they were
    read from, if not from the whole file."""

    size: int
    parts: tuple[bytes, ...]
    fetched: int
    blocks: tuple[bytes, ...] = ()


def cut(content: bytes, spans: Sequence[Span]) -> Spans:
    """The parts of a file that was read, and verified, whole."""
    return Spans(len(content), tuple(content[a:b] for a, b in spans), len(content))


def read_spans(digest: bytes, spans: Sequence[Span], max_bytes: int, fetch: FetchBlock) -> Spans:
    """The parts of the file that a digest from the chain names.

    Args:
        spans: ascending or not; each leaf is fetched once, also if several need it.
        max_bytes: that the whole file may have; more is TooLarge before a leaf is fetched.
        fetch: gives blocks; what it raises goes through.

    Raises:
        TooLarge.
        CorruptContent: a block is not the one that was asked for.
        NoSuchFile: it is, and not of its only form.
    """
    root = _checked(fetch(digest), Cid(RAW, digest))
    size = root_file_size(root)
    if (len(root) if size is None else size) > max_bytes:
        why = f"{digest.hex()} has {size or len(root)} bytes; limit {max_bytes}"
        raise TooLarge(why, (root,))
    if size is None:
        return replace(cut(root, spans), blocks=(root,))
    reader = _Reader(spans, size, fetch, root)
    reader.below(root, 0, size, depth_of(size))
    fetched = sum(map(len, reader.blocks))
    return Spans(size, tuple(map(bytes, reader.parts)), fetched, tuple(reader.blocks))


class _Reader:
    """Walks down to the leaves that are needed, from left to right."""

    def __init__(self, spans: Sequence[Span], size: int, fetch: FetchBlock, root: bytes) -> None:
        self._spans = [(min(first, size), min(last, size)) for first, last in spans]
        self._fetch = fetch
        self.parts = [bytearray(max(0, last - first)) for first, last in self._spans]
        self.blocks = [root]

    def below(self, block: bytes, first: int, size: int, depth: int) -> None:
        """Take what lies below an inner node of `size` bytes that begins at `first`."""
        children = children_of(block, size, depth)
        if children is None:
            why = f"the block of {size} bytes at {first} is no part of a file"
            raise NoSuchFile(why, tuple(self.blocks))
        for cid, length in children:
            if any(max(a, first) < min(b, first + length) for a, b in self._spans):
                inside = _checked(self._fetch(cid.digest), Cid(RAW, cid.digest))
                self.blocks.append(inside)
                if depth > 1:
                    self.below(inside, first, length, depth - 1)
                elif len(inside) == length:
                    self._take(inside, first)
                else:
                    why = f"the leaf at {first} has {len(inside)} bytes: {length}"
                    raise NoSuchFile(why, tuple(self.blocks))
            first += length

    def _take(self, leaf: bytes, first: int) -> None:
        for (a, b), part in zip(self._spans, self.parts, strict=True):
            low, high = max(a, first), min(b, first + len(leaf))
            if low < high:
                part[low - a : high - a] = leaf[low - first : high - first]


def _checked(block: bytes, cid: Cid) -> bytes:
    """The block, if it has its digest and is no longer than any block of this network."""
    if cid_of_bytes(block) != str(cid):
        raise CorruptContent(
            f"{len(block)} bytes came for block {cid} that are not it: truncated, corrupted or "
            "added with other chunk settings"
        )
    return block
