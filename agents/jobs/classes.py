# SPDX-License-Identifier: Apache-2.0
"""Determinism classes that a job lists, and who may work on it then.

Rule: a job without a list takes every class. In a job with one, work whose proof of computation
states a class outside of it is no valid work, whatever its numbers are; a trainer that computes in
none of the listed classes leaves the job. So a false class can't buy the tolerances of the spec:
who states a listed one is compared to the bit by the verifiers of that class.
"""

from __future__ import annotations

from agents.jobs.job import JobContext
from agents.training.determinism import determinism_class
from agents.training.spec import JobSpec


def unlisted(spec: JobSpec, stated: str) -> str:
    """Why work of the class `stated` is not valid, as a sentence; empty if it is."""
    if not spec.classes or stated in spec.classes:
        return ""
    return f"its proof states the determinism class {stated!r}, which the job does not list"


def own_class(job: JobContext, device: str, compiled: bool) -> str:
    """The class that this process would state for work on a job.

    `compiled`: whether it compiles models; stages of a split one are never compiled.
    """
    return determinism_class(device, compiled and job.slices is None)


def barred(job: JobContext, device: str, compiled: bool) -> str | None:
    """Why this process does not train in a job, as a sentence without its subject; None if it may.

    Arguments as of `own_class`.
    """
    if not job.spec.classes:
        return None
    own = own_class(job, device, compiled)
    if own in job.spec.classes:
        return None
    listed = " and ".join(f"{text!r}" for text in job.spec.classes)
    return f"it takes work of the determinism classes {listed} only, and this node's is {own!r}"
