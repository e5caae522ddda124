# SPDX-License-Identifier: Apache-2.0
"""The application: routes of the API, whatever pages are given, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response

from scripts._web.api import explanations, metrics, reads, service, store, training, writing
from scripts._web.api.cache import BlockCache, Version
from scripts._web.api.copies import Copies
from scripts._web.api.guard import Guard
from scripts._web.api.packing import PackedFiles
from scripts._web.api.problems import answer_problems
from scripts._web.api.site import Site
from scripts._web.index.models import Problem

_ABOUT = "Reads of one Menagerie network. Amounts are text, in units of 1e-18 ZOO."


@dataclass(frozen=True)
class Pages:
    """The HTML of the site. `static`: the folder behind `/static`.

    `problem`: what is shown for an error, from the request, its status and a sentence.
    """

    router: APIRouter
    static: Path
    problem: Callable[[Request, int, str], Response]


def create_app(site: Site, pages: Pages | None = None) -> FastAPI:
    """Return the application that serves a site; without `pages` the API alone."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        site.live.bind(asyncio.get_running_loop())
        yield
        site.live.close()
        app.state.writer.close()
        if app.state.copies is not None:
            app.state.copies.close()

    app = FastAPI(
        title="Menagerie",
        version="1",
        description=_ABOUT,
        openapi_url="/api",
        docs_url=None,
        redoc_url=None,
        lifespan=living,
        responses={status: {"model": Problem} for status in (413, 414, 421, 422, 503)},
    )
    app.state.site = site
    app.state.writer = writing.Writer()
    app.state.copies = None if site.store is None else Copies(site.store)
    app.state.metrics = metrics.Metrics(site)
    app.include_router(reads.router)
    app.include_router(explanations.router)
    app.include_router(service.router)
    app.include_router(training.router)
    app.include_router(store.router)
    app.include_router(writing.router)
    app.include_router(metrics.router)
    if pages is not None:
        app.include_router(pages.router)
        app.mount("/static", PackedFiles(pages.static))
    answer_problems(app, None if pages is None else pages.problem)

    def version() -> Version:
        newest, standing = site.live.newest, site.standing
        block, hash_ = (newest.block, newest.hash) if newest else (standing.block, "")
        return Version(block, hash_, standing.reorgs, standing.problem)

    app.add_middleware(BlockCache, version=version)
    app.add_middleware(Guard, rpc_url=site.rpc_url, names=site.names)
    app.add_middleware(metrics.Counted, metrics=app.state.metrics)
    return app
