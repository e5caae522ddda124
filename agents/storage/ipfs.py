# SPDX-License-Identifier: Apache-2.0
"""The content store on a Kubo daemon: the daemon transports bytes, we check their CID.

A `ContentStore` on the RPC API of a Kubo daemon. `ipfs_daemon` asks it with bounded patience,
`ipfs_reading` verifies what it sends before it is used, `ipfs_boxes` has its boxes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

from agents.storage import ipfs_boxes as boxes
from agents.storage.arrival import InFile, InMemory
from agents.storage.cid import (
    DAG_PB,
    RAW,
    Buffer,
    cid_from_digest,
    parse_cid,
    root_file_size,
)
from agents.storage.durable import atomic_file
from agents.storage.errors import NotFound, StoreError, StoreUnavailable, TooLarge
from agents.storage.ipfs_daemon import Daemon, Hashed
from agents.storage.ipfs_reading import read, resolve
from agents.storage.sink import Sink
from agents.storage.spans import Span, Spans, read_spans


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
        self._daemon = Daemon(
            address,
            base=base,
            auth=auth,
            timeout_s=timeout_s,
            attempts=attempts,
            backoff_s=backoff_s,
            until=until,
        )
        self.location = self._daemon.location

    def version(self) -> str:
        """The daemon's version: shows that it is reachable. Raises StoreUnavailable."""
        return self._daemon.version(self._daemon.patience())

    def put_bytes(self, data: Buffer) -> str:
        """Add and pin the bytes."""
        view, patience = memoryview(data).cast("B"), self._daemon.patience()

        def add() -> str:
            return self._daemon.add(Hashed(io.BytesIO(view), "bytes"), patience)

        return self._daemon.call("add content", add, patience)

    def put_file(self, path: str | Path) -> str:
        """Add and pin a file, streamed. Raises StoreError when the file cannot be read."""
        patience = self._daemon.patience()

        def add() -> str:
            try:
                source = Path(path).open("rb")  # noqa: SIM115 - closed below; only opening is guarded
            except OSError as error:
                raise StoreError(f"cannot read {path}: {error.strerror}") from error
            with source:
                return self._daemon.add(Hashed(source, path), patience)

        return self._daemon.call(f"add {path}", add, patience)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content in memory."""
        content = InMemory()
        read(self._daemon, cid, max_bytes, content)
        return content.content()

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`; returns its size in bytes."""
        dest = Path(dest)
        try:
            with atomic_file(dest.parent) as (out, commit):
                size = read(self._daemon, cid, max_bytes, InFile(out))
                commit(dest)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write {dest}: {error}; check that its folder is writable and has space"
            ) from error
        return size

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink` as it comes; returns its size in bytes."""
        sink.begin()
        return read(self._daemon, cid, max_bytes, InFile(sink))

    def has(self, cid: str) -> bool:
        """Whether the daemon keeps all of it: the CID is pinned recursively."""
        parse_cid(cid)
        daemon, patience = self._daemon, self._daemon.patience()
        try:
            daemon.call(f"look for {cid}", lambda: daemon.find_pin(cid, patience), patience)
        except NotFound:
            return False
        return True

    def pin(self, cid: str) -> None:
        """Have the daemon fetch what it lacks and keep it."""
        with self._daemon.looking_for(cid, rationed=False) as patience:
            self._daemon.call(f"pin {cid}", lambda: self._daemon.pin(cid, patience), patience)

    def resolve(self, digest: bytes) -> str:
        """The CID a digest names, from the block itself."""
        return resolve(self._daemon, digest)[0]

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names."""
        cid, block = resolve(self._daemon, digest)
        size = root_file_size(block) if parse_cid(cid).codec == DAG_PB else len(block)
        if size is not None and size > max_bytes:
            raise TooLarge(f"{cid} has {size} bytes in {self.location}; limit {max_bytes}")
        return self.get(cid, max_bytes) if parse_cid(cid).codec == DAG_PB else block

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Fetches the root, and the blocks that the spans need, one after the other."""
        with self._daemon.looking_for(cid_from_digest(digest, RAW)) as patience:

            def fetch(one: bytes) -> bytes:
                return self._daemon.block(cid_from_digest(one, RAW), patience)

            return read_spans(digest, spans, max_bytes, fetch)

    def leave(self, box: bytes, cid: str) -> None:
        """A link to the content in a folder of the daemon's own file system (MFS)."""
        boxes.leave(self._daemon, box, cid)

    def left(self, box: bytes, most: int) -> list[str]:
        """The names in that folder which are CIDs, of the first 256 KiB of the daemon's list."""
        return boxes.left(self._daemon, box, most)

    def take_away(self, box: bytes, cid: str) -> None:
        """Removes the link."""
        boxes.take_away(self._daemon, box, cid)

    def close(self) -> None:
        """Close the connections to the daemon."""
        self._daemon.close()
