# SPDX-License-Identifier: Apache-2.0
"""Content from a Kubo daemon: one stream, taken up again where it broke off, and verified."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.storage.arrival import Arrival, Meanwhile
from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    CidBuilder,
    cid_from_digest,
    cid_of_bytes,
    digest_of,
    parse_cid,
    root_file_size,
)
from agents.storage.errors import CorruptContent, StoreError, TooLarge
from agents.storage.ipfs_daemon import Daemon
from agents.storage.ipfs_transport import Stream
from agents.storage.patience import Patience


def read(daemon: Daemon, cid: str, max_bytes: int, place: Arrival) -> int:
    """Let verified content come to `place`; returns its size in bytes.

    Raises NotFound where only the content can't be had in time.
    """
    with daemon.looking_for(cid) as patience:
        size = _read(daemon, cid, max_bytes, place, patience)
    daemon.ration.found(digest_of(cid))
    return size


def resolve(daemon: Daemon, digest: bytes) -> tuple[str, bytes]:
    """(CID, verified block). The daemon finds blocks by digest whatever the codec asked for."""
    raw = cid_from_digest(digest, RAW)
    with daemon.looking_for(raw) as patience:
        block = daemon.block(raw, patience)
    if cid_of_bytes(block) != raw:  # also when it is larger than any block of the profile
        raise CorruptContent(
            f"{daemon.location} returned {len(block)} bytes for block {raw} that are not it: "
            "truncated, corrupted or added with other chunk settings"
        )
    if root_file_size(block) is None:
        daemon.ration.found(digest)
        return raw, block
    return cid_from_digest(digest, DAG_PB), block


def _read(daemon: Daemon, cid: str, max_bytes: int, place: Arrival, patience: Patience) -> int:
    """Let content come to `place` that is verified when this returns; returns its size.

    A reply may come back short because the daemon lost the rest of its stream (it tells so only
    in a trailer that HTTP clients ignore), so it ends the content only when the CID matches.
    """
    limit = max_bytes
    if parse_cid(cid).codec == RAW:  # one block: anything longer is not it
        limit = min(limit, PROFILE.chunk_size)
    builder, size = CidBuilder(), 0
    with (
        _Resumed(lambda at: daemon.cat(cid, at, limit + 1 - at, patience)) as source,
        Meanwhile(builder.update) as pieces,
    ):
        promised = daemon.call(f"read {cid}", source.promised, patience)
        place.expect(min(promised, limit) + 1)  # the end shows where one more could lie
        while size <= limit:
            with (
                place.room(size, pieces.wait) as all_room,
                all_room[: limit + 1 - size] as room,
            ):
                read = partial(source.read_into, room, size)
                count = daemon.call(f"read {cid}", read, patience)
                size += count
                if size > max_bytes:
                    raise _overlong(daemon, cid, max_bytes, patience)
                if count:
                    place.keep(room[:count])
                    pieces.take(room[:count])
                    continue
            pieces.wait()
            if builder.cid() == cid:
                return size
            if not patience.again():
                break
            patience.pause()
    raise CorruptContent(
        f"{daemon.location} returned {size} bytes for {cid} that are not its content: "
        "truncated, corrupted, or added with other chunk settings; add the file again with "
        "cid-version=1, raw-leaves=true and chunker=size-262144"
    )


def _overlong(daemon: Daemon, cid: str, max_bytes: int, patience: Patience) -> StoreError:
    """What is wrong where more came than there may be: the content is too large only if its own
    root says so. What a daemon sends says nothing of it, and a caller may act on that: a task
    whose input is too large has a result."""
    raw = cid_from_digest(digest_of(cid), RAW)
    block = daemon.block(raw, patience)
    if cid_of_bytes(block) == raw:
        size = len(block) if cid == raw else root_file_size(block)
        if size is not None and size > max_bytes:
            return TooLarge(f"{cid} has {size} bytes in {daemon.location}; limit {max_bytes}")
    return CorruptContent(
        f"{daemon.location} sends more than {max_bytes} bytes for {cid}, which has not so many"
    )


class _Resumed:
    """A stream that is opened at the offset to read next, and again after it failed or ended."""

    def __init__(self, open_at: Callable[[int], Stream]) -> None:
        self._open_at = open_at
        self._stream: Stream | None = None

    def __enter__(self) -> _Resumed:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def promised(self) -> int:
        """How many bytes the first reply says that it has, 0 if it does not say."""
        self._stream = self._stream or self._open_at(0)
        return self._stream.promised

    def read_into(self, room: memoryview, offset: int) -> int:
        """Put the next bytes into `room`; returns their number, 0 at the end of a reply."""
        if self._stream is None:
            self._stream = self._open_at(offset)
        count = 0
        try:
            count = self._stream.read_into(room)
        finally:
            if not count:
                self._end()
        return count

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
