# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the page: how the index stands, and what readers ask.

Rule: one registry for each application, names start with `menagerie_web_`, units are in the names.
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scripts._web.api.site import Site

router = APIRouter()
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """A site's numbers, read when they are asked for."""

    def __init__(self, site: Site) -> None:
        self.registry = CollectorRegistry()
        standing, live = site.standing, site.live

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"menagerie_web_{name}", text, registry=self.registry)

        gauge("block", "Last block in the index").set_function(lambda: standing.block)
        gauge("head_block", "Newest block of the node").set_function(lambda: standing.head)
        gauge("behind_blocks", "Blocks yet to be read").set_function(lambda: standing.behind)
        gauge("rpc_up", "Whether the node answers").set_function(lambda: not standing.rpc_down)
        gauge("following", "Whether the index goes on").set_function(lambda: not standing.problem)
        gauge("events", "Events folded since the start").set_function(lambda: standing.events)
        gauge("reorgs", "Reorganisations since the start").set_function(lambda: standing.reorgs)
        gauge("live_readers", "Open streams of changes").set_function(lambda: live.readers)
        self.answers = Counter(
            "menagerie_web_answers", "Answers by status", ["status"], registry=self.registry
        )
        self.seconds = Histogram(
            "menagerie_web_answer_seconds",
            "Time to the head of an answer",
            buckets=_BUCKETS,
            registry=self.registry,
        )


class Counted:
    """ASGI middleware that counts answers."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answers.labels(str(message["status"])).inc()
                self._metrics.seconds.observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """The numbers in Prometheus' text format."""
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type=CONTENT_TYPE_LATEST)
