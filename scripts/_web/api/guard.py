# SPDX-License-Identifier: Apache-2.0
"""What every answer carries and no request may exceed.

Rule: a page may load from its own server alone, and ask that server and the chain's node that it
names. No page may frame it. It answers to names that it was given, and to addresses of machines:
a stranger's name may have been pointed here, so that the stranger's script may read the answers.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_QUERY = 2_048
MOST_PATH = 1_024
MOST_BODY = 16 << 10


def policy(rpc_url: str | None) -> str:
    """The Content-Security-Policy of every page. `rpc_url`: which node a browser may ask."""
    connect = "'self'"
    if rpc_url is not None:
        parts = urlsplit(rpc_url)
        connect += f" {parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        f"object-src 'none'; img-src 'self' data:; connect-src {connect}"
    )


_OTHER_NAME = b"This page is not served under that name. Whoever runs it may add it with --name."


class Guard:
    """ASGI middleware: bounds requests, and adds the headers of security."""

    def __init__(
        self, app: ASGIApp, rpc_url: str | None = None, names: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._names = {name.lower() for name in (*names, "localhost")}
        self._headers = [
            (b"content-security-policy", policy(rpc_url).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        body = _Body(receive)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Who sends more than is read would go on for ever.
                end = [(b"connection", b"close")] if body.too_long else []
                headers = [*message["headers"], *self._headers, *end]
                message = {**message, "headers": headers}
            await send(message)

        if len(scope["query_string"]) > MOST_QUERY or len(scope["raw_path"]) > MOST_PATH:
            await _refuse(marked, 414, b"The address is too long.")
            return
        host = next((v for k, v in scope["headers"] if k == b"host"), b"")
        if host and not self._answers_to(host.decode("latin-1")):
            await _refuse(marked, 421, _OTHER_NAME)
            return
        length = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        if not length.isdigit() or len(length) > 20 or int(length) > MOST_BODY:
            await _refuse(marked, 413, b"The request is too large.")
            return
        await self._app(scope, body.receive, marked)

    def _answers_to(self, host: str) -> bool:
        with suppress(ValueError):
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
            if name in self._names:
                return True
            ip_address(name.partition("%")[0])
            return True
        return False


class _Body:
    """A request's body. One without a length ends where the bound is, as if the client had gone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._seen = 0

    @property
    def too_long(self) -> bool:
        """Whether more has come than is read."""
        return self._seen > MOST_BODY

    async def receive(self) -> Message:
        """The next part."""
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.too_long else message


async def _refuse(send: Send, status: int, why: bytes) -> None:
    body = b'{"detail":"' + why + b'"}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
