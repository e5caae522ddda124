# SPDX-License-Identifier: Apache-2.0
"""The content store on a Kubo daemon: the daemon transports bytes, this file checks their CID.

A `ContentStore` on the RPC API of a Kubo daemon. Content is added with every option that changes
a CID sent explicitly, read as one stream that is taken up again where it broke off, and never
returned before it is verified. What a server that lies can cost is bounded per operation
(`agents.storage.patience`, `agents.storage.ipfs_transport`).
"""

from __future__ import annotations

import io
import logging
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import ipfshttpclient

from agents.storage.arrival import Arrival, InFile, InMemory, Meanwhile
from agents.storage.boxes import box_name
from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    Buffer,
    CidBuilder,
    cid_from_digest,
    cid_of_bytes,
    digest_of,
    parse_cid,
    root_file_size,
)
from agents.storage.durable import atomic_file
from agents.storage.errors import (
    CorruptContent,
    InvalidCid,
    NotFound,
    StoreError,
    StoreUnavailable,
    TooLarge,
)
from agents.storage.ipfs_errors import (
    DOUBTFUL,
    FAILURES,
    MALFORMED,
    Refused,
    Unreadable,
    breaks_off,
    translate,
)
from agents.storage.ipfs_transport import Stream, Transport
from agents.storage.patience import Patience
from agents.storage.ration import Ration
from agents.storage.sink import Sink
from agents.storage.spans import Span, Spans, read_spans

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_GRACE_S: Final = 5.0  # beside the search: to connect, and for the daemon to say that it gives up
_MAX_VERSION: Final = 80
_MAX_LISTED: Final = 256 << 10  # bytes of the list of a box
_NOTHING: Final = b'{"Entries":null}'
_LISTED: Final = re.compile(rb'\s*\{\s*"Entries"')
_NAME: Final = re.compile(rb'"Name"\s*:\s*"([a-z0-9]+)"')
_BASE: Final = {"cid-base": "base32"}  # how a reply writes its CIDs: as this network does
_PROBE: Final = b"menagerie: whether this daemon keeps content "
_NO_WRITES: Final = (403, 405)  # what a server answers that lets content be read, and none be added
_ADD_OPTIONS: Final = {
    **_BASE,
    "hash": "sha2-256",
    "max-file-links": str(PROFILE.max_links),  # daemons that do not know an option ignore it
    "inline": "false",
    "progress": "false",
}


