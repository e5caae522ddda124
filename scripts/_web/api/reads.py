# SPDX-License-Identifier: Apache-2.0
"""The API's routes over the index: jobs, rounds, nodes, payments, events."""

from __future__ import annotations

from eth_utils.address import to_checksum_address
from fastapi import APIRouter

from scripts._web.api.deps import Account, Cursor, JobId, Limit, Look, NodeId, RoundId, Wanted
from scripts._web.index import queries
from scripts._web.index.models import (
    Happening,
    Home,
    JobPage,
    NodePage,
    NodeSummary,
    Page,
    Payment,
    Problem,
    RoundPage,
)

router = APIRouter(prefix="/api", responses={404: {"model": Problem}, 503: {"model": Problem}})


@router.get("/home")
def home(look: Look) -> Home:
    """The network at a glance: every job with its live round, and network-wide numbers."""
    return queries.home(look)


@router.get("/jobs/{job_id}")
def job(look: Look, job_id: JobId) -> JobPage:
    """A job: its terms, its money and its newest rounds."""
    return queries.job(look, job_id)


@router.get("/jobs/{job_id}/rounds/{round_id}")
def round_(look: Look, job_id: JobId, round_id: RoundId) -> RoundPage:
    """A round: who did what in it, and where its money went."""
    return queries.round_(look, job_id, round_id)


@router.get("/nodes")
def nodes(look: Look, cursor: Cursor = None, limit: Limit = 100) -> Page[NodeSummary]:
    """Nodes by ascending id."""
    return queries.nodes(look, cursor=cursor, limit=limit)


@router.get("/nodes/{node_id}")
def node(look: Look, node_id: NodeId) -> NodePage:
    """A node: stake, standing, earnings, and its part in each round."""
    return queries.node(look, node_id)


@router.get("/payments")
def payments(
    look: Look,
    job: Wanted = None,
    round: Wanted = None,
    node: Wanted = None,
    account: Account = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[Payment]:
    """Movements of the reward pool's money, newest first."""
    return queries.payments(
        look,
        job_id=job,
        round_id=round,
        node_id=node,
        account=None if account is None else to_checksum_address(account),
        cursor=cursor,
        limit=limit,
    )


@router.get("/events")
def events(
    look: Look,
    job: Wanted = None,
    round: Wanted = None,
    node: Wanted = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[Happening]:
    """Events of the contracts, newest first."""
    return queries.events(
        look, job_id=job, round_id=round, node_id=node, cursor=cursor, limit=limit
    )
