# SPDX-License-Identifier: Apache-2.0
"""The merged updates of a job's last rounds, from the chain's ledger and the store.

Rule: what counts as public before a round is the same for everybody who scores it, then and later.
So the updates are found from the model that the round starts from, not from the newest entry.
"""

from __future__ import annotations

from itertools import islice

from agents.rounds.models import Models
from agents.storage.errors import CorruptContent
from agents.training.state import State, file_bound
from agents.training.update import read_update


def merged_updates(models: Models, job_id: int, model_hash: bytes, count: int) -> list[State]:
    """Merged pseudo-gradients of the `count` newest rounds that led to a model, newest first.

    Rounds that changed nothing are left out. At the start of the job there are fewer.

    Args:
        model_hash: of the genesis model or one that the ledger records, 32 bytes.

    Raises:
        StoreError: an artefact can't be had; CorruptContent also if the ledger has no such model.
        PayloadError: an update is malformed.
        ReportError: a report is malformed.
        ValueError: the model is split; its updates are not whole files.
    """
    job = models.job(job_id)
    if job.slices is not None:
        raise ValueError("the updates of a model that is split can't be read as one")
    reached = models.genesis(job_id)
    reports: list[bytes] = []
    for entry in models.ledger(job_id):
        if reached == model_hash:
            break
        if entry.new_model != entry.prev_model:
            reports.append(entry.report)
        reached = entry.new_model
    if reached != model_hash:
        raise CorruptContent(f"job {job_id} has no model {model_hash.hex()} in its ledger")
    bound = file_bound(job.shapes)
    return [
        read_update(models.large.get(models.report(digest).update, bound), job.shapes)
        for digest in reports[::-1][:count]
    ]


def earlier_model(models: Models, job_id: int, step: int) -> State | None:
    """The model one finalized round before that of the round with this step; None in the first.

    Raises as `Models.at`.
    """
    if step == 0:
        return None
    entry = next(islice(models.ledger(job_id), step - 1, None))
    return models.at(job_id, entry.prev_model)


def known_updates(models: Models, job_id: int, model_hash: bytes) -> list[State]:
    """As many of them as the job's score reads; none for one that reads none."""
    count = models.job(job_id).score.needs_updates
    return merged_updates(models, job_id, model_hash, count) if count else []
