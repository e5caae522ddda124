# SPDX-License-Identifier: Apache-2.0
"""The protocol of both content stores, and `open_store`, which picks one from a setting.

A caller asks for content by its CID, never by a place. Every read is verified.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from agents.storage.cid import Buffer
from agents.storage.errors import StoreError
from agents.storage.sink import Sink
from agents.storage.spans import Span, Spans

_MULTIADDR = re.compile(r"^/(ip4|ip6|dns|dns4|dns6)/")
_FORMS = (
    "a folder ('data/store' or 'file:///data/store'), a multiaddr ('/ip4/127.0.0.1/tcp/5001' or "
    "'ipfs:///ip4/127.0.0.1/tcp/5001') or an http(s) URL of a Kubo RPC server"
)


class ContentStore(Protocol):
    """Content-addressed storage. Every method may raise StoreError; sizes are in bytes.

    CIDs are CIDv1 text made with `agents.storage.cid.PROFILE`. Stores are safe to use from several
    threads, and several processes may use the same one.

    A store also has boxes, in which anybody leaves CIDs for whoever knows the box. A box is named
    by 32 bytes, and is there once something lies in it. It says nothing of who left what: whoever
    uses the store may leave anything and take anything away. So what lies in a box is only ever
    tried, and its bytes prove who wrote them. Boxes are those of one folder, or of one daemon's
    RPC: nodes that each run a daemon of their own share none.
    """

    location: str
    """Where the store is, for messages; holds no credentials."""

    def put_bytes(self, data: Buffer) -> str:
        """Keep the bytes durably and return their CID. Raises StoreUnavailable."""

    def put_file(self, path: str | Path) -> str:
        """Keep a file's content durably, in bounded memory, and return its CID."""

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The verified content. Raises NotFound, CorruptContent, InvalidCid, TooLarge,
        StoreUnavailable."""

    def get_file(self, cid: str, dest: str | Path, max_bytes: int) -> int:
        """Write the verified content to `dest`, in bounded memory; returns its size.

        `dest` appears only once it is complete and verified. Raises as `get`.
        """

    def stream(self, cid: str, sink: Sink, max_bytes: int) -> int:
        """Give the content to `sink` in order, in bounded memory; returns its size.

        The bytes are verified when this returns, and not before. Raises as `get`, and what the
        sink raises."""

    def has(self, cid: str) -> bool:
        """Whether this store keeps a complete copy (not verified: reading does that)."""

    def pin(self, cid: str) -> None:
        """Keep the content from now on. Raises NotFound. Bound it with `get` first: a stranger's
        CID may name any amount of data."""

    def resolve(self, digest: bytes) -> str:
        """The CID a 32-byte digest from the chain names: the file below it when the block is a
        canonical file root (`cid.root_file_size`), else the block itself. Raises as `get`."""

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The verified content that a digest from the chain names. Raises as `get`."""

    def get_spans(self, digest: bytes, spans: Sequence[Span], max_bytes: int) -> Spans:
        """Parts of the content that a digest from the chain names, each byte verified. `max_bytes`:
        of the whole content. Raises as `get`. A daemon fetches only the blocks that are needed, so
        the rest may not exist; a folder reads all of it."""

    def leave(self, box: bytes, cid: str) -> None:
        """Let a CID lie in a box; nothing happens if it does. Its content must be in the store.
        Raises StoreUnavailable, NotFound."""

    def left(self, box: bytes, most: int) -> list[str]:
        """CIDs that lie in a box, `most` at most, in no particular order; none in a box that is
        not there. Raises StoreUnavailable."""

    def take_away(self, box: bytes, cid: str) -> None:
        """Let a CID lie in a box no more; nothing happens if it does not. The content stays.
        Raises StoreUnavailable."""

    def close(self) -> None:
        """Release connections. The stored content stays."""


def open_store(url: str, *, timeout_s: float = 60.0, until: float = math.inf) -> ContentStore:
    """Open the store that a text names. Raises StoreError when it names none.

    timeout_s: how long a daemon may search for content before it counts as not found; a folder has
    no use for it. until: when every operation of a daemon ends, whatever moves, as `time.monotonic`
    counts. No connection is made here: a daemon that is down shows as StoreUnavailable at
    first use.
    """
    if not url.strip():
        raise StoreError(f"the store setting is empty; give {_FORMS}")
    if (folder := folder_of(url)) is not None:
        from agents.storage.embedded import EmbeddedStore

        return EmbeddedStore(folder)
    if _MULTIADDR.match(url):
        from agents.storage.ipfs import IpfsStore  # requests is slow to import: only when used

        return IpfsStore(url, timeout_s=timeout_s, until=until)
    scheme, parts = url.partition("://")[0], urlsplit(url)
    if scheme == "ipfs" and not parts.netloc and _MULTIADDR.match(parts.path):
        return open_store(parts.path, timeout_s=timeout_s, until=until)
    if scheme in ("http", "https") and parts.hostname:
        return _http(url, timeout_s, until)
    raise StoreError(f"the store setting has no known form; give {_FORMS}")


def folder_of(url: str) -> Path | None:
    """The folder that a text names as a store, None where it names none. It need not be there."""
    if _MULTIADDR.match(url):
        return None
    scheme, found, _ = url.partition("://")
    if not found:
        return Path(url).expanduser()
    parts = urlsplit(url)
    if scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return Path(unquote(parts.path)).expanduser()
    return None


def _http(url: str, timeout_s: float, until: float) -> ContentStore:
    from agents.storage.ipfs import IpfsStore

    parts = urlsplit(url)
    host = parts.hostname or ""
    kind = "ip6" if ":" in host else "ip4" if re.fullmatch(r"[0-9.]+", host) else "dns"
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise StoreError(f"the store URL has a bad port; give {_FORMS}") from error
    base = parts.path.strip("/")
    if not base.endswith("api/v0"):
        base = f"{base}/api/v0".lstrip("/")
    auth = None
    if parts.username is not None:
        auth = (unquote(parts.username), unquote(parts.password or ""))
    address = f"/{kind}/{host}/tcp/{port}/{parts.scheme}"
    return IpfsStore(address, base=base, auth=auth, timeout_s=timeout_s, until=until)
