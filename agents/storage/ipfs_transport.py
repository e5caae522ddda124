# SPDX-License-Identifier: Apache-2.0
"""Carries the calls of ipfshttpclient to a server that may lie, and bounds what it can cost.

It stands in for the library's own HTTP client. Replies are taken as they are sent (no encoding),
no redirect is followed, a JSON reply is one shallow object of bounded size, and a connection is cut
when the time of the operation is over, whatever the server is doing then.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import urllib3
from ipfshttpclient.exceptions import ErrorResponse
from ipfshttpclient.http_common import multiaddr_to_url_data
from urllib3.connection import HTTPConnection, HTTPSConnection

from agents.storage.ipfs_errors import Late, Refused, Unreadable
from agents.storage.nesting import parse_json
from agents.storage.patience import Patience

MAX_JSON: Final = 64 << 10
_FLOWING_S: Final = 0.05  # a reply whose last piece came sooner fills all the room there is
_CONNECT_S: Final = 5.0
_CONNECTIONS: Final = 16  # kept open for later calls; more threads may call at a time
_CUT_AGAIN_S: Final = 0.1
_COUNT: Final = re.compile("[0-9]{1,18}")

_TRAILERS: Final = 16
_BROKE: Final = b"x-stream-error:"  # the trailer in which a daemon tells what it failed by

_calling = threading.local()  # .watch: that of this thread's call


class _Reply(HTTPResponse):
    """A reply of which one trailer is kept."""

    broke = ""
    """What went wrong after the head of the reply was sent, in the daemon's words."""

    def _read_and_discard_trailer(self) -> None:  # the library's, which keeps none
        for _ in range(_TRAILERS):
            line = self.fp.readline(MAX_JSON)
            if line.lower().startswith(_BROKE):
                self.broke = line[len(_BROKE) :].decode("utf-8", "replace").strip()
            if line in (b"\r\n", b"\n", b""):
                return
        raise Unreadable("its trailers have no end")


class _Plain(HTTPConnection):
    response_class = _Reply

    def request(self, *args: Any, **options: Any) -> None:
        watch = _calling.watch
        watch.connection = self
        super().request(*args, **options)
        watch.sock = self.sock


class _Secure(HTTPSConnection):
    response_class = _Reply

    def request(self, *args: Any, **options: Any) -> None:
        watch = _calling.watch
        watch.connection = self
        super().request(*args, **options)
        watch.sock = self.sock


