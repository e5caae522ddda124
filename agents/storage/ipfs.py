# SPDX-License-Identifier: Apache-2.0
"""The content store on a Kubo daemon: the daemon transports bytes, this file checks their CID.

A `ContentStore` on the RPC API of a Kubo daemon. Content is added with every option that changes
a CID sent explicitly, read in slices of bounded size, and never returned before it is verified.
"""

from __future__ import annotations

import io
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import ipfshttpclient

from agents.storage.cid import (
    DAG_PB,
    PROFILE,
    RAW,
    Buffer,
    CidBuilder,
    cid_from_digest,
    cid_of_bytes,
    parse_cid,
    root_file_size,
)
from agents.storage.durable import atomic_file
from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable, TooLarge
from agents.storage.ipfs_errors import FAILURES, MALFORMED, translate

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# ipfshttpclient passes urllib3 2 a parameter that only urllib3 3, which is excluded, refuses.
warnings.filterwarnings("ignore", "The 'strict' parameter is no longer needed", FutureWarning)

_SLICE: Final = 4 << 20  # bytes asked for at once: bounds memory, and a retry repeats only this
_CONNECT_S: Final = 5.0
_ADD_OPTIONS: Final = {
    "hash": "sha2-256",
    "max-file-links": str(PROFILE.max_links),  # daemons that do not know an option ignore it
    "inline": "false",
    "progress": "false",
}


