# SPDX-License-Identifier: Apache-2.0
"""Artefacts of the store, verified before their first byte is sent.

Rule: only what the store itself keeps is served, so that this page is nobody's gateway to a network
of files. A stranger's bytes are never shown as a page: they are a download.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, HTTPException
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from agents.storage.errors import CorruptContent, InvalidCid, NotFound, TooLarge
from scripts._web.api.deps import TheSite
from scripts._web.index.models import Problem

MOST_BYTES = 4 << 30
_COPIES = threading.BoundedSemaphore(4)  # each is a file on this machine's disk while it is sent
_REFUSALS: dict[type[Exception], tuple[int, str]] = {
    NotFound: (404, "The store does not keep {cid}."),
    InvalidCid: (404, "{cid} is no CID of this network."),
    TooLarge: (413, "{cid} is larger than what this page serves; ask the store itself."),
    CorruptContent: (502, "What the store keeps as {cid} is something else."),
}
_CID = "^b[a-z2-7]{20,120}$"

router = APIRouter(prefix="/api/store")


@router.get(
    "/{cid}",
    response_class=FileResponse,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        **{status: {"model": Problem} for status in (404, 413, 502, 503)},
    },
)
def artefact(
    site: TheSite, cid: Annotated[str, PathParameter(pattern=_CID, description="Its CID.")]
) -> FileResponse:
    """An artefact's bytes. They are what the CID names, for this server has hashed them."""
    if site.store is None:
        raise HTTPException(404, "This page serves no store.")
    folder = tempfile.TemporaryDirectory(prefix="menagerie-web-")
    copied = Path(folder.name) / "artefact"
    try:
        with _turn():
            if not site.store.has(cid):
                raise NotFound
            site.store.get_file(cid, copied, MOST_BYTES)
    except tuple(_REFUSALS) as error:
        folder.cleanup()
        status, words = _REFUSALS[type(error)]
        raise HTTPException(status, words.format(cid=cid)) from None
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        copied,
        media_type="application/octet-stream",
        filename=cid,
        headers={"cache-control": "public, max-age=31536000, immutable", "etag": f'"{cid}"'},
        background=BackgroundTask(folder.cleanup),
    )


@contextmanager
def _turn() -> Iterator[None]:
    if not _COPIES.acquire(timeout=10):
        raise HTTPException(503, "Too many files are being fetched; try again in a moment.")
    try:
        yield
    finally:
        _COPIES.release()
