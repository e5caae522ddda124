# SPDX-License-Identifier: Apache-2.0
"""Compresses answers of text with gzip, once each; what readers fetch from `/static` too.

Rule: nothing is compressed for one reader. No answer holds a secret beside what the reader sent, so
that the length of a compressed one gives nothing away.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_LEAST = 512  # bytes; below that the headers weigh as much
_TEXT = (b"text/", b"application/json", b"image/svg+xml")
_LEVEL = 6


def pack(body: bytes) -> bytes:
    """Return the body compressed, empty where that gains nothing."""
    packed = gzip.compress(body, _LEVEL, mtime=0)
    return packed if len(packed) < len(body) else b""


def may_pack(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
    """Whether an answer is text, and long enough."""
    kind = next((v for k, v in headers if k == b"content-type"), b"")
    return len(body) >= _LEAST and kind.startswith(_TEXT)


def accepts_packed(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a reader takes gzip."""
    said = next((v for k, v in headers if k == b"accept-encoding"), b"").lower()
    for part in said.split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


class PackedFiles(StaticFiles):
    """The files of a folder, of which each is compressed once while it stays as it is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory)
        self._packed: dict[str, tuple[tuple[int, int], bytes]] = {}
        self._lock = Lock()

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Return a file, compressed for whoever takes it."""
        plain = super().file_response(full_path, stat_result, scope, status_code)
        plain.headers["vary"] = "accept-encoding"
        ranged = "range" in Headers(scope=scope)
        if ranged or plain.status_code != 200 or not accepts_packed(scope["headers"]):
            return plain
        packed = self._pack(Path(full_path), stat_result, plain)
        if not packed:
            return plain
        headers = {k: v for k, v in plain.headers.items() if k not in _REPLACED}
        headers |= {"content-encoding": "gzip", "etag": f"W/{plain.headers['etag']}"}
        return Response(packed, headers=headers, media_type=plain.headers["content-type"])

    def _pack(self, path: Path, stat: os.stat_result, plain: Response) -> bytes:
        version = stat.st_mtime_ns, stat.st_size
        with self._lock:
            found = self._packed.get(str(path))
            if found is None or found[0] != version:
                body = path.read_bytes()
                found = version, pack(body) if may_pack(plain.raw_headers, body) else b""
                self._packed[str(path)] = found
            return found[1]


_REPLACED = ("content-length", "content-type", "accept-ranges", "etag")