class IpfsStore:
    """A `ContentStore` behind a Kubo RPC server.

    address: multiaddr, as '/ip4/127.0.0.1/tcp/5001' or '/dns/example.org/tcp/443/https'.
    base: path of the API. auth: (user, password) for HTTP basic authentication.
    timeout_s: how long the daemon may search the network for one block, and how long a reply may
    stall. attempts, backoff_s: a failed call is tried `attempts` times in all, waiting `backoff_s`
    seconds, then twice as long each time.
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
    ) -> None:
        self.location = f"ipfs://{address}"
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._search = {"timeout": f"{timeout_s:g}s"}
        self._down = False
        try:
            self._client = ipfshttpclient.Client(
                address,
                base,
                chunk_size=PROFILE.chunk_size,
                session=True,
                auth=auth,
                # The daemon gives up first and says so, which is NotFound and not an outage.
                timeout=(_CONNECT_S, timeout_s + _CONNECT_S),
            )
        except (ipfshttpclient.exceptions.Error, *MALFORMED) as error:
            raise StoreError(
                f"{address!r} is not the address of an IPFS daemon; give a multiaddr such as "
                "'/ip4/127.0.0.1/tcp/5001'"
            ) from error

    def version(self) -> str:
        """The daemon's version: shows that it is reachable. Raises StoreUnavailable."""
        return self._call("tell its version", lambda: str(self._client.version()["Version"]))

    def put_bytes(self, data: Buffer) -> str:
        """Add and pin the bytes."""
        view = memoryview(data).cast("B")
        return self._call("add content", lambda: self._add(_Hashed(io.BytesIO(view), "bytes")))

    def put_file(self, path: str | Path) -> str:
        """Add and pin a file, streamed. Raises StoreError when the file cannot be read."""

        def add() -> str:
            try:
                source = Path(path).open("rb")  # noqa: SIM115 - closed below; only opening is guarded
            except OSError as error:
                raise StoreError(f"cannot read {path}: {error.strerror}") from error
            with source:
                return self._add(_Hashed(source, path))

        return self._call(f"add {path}", add)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content in memory."""
        content = bytearray()
        self._fetch(cid, max_bytes, content.extend)
        return bytes(content)

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`; returns its size in bytes."""
        dest = Path(dest)
        try:
            with atomic_file(dest.parent) as (out, commit):
                size = self._fetch(cid, max_bytes, out.write)
                commit(dest)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write {dest}: {error}; check that its folder is writable and has space"
            ) from error
        return size

    def has(self, cid: str) -> bool:
        """Whether the daemon keeps all of it: the CID is pinned recursively."""
        parse_cid(cid)
        try:
            self._call(
                f"look for {cid}", lambda: self._client.pin.ls(cid, type="recursive").as_json()
            )
        except NotFound:
            return False
        return True

    def pin(self, cid: str) -> None:
        """Have the daemon fetch what it lacks and keep it."""
        parse_cid(cid)
        options = dict(self._search)
        self._call(f"pin {cid}", lambda: self._client.pin.add(cid, opts=options).as_json())

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

    def close(self) -> None:
        """Close the connections to the daemon."""
        self._client.close()

    def _add(self, source: _Hashed) -> str:
        try:
            reply = self._client.add(
                source,
                chunker=f"size-{PROFILE.chunk_size}",
                cid_version=PROFILE.cid_version,
                raw_leaves=PROFILE.raw_leaves,
                pin=True,
                opts=dict(_ADD_OPTIONS),
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
        return cid

    def _fetch(self, cid: str, max_bytes: int, sink: Callable[[bytes], object]) -> int:
        """Pass verified-on-return content to `sink`, slice by slice; returns the size.

        A slice may come back short because the daemon lost the rest of its stream (it tells so
        only in a trailer that the client ignores), so short is the end only when the CID matches.
        """
        codec = parse_cid(cid).codec
        builder, empty = CidBuilder(), 0
        while True:
            at, want = builder.size, max(1, min(_SLICE, max_bytes + 1 - builder.size))
            part = self._call(f"read {cid}", lambda: self._cat(cid, at, want))  # noqa: B023
            builder.update(part)
            if builder.size > max_bytes:
                raise TooLarge(f"{cid} has more than {max_bytes} bytes in {self.location}")
            if codec == RAW and builder.size > PROFILE.chunk_size:
                break
            sink(part)
            if len(part) < want and builder.cid() == cid:
                return builder.size
            empty = 0 if part else empty + 1
            if empty == self._attempts:
                break
            if empty:
                time.sleep(self._backoff_s)
        raise CorruptContent(
            f"{self.location} returned {builder.size} bytes for {cid} that are not its content: "
            "truncated, corrupted, or added with other chunk settings; add the file again with "
            "cid-version=1, raw-leaves=true and chunker=size-262144"
        )

    def _cat(self, cid: str, offset: int, length: int) -> bytes:
        options = {"offset": str(offset), "length": str(length), **self._search}
        with self._client.cat(cid, stream=True, opts=options) as stream:
            return _at_most(stream, length)

    def _resolve(self, digest: bytes) -> tuple[str, bytes]:
        """(CID, verified block). The daemon finds blocks by digest whatever the codec asked for."""
        raw = cid_from_digest(digest, RAW)
        block = self._call(f"read block {raw}", lambda: self._block(raw))
        if cid_of_bytes(block) != raw:  # also when it is larger than any block of the profile
            raise CorruptContent(
                f"{self.location} returned {len(block)} bytes for block {raw} that are not it: "
                "truncated, corrupted or added with other chunk settings"
            )
        if root_file_size(block) is None:
            return raw, block
        return cid_from_digest(digest, DAG_PB), block

    def _block(self, cid: str) -> bytes:
        options = dict(self._search)
        with self._client.block.get(cid, stream=True, opts=options) as stream:
            return _at_most(stream, PROFILE.chunk_size + 1)

    def _call(self, action: str, call: Callable[[], _T]) -> _T:
        """Run one call with bounded retries; an outage and its end are logged once each."""
        for attempt in range(1, self._attempts + 1):
            try:
                result = call()
            except StoreError:
                raise
            except FAILURES as error:
                problem, again = translate(error, action, self.location)
                if again and attempt < self._attempts:
                    if not self._down:
                        self._down = True
                        _log.warning("%s; trying again", problem)
                    time.sleep(self._backoff_s * 2 ** (attempt - 1))
                    continue
                raise problem from error
            if self._down:
                self._down = False
                _log.info("%s answers again", self.location)
            return result
        raise AssertionError("unreachable: the last attempt returns or raises")


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


def _at_most(stream: Any, limit: int) -> bytes:
    """Collect at most `limit` bytes of a reply; the rest is not read."""
    data = bytearray()
    for piece in stream:
        data += piece
        if len(data) >= limit:
            break
    return bytes(data[:limit])
