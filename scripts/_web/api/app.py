# SPDX-License-Identifier: Apache-2.0
"""The application: routes of the API, whatever pages are given, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from scripts._web.api import reads, service
from scripts._web.api.cache import BlockCache
from scripts._web.api.guard import Guard
from scripts._web.api.site import Site
from scripts._web.index.queries import BadCursor
from scripts._web.index.reading import NotFound, NotReady

_ABOUT = "Reads of one Menagerie network. Amounts are text, in units of 1e-18 ZOO."


def create_app(site: Site, pages: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the application that serves a site. `pages`: the routes of its HTML."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        site.live.bind(asyncio.get_running_loop())
        yield
        site.live.close()

    app = FastAPI(
        title="Menagerie",
        version="1",
        description=_ABOUT,
        openapi_url="/api",
        docs_url=None,
        redoc_url=None,
        lifespan=living,
    )
    app.state.site = site
    for router in (reads.router, service.router, *pages):
        app.include_router(router)
    app.add_exception_handler(NotFound, _not_found)
    app.add_exception_handler(NotReady, _not_ready)

    def version() -> Hashable:
        newest = site.live.newest
        return (newest.hash if newest else site.standing.block, site.standing.problem)

    app.add_middleware(BlockCache, version=version)
    app.add_middleware(Guard, rpc_url=site.rpc_url)
    return app


def _not_found(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422 if isinstance(error, BadCursor) else 404)


def _not_ready(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 503, {"retry-after": "2"})