class Transport:
    """One server. What `ipfshttpclient.Client` calls of its HTTP client, and no more.

    address, base, auth: as in `ipfshttpclient.Client`. The `timeout` of a call is its `Patience`.
    """

    def __init__(self, address: str, base: str, auth: tuple[str, str] | None) -> None:
        parts = urlsplit(multiaddr_to_url_data(address, base)[0])
        self.workarounds: set[str] = set()
        self._path = parts.path
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "menagerie"}
        if auth is not None:
            self._headers.update(urllib3.make_headers(basic_auth=":".join(auth)))
        secure = parts.scheme == "https"
        kind = urllib3.HTTPSConnectionPool if secure else urllib3.HTTPConnectionPool
        self._pool = kind(parts.hostname or "", parts.port, maxsize=_CONNECTIONS)
        self._pool.ConnectionCls = _Secure if secure else _Plain

    def close_session(self) -> None:
        """Close the connections."""
        self._pool.close()

    def request(
        self,
        path: str,
        args: Sequence[str] = (),
        *,
        timeout: Patience,
        opts: Mapping[str, Any] | None = None,
        decoder: str = "none",
        stream: bool = False,
        data: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a call; return a `Stream` of bytes, or for the decoder `json` a list of one object.

        Raises Late, Refused, Unreadable, ErrorResponse with the daemon's own words, or what urllib3
        raises on a broken connection.
        """
        query = urlencode([*(opts or {}).items(), *(("arg", arg) for arg in args)])
        reply = Stream(self._pool, f"{self._path}{path.strip('/')}?{query}", timeout)
        with reply.cleaned_up():
            reply.open({**self._headers, **(headers or {})}, data)
            if decoder == "none":
                return reply
        with reply:
            return [reply.read_object()]


class Stream:
    """The body of one reply, piece by piece. Leaving it before its end closes the connection."""

    def __init__(self, pool: urllib3.HTTPConnectionPool, url: str, patience: Patience) -> None:
        self._pool = pool
        self._url = url
        self._patience = patience
        self._watch = _Watch(patience)
        self._response: urllib3.BaseHTTPResponse | None = None
        self._flowing = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def cleaned_up(self) -> Iterator[None]:
        """Close it if the inside raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def open(self, headers: Mapping[str, str], data: Iterable[bytes] | None) -> None:
        """Send the request and read the head of the reply; raises unless that promises a body."""
        with self._in_time():
            _calling.watch = self._watch
            left = max(self._patience.left(), 1e-3)
            self._response = self._pool.urlopen(
                "POST",
                self._url,
                body=None if data is None else self._counted(data),
                headers=headers,
                chunked=data is not None,
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(connect=min(_CONNECT_S, left), read=left),
                preload_content=False,
                decode_content=False,
            )
        encoding = self._response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise Unreadable(f"it is sent as {encoding[:20]!r}, which was not asked for")
        if self._response.status == 500:
            with suppress(Unreadable):
                self.read_object()
        if self._response.status != 200:
            raise Refused(self._response.status)

    @property
    def promised(self) -> int:
        """How many bytes the head of the reply says that it has, 0 if it does not say."""
        if self._response is None:
            return 0
        heads = self._response.headers
        said = heads.get("X-Content-Length", heads.get("Content-Length", ""))  # Kubo sends chunks
        return int(said) if _COUNT.fullmatch(said) else 0

    def read_object(self) -> dict[str, Any]:
        """The whole body as a JSON object. Raises Unreadable; ErrorResponse if it is an error, or
        the daemon failed after it."""
        body = bytearray()
        for piece in self:
            body += piece
            if len(body) > MAX_JSON:
                raise Unreadable(f"it has more than {MAX_JSON} bytes of JSON")
        self.ended_well()
        try:
            value = parse_json(bytes(body))
        except ValueError as error:
            raise Unreadable(f"it is not JSON of ours: {str(error)[:100]}") from None
        if not isinstance(value, dict):
            raise Unreadable("it is not a JSON object")
        if value.get("Type") == "error" or self._response is None or self._response.status != 200:
            if not isinstance(value.get("Message"), str):
                raise Unreadable("it is an error without a message")
            raise ErrorResponse(value["Message"], None)
        return value

    def ended_well(self) -> None:
        """Raise ErrorResponse if the daemon failed after what it sent, which was read to its end.
        Only a trailer tells: what was added may be neither complete nor pinned."""
        if self._response is None:
            return
        reply = self._response._original_response  # type: ignore[attr-defined]
        assert isinstance(reply, _Reply)
        if reply.broke:
            raise ErrorResponse(reply.broke, None)

    def __iter__(self) -> Iterator[bytes]:
        room = memoryview(bytearray(MAX_JSON))
        while count := self.read_into(room):
            yield bytes(room[:count])

    def read_into(self, room: memoryview) -> int:
        """Put the next bytes into `room`; returns their number, 0 at the end.

        They are given as soon as there are any, because the time that they buy may be needed. But a
        daemon sends 32 KiB at a time, and a piece costs more here than its bytes do. As long as
        they come fast, `room` is filled, as far as the time left lasts at the least rate.
        """
        if self._response is None:
            return 0
        room = room[: max(1, self._patience.reach())]
        began = time.monotonic()
        with self._in_time():
            # urllib3's own readinto() makes bytes first and copies them.
            body: HTTPResponse = self._response._original_response  # type: ignore[attr-defined]
            if self._flowing:
                count = body.readinto(room)
            else:
                piece = body.read1(len(room))
                count = len(piece)
                room[:count] = piece
        self._flowing = time.monotonic() - began < _FLOWING_S
        self._patience.received(count)
        return count

    def close(self) -> None:
        """Return the connection to the pool; close it if the body was not read to its end."""
        self._watch.end()
        if self._response is not None:
            if not self._response.closed:
                self._response.close()
            self._response.release_conn()
            self._response = None

    def _counted(self, data: Iterable[bytes]) -> Iterator[bytes]:
        for piece in data:
            yield piece
            self._patience.sent(len(piece))

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Say Late for whatever comes of a connection that was cut."""
        try:
            yield
        except (urllib3.exceptions.HTTPError, HTTPException, OSError, ValueError, AttributeError):
            if self._patience.left() <= 0:
                raise Late from None
            raise
        if self._patience.left() <= 0:
            raise Late


class _Watch:
    """Cuts a connection when the patience is over.

    A thread does it, because no timeout of a socket bounds the sum of many short waits.
    """

    def __init__(self, patience: Patience) -> None:
        self.connection: HTTPConnection | None = None
        self.sock: socket.socket | None = None  # the connection lets go of it before a last reply
        self._patience = patience
        self._over = threading.Event()
        threading.Thread(target=self._run, name="ipfs-deadline", daemon=True).start()

    def end(self) -> None:
        """The call is done."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._patience.left() or _CUT_AGAIN_S):
            sock = self.sock or getattr(self.connection, "sock", None)
            if self._patience.left() <= 0 and sock is not None:
                with suppress(OSError):  # the plain shutdown: TLS would change what a reader uses
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
