# SPDX-License-Identifier: Apache-2.0
"""What a job's training has come to, from the reports in the store: losses and checkpoints."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Response

from scripts._web.api.deps import JobId, Look, TheSite
from scripts._web.api.finished import checkpoint_of, finished_rounds, losses
from scripts._web.index import queries
from scripts._web.index.models import At, LossPoint, Model, Problem
from scripts._web.index.reading import NotFound

router = APIRouter(prefix="/api", responses={404: {"model": Problem}, 503: {"model": Problem}})


class Losses(Model):
    """The validation loss before and after each of a job's newest finalized rounds, oldest first.

    A round whose report this server's store lacks is left out.
    """

    at: At
    losses: list[LossPoint]


class CheckpointAnswer(Model):
    """A job's newest checkpoint that the store has. `round_id`: 0 for the one of the beginning.

    `model`: the hash that its tensors must have. `size`: bytes, None where it can't be told.
    """

    at: At
    round_id: int
    cid: str
    model: str
    size: int | None


@router.get("/jobs/{job_id}/losses")
def job_losses(site: TheSite, look: Look, job_id: JobId, response: Response) -> Losses:
    """How well the model does, round by round."""
    queries.job_row(look, job_id)
    files = site.artefacts.for_a_page()
    found = losses(finished_rounds(look, files, job_id))
    _keep_if(files.whole, response)
    return Losses(at=look.at, losses=found)


@router.get("/jobs/{job_id}/checkpoint")
def checkpoint(site: TheSite, look: Look, job_id: JobId, response: Response) -> CheckpointAnswer:
    """The newest whole model to download, by `/api/store/CID`."""
    terms = queries.job(look, job_id).terms
    files = site.artefacts.for_a_page()
    found = checkpoint_of(terms, finished_rounds(look, files, job_id), files)
    _keep_if(files.whole, response)
    if found is None and not files.whole:
        raise HTTPException(503, "The store takes long to answer; try again in a moment.")
    if found is None:
        raise NotFound(f"This server's store has no checkpoint of job {job_id}.")
    return CheckpointAnswer(at=look.at, **vars(found))


def _keep_if(whole: bool, response: Response) -> None:
    """Have nobody keep an answer that leaves out what the store was too slow with."""
    if not whole:
        response.headers["cache-control"] = "no-store"
