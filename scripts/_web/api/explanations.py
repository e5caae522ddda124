# SPDX-License-Identifier: Apache-2.0
"""Why a node was paid what it was paid: what `ape run explain --json` says, from the same code."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from agents.runtime.errors import ConfigError
from scripts._shared.explained_json import json_of
from scripts._web.api.deps import JobId, Look, NodeId, RoundId, TheSite
from scripts._web.api.explaining import Explaining
from scripts._web.index import queries
from scripts._web.index.models import Problem
from scripts._web.index.reading import NotFound

router = APIRouter(prefix="/api", responses={404: {"model": Problem}, 503: {"model": Problem}})


@router.get("/jobs/{job_id}/rounds/{round_id}/nodes/{node_id}/explanation")
def explanation(
    site: TheSite, look: Look, job_id: JobId, round_id: RoundId, node_id: NodeId
) -> dict[str, Any]:
    """What a node did in a round, what it was due for it, and where that went.

    It is a claim: each number names the transaction that proves it.
    """
    queries.round_(look, job_id, round_id)
    queries.node(look, node_id)
    with Explaining(site, look, job_id) as explainer:
        try:
            found = explainer.round(round_id)
            node = explainer.node(round_id, node_id)
        except ConfigError as error:
            raise NotFound(str(error)) from None
    told: dict[str, Any] = json_of(found)
    return told | {"job": job_id, "nodes": [json_of(node)]}
