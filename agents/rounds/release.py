# SPDX-License-Identifier: Apache-2.0
"""The noised update of a round (`privacy: aggregate`): drawn once, and checked without the noise.

The aggregator is trusted for privacy, and for its noise being noise. That is its own secret, kept
on disk before anything is published, so that a restart doesn't draw again (two draws around one
update tell more than one). Everyone who can read the payloads recomputes the merge, and tests that
what was published differs from it by as much as the noise has, and not along the merge. Where else
the difference points nobody tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agents.jobs.job import JobContext
from agents.jobs.model_files import Reader
from agents.mechanisms.privacy.aggregate import Aggregate
from agents.mechanisms.privacy.gaussian import clip_total
from agents.mechanisms.privacy.parts.residual import consistent
from agents.storage.durable import write_atomic
from agents.storage.errors import StoreError, StoreUnavailable
from agents.training.state import PayloadError, State, file_bound, load_state, save_state
from agents.training.update import read_update

_ROUNDS_KEPT = 3

# (merged update, number of payloads in it) -> (what is published, what is wrong with it or "").
Release = Callable[[State, int], tuple[State, str]]


def plain(merged: State, count: int) -> tuple[State, str]:
    """The release of a job without aggregate noise: the merged update itself."""
    return merged, ""


def draw(job: JobContext, folder: Path | None, name: str) -> Release:
    """A release with this node's own noise. `name`: of this very result, as
    "noised-JOB-ROUND-HASH"; a file keeps it.

    Without a folder the noise is drawn anew each time: for those who never publish it.
    """
    privacy = job.privacy
    if not isinstance(privacy, Aggregate):
        return plain

    def release(merged: State, count: int) -> tuple[State, str]:
        path = None if folder is None else folder / f"{name}.update"
        if path is not None and path.exists():
            return load_state(path.read_bytes(), job.shapes), ""
        noised = privacy.release_merged(merged, job.spec.merge, count)
        if path is not None:
            write_atomic(path, save_state(noised))
            _forget(path)
        return noised, ""

    return release


def _forget(latest: Path) -> None:
    """Remove noise of this job's earlier rounds, which nobody publishes any more."""
    kind, job, number, _ = latest.stem.split("-")
    for path in latest.parent.glob(f"{kind}-{job}-*-*.update"):
        if int(path.stem.split("-")[2]) <= int(number) - _ROUNDS_KEPT:
            path.unlink(missing_ok=True)


def published(job: JobContext, store: Reader, update: str) -> Release:
    """A release that somebody else published under the CID `update`, tested.

    Where it can't be read, zeros stand for it: the merge without noise must not go on from here.
    """
    privacy = job.privacy
    if not isinstance(privacy, Aggregate):
        return plain

    def release(merged: State, count: int) -> tuple[State, str]:
        try:
            theirs = read_update(store.get(update, file_bound(job.shapes)), job.shapes)
        except StoreUnavailable:
            raise
        except (StoreError, PayloadError) as error:
            nothing = {name: torch.zeros_like(tensor) for name, tensor in merged.items()}
            return nothing, f"the noised update can't be used: {error}"
        verdict = consistent(
            _flat(theirs),
            _flat(clip_total(merged, privacy.clip)),
            privacy.sigma(job.spec.merge, count),
        )
        return (
            theirs,
            "" if verdict.passed else f"the update is not merge and noise: {verdict.reason}",
        )

    return release


def _flat(state: State) -> NDArray[np.float64]:
    return torch.cat([state[name].reshape(-1).double() for name in sorted(state)]).numpy()
