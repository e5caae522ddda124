# SPDX-License-Identifier: Apache-2.0
"""The API's routes over the index: jobs, rounds, nodes, money, tasks, committee, events."""

from __future__ import annotations

from typing import Annotated

from eth_utils.address import to_checksum_address
from fastapi import APIRouter, Path, Query

from scripts._web.api.deps import (
    ADDRESS,
    MOST_ID,
    Account,
    Cursor,
    JobId,
    Limit,
    Look,
    NodeId,
    RoundId,
    TaskId,
    TheSite,
    Wanted,
)
from scripts._web.index import models, queries

router = APIRouter(
    prefix="/api", responses={404: {"model": models.Problem}, 503: {"model": models.Problem}}
)

Before = Annotated[int | None, Query(ge=1, le=MOST_ID, description="Only ids below this one.")]
After = Annotated[int, Query(ge=0, le=MOST_ID, description="Only ids above this one.")]


@router.get("/home")
def home(look: Look) -> models.Home:
    """The network at a glance: the newest jobs with their live rounds, and sums of all."""
    return queries.home(look)


@router.get("/network")
def network(look: Look) -> models.NetworkFacts:
    """What the committee has fixed: slashing table, bounds of terms, parameters, members."""
    return queries.facts(look)


# -- jobs and rounds ---------------------------------------------------------------------------


@router.get("/jobs")
def jobs(look: Look, before: Before = None, limit: Limit = 50) -> models.Page[models.JobSummary]:
    """Jobs, newest first."""
    return queries.jobs(look, before, limit)


@router.get("/jobs/{job_id}")
def job(look: Look, job_id: JobId) -> models.JobPage:
    """A job: its terms, its money and its newest rounds."""
    return queries.job(look, job_id)


@router.get("/jobs/{job_id}/rounds")
def rounds(
    look: Look, job_id: JobId, before: Before = None, limit: Limit = 100
) -> models.Page[models.RoundSummary]:
    """Rounds of a job, newest first."""
    return queries.rounds(look, job_id, before, limit)


@router.get("/jobs/{job_id}/rounds/{round_id}")
def round_(look: Look, job_id: JobId, round_id: RoundId) -> models.RoundPage:
    """A round: who did what in it, who accused whom, and where its money went."""
    return queries.round_(look, job_id, round_id)


# -- nodes and money ---------------------------------------------------------------------------


@router.get("/nodes")
def nodes(look: Look, after: After = 0, limit: Limit = 100) -> models.Page[models.NodeSummary]:
    """Nodes by ascending id."""
    return queries.nodes(look, after, limit)


@router.get("/nodes/{node_id}")
def node(look: Look, node_id: NodeId) -> models.NodePage:
    """A node: stake, standing, earnings, benchmarks, reports, and its part in each round."""
    return queries.node(look, node_id)


@router.get("/accounts/{account}")
def account(
    look: Look, account: Annotated[str, Path(pattern=ADDRESS, description="Its address.")]
) -> models.Account:
    """What an account has earned, what it can claim, and its nodes. Nobody is unknown: an account
    that was never paid has zeros."""
    return queries.account(look, to_checksum_address(account))


@router.get("/payments")
def payments(
    look: Look,
    job: Wanted = None,
    round: Wanted = None,
    node: Wanted = None,
    account: Account = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> models.Page[models.Payment]:
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


@router.get("/reports")
def reports(
    look: Look,
    job: Wanted = None,
    node: Wanted = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> models.Page[models.Report]:
    """Reports of violations with each verifier's voice, newest first."""
    return queries.reports(look, job_id=job, node_id=node, cursor=cursor, limit=limit)


# -- tasks and the committee -------------------------------------------------------------------


@router.get("/tasks")
def tasks(
    look: Look, before: Before = None, creator: Account = None, limit: Limit = 50
) -> models.Page[models.Task]:
    """Redundant tasks, newest first, each with its lanes."""
    address = None if creator is None else to_checksum_address(creator)
    return queries.tasks(look, before, address, limit)


@router.get("/tasks/{task_id}")
def task(look: Look, task_id: TaskId) -> models.TaskPage:
    """A redundant task with its lanes and the appeal against it."""
    return queries.task(look, task_id)


@router.get("/operations")
def operations(
    site: TheSite, look: Look, cursor: Cursor = None, limit: Limit = 50
) -> models.Page[models.Operation]:
    """Operations of the committee, newest first."""
    return queries.operations(look, site.grace_period(), cursor, limit)


# -- events ------------------------------------------------------------------------------------


@router.get("/events")
def events(
    look: Look,
    job: Wanted = None,
    round: Wanted = None,
    node: Wanted = None,
    task: Wanted = None,
    name: Annotated[str | None, Query(pattern="^[A-Za-z]{1,64}$")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> models.Page[models.Happening]:
    """Events of the contracts, newest first. `node`: about the node, or by it."""
    return queries.events(
        look,
        job_id=job,
        round_id=round,
        node_id=node,
        task_id=task,
        name=name,
        cursor=cursor,
        limit=limit,
    )
