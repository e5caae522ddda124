# SPDX-License-Identifier: Apache-2.0
"""Artefacts of the store, verified before their first byte is sent.

Rule: only what the store itself keeps is served, so that this page is nobody's gateway to a network
of files. A stranger's bytes are never shown as a page: they are a download.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from agents.storage.errors import CorruptContent, InvalidCid, NotFound, TooLarge
from scripts._web.api.copies import Busy, Copies
from scripts._web.index.models import Problem

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
    request: Request, cid: Annotated[str, PathParameter(pattern=_CID, description="Its CID.")]
) -> FileResponse:
    """An artefact's bytes. They are what the CID names, for this server has hashed them."""
    copies: Copies | None = request.app.state.copies
    if copies is None:
        raise HTTPException(404, "This page serves no store.")
    try:
        return _Lent(copies, cid)
    except Busy:
        words = "Too many files are being sent; try again in a moment."
        raise HTTPException(503, words) from None
    except tuple(_REFUSALS) as error:
        status, words = _REFUSALS[type(error)]
        raise HTTPException(status, words.format(cid=cid)) from None


class _Lent(FileResponse):
    """A copy that is sent, and given back however that ends."""

    def __init__(self, copies: Copies, cid: str) -> None:
        self._copies, self._cid = copies, cid
        super().__init__(
            copies.lend(cid),
            media_type="application/octet-stream",
            filename=cid,
            headers={"cache-control": "public, max-age=31536000, immutable", "etag": f'"{cid}"'},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._copies.give_back(self._cid)
