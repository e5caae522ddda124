# SPDX-License-Identifier: Apache-2.0
"""What a Kubo daemon is asked, each time with bounded patience and retries.

Content is added with every option that changes a CID sent explicitly, and its CID is computed from
what was sent. What a server that lies can cost is bounded per operation
(`agents.storage.patience`, `agents.storage.ipfs_transport`).
"""

from __future__ import annotations

import io
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import ipfshttpclient

from agents.storage.cid import PROFILE, CidBuilder, digest_of
from agents.storage.errors import CorruptContent, NotFound, StoreError, StoreUnavailable
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

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_GRACE_S: Final = 5.0  # beside the search: to connect, and for the daemon to say that it gives up
_MAX_VERSION: Final = 80
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


class Daemon:
    """A Kubo RPC server. Arguments are those of `agents.storage.ipfs.IpfsStore`."""

    def __init__(
        self,
        address: str,
        *,
        base: str,
        auth: tuple[str, str] | None,
        timeout_s: float,
        attempts: int,
        backoff_s: float,
        until: float,
    ) -> None:
        self.location = f"ipfs://{address}"
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._seconds = timeout_s + _GRACE_S
        self._until = until
        self.ration = Ration(timeout_s)
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

    def close(self) -> None:
        """Close the connections to the daemon."""
        self._transport.close_session()

    def patience(self) -> Patience:
        """That of an operation which begins."""
        return Patience(self._seconds, self._attempts, self._backoff_s, self._until)

    def call(self, action: str, call: Callable[[], _T], patience: Patience) -> _T:
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
                    if broke and patience.looks_again and self.works():
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

    @contextmanager
    def looking_for(self, cid: str, rationed: bool = True) -> Iterator[Patience]:
        """Look for content, as long as it may be looked for; what is missing is noted.

        A daemon that is too slow with it, says in words why it can't read it, or breaks off when it
        is asked for it, and works else, can't have it. Whoever serves the first block of a payload
        and no other, or names a block that is no file or more than a daemon can read, must not look
        like an outage, which stops all. An outage is not noted: what was asked for meanwhile may be
        there.

        rationed: whether it may be looked for less long than the longest.
        """
        name, began = digest_of(cid), time.monotonic()
        seconds = self.ration.length(name) + _GRACE_S if rationed else self._seconds
        patience = Patience(seconds, self._attempts, self._backoff_s, self._until)
        patience.looks_again = True
        try:
            yield patience
        except (NotFound, CorruptContent):
            self.ration.missed(name, began)
            raise
        except StoreUnavailable as failed:
            if patience.given_up:  # says nothing of the daemon, nor of the content
                raise NotFound(f"{cid} has not come, and nobody waits for it any more") from None
            if not patience.doubtful or not self.works():
                raise
            self.ration.missed(name, began)
            raise NotFound(
                f"{self.location} works, and it does not bring {cid}; nobody reachable provides "
                f"all of it as a file: {failed}"
            ) from None

    def works(self) -> bool:
        """Whether the daemon answers, and keeps content or may not be asked to."""
        try:
            self.version(Patience(_GRACE_S, 1, 0.0))
            # New bytes: what it has already a daemon need not write, so a full disk takes it.
            probe = io.BytesIO(_PROBE + secrets.token_bytes(16))
            self.add(Hashed(probe, "bytes"), Patience(_GRACE_S, 1, 0.0), pin=False)
        except Refused as refused:
            return refused.status in _NO_WRITES
        except (StoreError, *FAILURES):
            return False
        return True

    def version(self, patience: Patience) -> str:
        """The daemon's version: shows that it is reachable. Raises StoreUnavailable."""

        def ask() -> str:
            said = self._client.version(timeout=patience)["Version"]
            if not isinstance(said, str):
                raise Unreadable("its version is not text")
            return said[:_MAX_VERSION]

        return self.call("tell its version", ask, patience)

    def add(self, source: Hashed, patience: Patience, pin: bool = True) -> str:
        """Upload content; returns its CID. Raises CorruptContent where the daemon names another."""
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
        self.ration.found(digest_of(cid))
        return cid

    def pin(self, cid: str, patience: Patience) -> None:
        """Have the daemon fetch what it lacks and keep it."""
        options = {**_BASE, **search(patience)}
        reply = self._client.pin.add(cid, opts=options, timeout=patience).as_json()
        if reply["Pins"] != [cid]:
            raise Unreadable("it pinned something else than was asked for")

    def find_pin(self, cid: str, patience: Patience) -> None:
        """Raises what becomes NotFound where the CID is not pinned recursively."""
        reply = self._client.pin.ls(
            cid, type="recursive", opts=dict(_BASE), timeout=patience
        ).as_json()
        if reply["Keys"][cid]["Type"] != "recursive":
            raise Unreadable("it lists another pin than was asked for")

    def cat(self, cid: str, offset: int, length: int, patience: Patience) -> Stream:
        """Content from an offset on."""
        # What Kubo calls so bounds the whole transfer. How long nothing may come is `patience`'s.
        longest = {"timeout": f"{self._seconds - _GRACE_S:g}s"}
        options = {"offset": str(offset), "length": str(length), **longest}
        stream: Stream = self._client.cat(cid, stream=True, opts=options, timeout=patience)
        return stream

    def block(self, cid: str, patience: Patience) -> bytes:
        """A block as it comes, with retries: one byte more than a block may have, at most."""

        def read() -> bytes:
            options = search(patience)
            with self._client.block.get(cid, stream=True, opts=options, timeout=patience) as stream:
                return _at_most(stream, PROFILE.chunk_size + 1)

        return self.call(f"read block {cid}", read, patience)

    def request(
        self, path: str, args: Sequence[str], options: Mapping[str, str], patience: Patience
    ) -> Stream:
        """A call that the client's library has no method for."""
        reply: Stream = self._transport.request(path, args, timeout=patience, opts=options)
        return reply

    def do(
        self, path: str, args: Sequence[str], options: Mapping[str, str], patience: Patience
    ) -> None:
        """A call that answers nothing."""
        with self.request(path, args, options, patience) as reply:
            for _ in reply:
                pass
            reply.ended_well()


def search(patience: Patience) -> dict[str, str]:
    """The option that bounds how long the daemon looks for something."""
    return {"timeout": f"{max(0.0, patience.seconds - _GRACE_S):g}s"}


class Hashed:
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
