# SPDX-License-Identifier: Apache-2.0
"""What may be told of a URL: scheme, host and port.

User, password, path and query of an RPC, WebSocket or store URL may be keys. `place` is what
messages show; `hide` keeps the rest out of every log, metric and error of this process.
"""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from agents.runtime import logs

_LEAST_KEY = 8  # shorter parts of a path, such as v3 or rpc, are ordinary words


def place(url: str) -> str:
    """Scheme, host and port of a URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return logs.HIDDEN
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def hide(url: str) -> str:
    """Never tell the other parts of the URL again; returns its `place`."""
    scheme, found, _ = url.partition("://")
    if not found or scheme not in ("http", "https", "ws", "wss"):
        return url  # a folder or a multiaddr: it holds no secrets
    authority, _, rest = url[len(scheme) + 3 :].partition("/")
    login = authority.rpartition("@")[0]
    secrets = [login, *login.split(":", 1)]
    path, _, query = rest.partition("?")
    secrets += [part for part in path.split("/") if len(part) >= _LEAST_KEY]
    secrets += [query, *(pair.partition("=")[2] for pair in query.split("&"))]
    secrets += [unquote(secret) for secret in secrets]
    secrets.append(base64.b64encode(unquote(login).encode()).decode())
    for secret in secrets:
        logs.redact(secret)
    return place(url)
