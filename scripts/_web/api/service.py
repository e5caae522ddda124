# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: the deployment, how the index stands, live changes, metrics."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import StreamingResponse

from scripts._web.api.deps import TheSite
from scripts._web.api.live import TooManyReaders
from scripts._web.index.models import Model

router = APIRouter()


class Deployed(Model):
    """A contract. `abi`: as the deployment file has it."""

    address: str
    abi: list[dict[str, Any]]


class DeploymentAnswer(Model):
    """The deployment that this page is of. `sha256`: of the file that `/api/deployment/file` is.

    `rpc_url`: a node that browsers may ask, None where only wallets have one.
    """

    chain_id: int
    block: int
    sha256: str
    rpc_url: str | None
    contracts: dict[str, Deployed]


class Status(Model):
    """How the index stands. `problem`: a sentence while it can't go on."""

    rpc: Literal["ok", "down"]
    indexer: Literal["ok", "behind", "down"]
    block: int
    head: int
    behind: int
    problem: str | None
    readers: int


@router.get("/api/deployment")
def deployment(site: TheSite) -> DeploymentAnswer:
    """Addresses and ABIs, and the digest by which they can be checked."""
    contracts = site.deployment.contracts
    return DeploymentAnswer(
        chain_id=site.deployment.chain_id,
        block=site.deployment.block,
        sha256=site.identity,
        rpc_url=site.rpc_url,
        contracts={
            name: Deployed(address=contract.address, abi=[dict(item) for item in contract.abi])
            for name, contract in contracts.items()
        },
    )


@router.get("/api/deployment/file", response_class=Response)
def deployment_file(site: TheSite) -> Response:
    """The deployment file itself, byte for byte."""
    return Response(site.raw, media_type="application/json")


@router.get("/api/status")
def status(site: TheSite) -> Status:
    """Whether the chain's node answers and how far the index is."""
    standing = site.standing
    indexer = "ok" if standing.behind <= 2 else "behind"
    return Status(
        rpc="down" if standing.rpc_down else "ok",
        indexer="down" if standing.problem and not standing.rpc_down else indexer,
        block=standing.block,
        head=standing.head,
        behind=standing.behind,
        problem=standing.problem or None,
        readers=site.live.readers,
    )


@router.get("/health")
def health(site: TheSite, response: Response) -> Status:
    """The same, with status 503 while the index can't follow the chain."""
    found = status(site)
    if found.problem is not None:
        response.status_code = 503
    return found


@router.get("/api/live", response_class=StreamingResponse)
async def live(site: TheSite) -> StreamingResponse:
    """Server-sent events, one for each step of the index: `{block, hash, time, jobs, nodes,
    reorg}`. `reorg`: anything may have changed."""
    try:
        messages = site.live.listen()
    except TooManyReaders:
        raise HTTPException(503, "Too many pages listen already; ask again later.") from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)