class IpfsStore:
    """A `ContentStore` behind a Kubo RPC server.

    address: multiaddr, as '/ip4/127.0.0.1/tcp/5001' or '/dns/example.org/tcp/443/https'.
    base: path of the API. auth: (user, password) for HTTP basic authentication.
    timeout_s: how long the daemon may search the network, and less after searches that found
    nothing (`agents.storage.ration`), pins apart. An operation ends, with all its retries,
    5 s later than that, unless bytes move: 64 KiB buy a second, never more than the first time
    again. attempts, backoff_s: a failed call is tried `attempts` times in all (1 MiB received buys
    another), waiting `backoff_s` seconds, then twice as long each time. until: when every operation
    ends, whatever moves, as `time.monotonic` counts.
    """

    def __init__(
        self,
        address: str,
        *,
        base: str = "api/v0",
        auth: tuple[str, str] | None = None,
        timeout_s: float = 60.0,
        attempts: int = 5,
        backoff_s: float = 0.25,
        until: float = math.inf,
    ) -> None:
        self.location = f"ipfs://{address}"
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._seconds = timeout_s + _GRACE_S
        self._until = until
        self._ration = Ration(timeout_s)
        self._down = False
        try:
            self._client = ipfshttpclient.Client(address, base, chunk_size=PROFILE.chunk_size)
            # The library's own HTTP client decodes, redirects and waits without a bound.
            self._client._client = self._transport = Transport(address, base, auth)
        except (ipfshttpclient.exceptions.Error, *MALFORMED) as error:
            raise StoreError(
                f"{address!r} is not the address of an IPFS daemon; give a multiaddr such as "
                "'/ip4/127.0.0.1/tcp/5001'"
            ) from error

    def version(self) -> str:
        """The daemon's version: shows that it is reachable. Raises StoreUnavailable."""
        return self._version(self._patience())

    def _version(self, patience: Patience) -> str:
        def ask() -> str:
            said = self._client.version(timeout=patience)["Version"]
            if not isinstance(said, str):
                raise Unreadable("its version is not text")
            return said[:_MAX_VERSION]

        return self._call("tell its version", ask, patience)

    def put_bytes(self, data: Buffer) -> str:
        """Add and pin the bytes."""
        view = memoryview(data).cast("B")
        patience = self._patience()
        return self._call(
            "add content", lambda: self._add(_Hashed(io.BytesIO(view), "bytes"), patience), patience
        )

    def put_file(self, path: str | Path) -> str:
        """Add and pin a file, streamed. Raises StoreError when the file cannot be read."""
        patience = self._patience()

        def add() -> str:
            try:
                source = Path(path).open("rb")  # noqa: SIM115 - closed below; only opening is guarded
            except OSError as error:
                raise StoreError(f"cannot read {path}: {error.strerror}") from error
            with source:
                return self._add(_Hashed(source, path), patience)

        return self._call(f"add {path}", add, patience)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content in memory."""
        content = InMemory()
        self._fetch(cid, max_bytes, content)
        return content.content()

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`; returns its size in bytes."""
        dest = Path(dest)
        try:
            with atomic_file(dest.parent) as (out, commit):
                size = self._fetch(cid, max_bytes, InFile(out))
                commit(dest)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write {dest}: {error}; check that its folder is writable and has space"
            ) from error
        return size

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink` as it comes; returns its size in bytes."""
        sink.begin()
        return self._fetch(cid, max_bytes, InFile(sink))

    def has(self, cid: str) -> bool:
        """Whether the daemon keeps all of it: the CID is pinned recursively."""
        parse_cid(cid)
        patience = self._patience()

        def look() -> None:
            reply = self._client.pin.ls(
                cid, type="recursive", opts=dict(_BASE), timeout=patience
            ).as_json()
            if reply["Keys"][cid]["Type"] != "recursive":
                raise Unreadable("it lists another pin than was asked for")

        try:
            self._call(f"look for {cid}", look, patience)
        except NotFound:
            return False
        return True

    def pin(self, cid: str) -> None:
        """Have the daemon fetch what it lacks and keep it."""

        def keep() -> None:
            options = {**_BASE, **_search(patience)}
            reply = self._client.pin.add(cid, opts=options, timeout=patience).as_json()
            if reply["Pins"] != [cid]:
                raise Unreadable("it pinned something else than was asked for")

        with self._had(cid, rationed=False) as patience:
            self._call(f"pin {cid}", keep, patience)

    def resolve(self, digest: bytes) -> str:
        """The CID a digest names, from the block itself."""
        return self._resolve(digest)[0]

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names."""
        cid, block = self._resolve(digest)
        size = root_file_size(block) if parse_cid(cid).codec == DAG_PB else len(block)
        if size is not None and size > max_bytes:
            raise TooLarge(f"{cid} has {size} bytes in {self.location}; limit {max_bytes}")
        return self.get(cid, max_bytes) if parse_cid(cid).codec == DAG_PB else block

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Fetches the root, and the blocks that the spans need, one after the other."""

        def fetch(one: bytes) -> bytes:
            cid = cid_from_digest(one, RAW)
            return self._call(f"read block {cid}", lambda: self._block(cid, patience), patience)

        with self._had(cid_from_digest(digest, RAW)) as patience:
            return read_spans(digest, spans, max_bytes, fetch)

    def leave(self, box: bytes, cid: str) -> None:
        """A link to the content in a folder of the daemon's own file system (MFS)."""
        parse_cid(cid)
        patience, folder = self._patience(), _folder(box)

        def link() -> None:
            self._do("/files/mkdir", (folder,), {"parents": "true"}, patience)
            try:
                self._do(
                    "/files/cp", (f"/ipfs/{cid}", f"{folder}/{cid}"), _search(patience), patience
                )
            except ipfshttpclient.exceptions.ErrorResponse as error:
                if "already has entry" not in str(error):
                    raise

        self._call(f"leave {cid} in a box", link, patience)

    def left(self, box: bytes, most: int) -> list[str]:
        """The names in that folder which are CIDs, of the first 256 KiB of the daemon's list."""
        patience = self._patience()

        def look() -> bytes:
            try:
                reply: Stream = self._transport.request(
                    "/files/ls", (_folder(box),), timeout=patience, opts={"U": "true"}
                )
            except ipfshttpclient.exceptions.ErrorResponse as error:
                if "does not exist" not in str(error):
                    raise
                return _NOTHING
            text = bytearray()
            with reply:
                for piece in reply:
                    text += piece
                    if len(text) > _MAX_LISTED:
                        break
            if _LISTED.match(text) is None:
                raise Unreadable("it is no list of a folder")
            return bytes(text)

        found: list[str] = []
        # The list may have been cut, so it need not be JSON.
        for name in _NAME.findall(self._call("look into a box", look, patience)):
            with suppress(InvalidCid):
                parse_cid(name.decode())
                found.append(name.decode())
            if len(found) >= most:
                break
        return found

    def take_away(self, box: bytes, cid: str) -> None:
        """Removes the link."""
        parse_cid(cid)
        patience = self._patience()

        def unlink() -> None:
            try:
                self._do("/files/rm", (f"{_folder(box)}/{cid}",), {}, patience)
            except ipfshttpclient.exceptions.ErrorResponse as error:
                if "does not exist" not in str(error):
                    raise

        self._call(f"take {cid} out of a box", unlink, patience)

    def close(self) -> None:
        """Close the connections to the daemon."""
        self._transport.close_session()

    def _do(
        self, path: str, args: Sequence[str], options: Mapping[str, str], patience: Patience
    ) -> None:
        """A call that answers nothing."""
        reply: Stream = self._transport.request(path, args, timeout=patience, opts=options)
        with reply:
            for _ in reply:
                pass
            reply.ended_well()

    def _patience(self) -> Patience:
        return Patience(self._seconds, self._attempts, self._backoff_s, self._until)

    def _add(self, source: _Hashed, patience: Patience, pin: bool = True) -> str:
        try:
            reply = self._client.add(
                source,
                chunker=f"size-{PROFILE.chunk_size}",
                cid_version=PROFILE.cid_version,
                raw_leaves=PROFILE.raw_leaves,
                pin=pin,
                opts=dict(_ADD_OPTIONS),
                timeout=patience,
            )
        except FAILURES as error:
            if source.error is None:
                raise
            # The HTTP layer reports a failing source file as a lost connection.
            raise StoreError(f"cannot read {source.label}: {source.error.strerror}") from error
        cid, theirs = source.builder.cid(), reply["Hash"]
        if theirs != cid:
            raise CorruptContent(
                f"{self.location} stored {source.builder.size} bytes as {theirs}, but they are "
                f"{cid}: it lost bytes, or its import settings override the request"
            )
        self._ration.found(digest_of(cid))
        return cid

    @contextmanager
    def _had(self, cid: str, rationed: bool = True) -> Iterator[Patience]:
        """Look for content, as long as it may be looked for; what is missing is noted.

        A daemon that is too slow with it, says in words why it can't read it, or breaks off when it
        is asked for it, and works else, can't have it. Whoever serves the first block of a payload
        and no other, or names a block that is no file or more than a daemon can read, must not look
        like an outage, which stops all. An outage is not noted: what was asked for meanwhile may be
        there.

        rationed: whether it may be looked for less long than the longest.
        """
        name, began = digest_of(cid), time.monotonic()
        seconds = self._ration.length(name) + _GRACE_S if rationed else self._seconds
        patience = Patience(seconds, self._attempts, self._backoff_s, self._until)
        patience.looks_again = True
        try:
            yield patience
        except (NotFound, CorruptContent):
            self._ration.missed(name, began)
            raise
        except StoreUnavailable as failed:
            if patience.given_up:  # says nothing of the daemon, nor of the content
                raise NotFound(f"{cid} has not come, and nobody waits for it any more") from None
            if not patience.doubtful or not self._works():
                raise
            self._ration.missed(name, began)
            raise NotFound(
                f"{self.location} works, and it does not bring {cid}; nobody reachable provides "
                f"all of it as a file: {failed}"
            ) from None

    def _works(self) -> bool:
        """Whether the daemon answers, and keeps content or may not be asked to."""
        try:
            self._version(Patience(_GRACE_S, 1, 0.0))
            # New bytes: what it has already a daemon need not write, so a full disk takes it.
            probe = io.BytesIO(_PROBE + secrets.token_bytes(16))
            self._add(_Hashed(probe, "bytes"), Patience(_GRACE_S, 1, 0.0), pin=False)
        except Refused as refused:
            return refused.status in _NO_WRITES
        except (StoreError, *FAILURES):
            return False
        return True

    def _fetch(self, cid: str, max_bytes: int, place: Arrival) -> int:
        """As `_read`. Raises NotFound where only the content can't be had in time."""
        with self._had(cid) as patience:
            size = self._read(cid, max_bytes, place, patience)
        self._ration.found(digest_of(cid))
        return size

    def _read(self, cid: str, max_bytes: int, place: Arrival, patience: Patience) -> int:
        """Let content come to `place` that is verified when this returns; returns its size.

        A reply may come back short because the daemon lost the rest of its stream (it tells so only
        in a trailer that HTTP clients ignore), so it ends the content only when the CID matches.
        """
        limit = max_bytes
        if parse_cid(cid).codec == RAW:  # one block: anything longer is not it
            limit = min(limit, PROFILE.chunk_size)
        builder, size = CidBuilder(), 0
        with (
            _Resumed(lambda at: self._cat(cid, at, limit + 1 - at, patience)) as source,
            Meanwhile(builder.update) as pieces,
        ):
            promised = self._call(f"read {cid}", source.promised, patience)
            place.expect(min(promised, limit) + 1)  # the end shows where one more could lie
            while size <= limit:
                with (
                    place.room(size, pieces.wait) as all_room,
                    all_room[: limit + 1 - size] as room,
                ):
                    read = partial(source.read_into, room, size)
                    count = self._call(f"read {cid}", read, patience)
                    size += count
                    if size > max_bytes:
                        raise self._overlong(cid, max_bytes, patience)
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
            f"{self.location} returned {size} bytes for {cid} that are not its content: "
            "truncated, corrupted, or added with other chunk settings; add the file again with "
            "cid-version=1, raw-leaves=true and chunker=size-262144"
        )

    def _overlong(self, cid: str, max_bytes: int, patience: Patience) -> StoreError:
        """What is wrong where more came than there may be: the content is too large only if its own
        root says so. What a daemon sends says nothing of it, and a caller may act on that: a task
        whose input is too large has a result."""
        raw = cid_from_digest(digest_of(cid), RAW)
        block = self._call(f"read block {raw}", lambda: self._block(raw, patience), patience)
        if cid_of_bytes(block) == raw:
            size = len(block) if cid == raw else root_file_size(block)
            if size is not None and size > max_bytes:
                return TooLarge(f"{cid} has {size} bytes in {self.location}; limit {max_bytes}")
        return CorruptContent(
            f"{self.location} sends more than {max_bytes} bytes for {cid}, which has not so many"
        )

    def _cat(self, cid: str, offset: int, length: int, patience: Patience) -> Stream:
        # What Kubo calls so bounds the whole transfer. How long nothing may come is `patience`'s.
        longest = {"timeout": f"{self._seconds - _GRACE_S:g}s"}
        options = {"offset": str(offset), "length": str(length), **longest}
        stream: Stream = self._client.cat(cid, stream=True, opts=options, timeout=patience)
        return stream

    def _resolve(self, digest: bytes) -> tuple[str, bytes]:
        """(CID, verified block). The daemon finds blocks by digest whatever the codec asked for."""
        raw = cid_from_digest(digest, RAW)
        with self._had(raw) as patience:
            block = self._call(f"read block {raw}", lambda: self._block(raw, patience), patience)
        if cid_of_bytes(block) != raw:  # also when it is larger than any block of the profile
            raise CorruptContent(
                f"{self.location} returned {len(block)} bytes for block {raw} that are not it: "
                "truncated, corrupted or added with other chunk settings"
            )
        if root_file_size(block) is None:
            self._ration.found(digest)
            return raw, block
        return cid_from_digest(digest, DAG_PB), block

    def _block(self, cid: str, patience: Patience) -> bytes:
        options = _search(patience)
        with self._client.block.get(cid, stream=True, opts=options, timeout=patience) as stream:
            return _at_most(stream, PROFILE.chunk_size + 1)

    def _call(self, action: str, call: Callable[[], _T], patience: Patience) -> _T:
        """Run one call with bounded retries; an outage and its end are logged once each."""
        while True:
            try:
                result = call()
            except StoreError:
                raise
            except FAILURES as error:
                problem, may_help = translate(error, action, self.location)
                broke = breaks_off(error)
                patience.doubtful = isinstance(error, DOUBTFUL)
                patience.doubtful |= broke and not patience.looks_again
                if not may_help or not patience.again():
                    # It may have been down for all of the tries. Who is asked again while it works
                    # and breaks off again does so for what it was asked for.
                    if broke and patience.looks_again and self._works():
                        patience.looks_again = False
                        continue
                    raise problem from None
                if not self._down:
                    self._down = True
                    _log.warning("%s; trying again", problem)
                patience.pause()
                continue
            if self._down:
                self._down = False
                _log.info("%s answers again", self.location)
            return result


def _search(patience: Patience) -> dict[str, str]:
    """The option that bounds how long the daemon looks for something."""
    return {"timeout": f"{max(0.0, patience.seconds - _GRACE_S):g}s"}


def _folder(box: bytes) -> str:
    return f"/menagerie/boxes/{box_name(box)}"


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


class _Hashed:
    """A file to upload that computes the CID of what is actually sent. Has no file name on
    purpose: the client would tell the daemon the path."""

    def __init__(self, file: BinaryIO, name: str | Path) -> None:
        self._file = file
        self.label = name
        self.builder = CidBuilder()
        self.error: OSError | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            self.error = error
            raise
        self.builder.update(data)
        return data


def _at_most(stream: Stream, limit: int) -> bytes:
    """Collect at most `limit` bytes of a reply; the rest is not read."""
    data = bytearray()
    for piece in stream:
        data += piece
        if len(data) >= limit:
            break
    return bytes(data[:limit])
