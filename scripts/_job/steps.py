# SPDX-License-Identifier: Apache-2.0
"""What is left to do for a job once `create_job` is mined, and what a job's spec asks for.

Rule: from then on the job exists, whatever fails. Its number has been said by then, and each step
that is left has a command of its own, so that nobody makes and pays a second job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from scripts._shared.operator import zoo


@dataclass(frozen=True)
class Step:
    """A transaction that a new job takes, and the command that sends it alone."""

    command: str
    send: Callable[[], Any]


def take(job_id: int, steps: Sequence[Step]) -> None:
    """Take the steps in order. Where one fails or is interrupted, those left are said."""
    for place, step in enumerate(steps):
        try:
            step.send()
        except BaseException:
            click.echo(left(job_id, [s.command for s in steps[place:]]), err=True)
            raise


def left(job_id: int, commands: Sequence[str]) -> str:
    """What to do for a job that is not complete."""
    listed = ", then ".join(f"`{command}`" for command in commands)
    return (
        f"Job {job_id} exists, but is not complete. Don't create it again: that would pay for "
        f"another job. What is left: {listed}. The first may have been carried out meanwhile: "
        f"`ape run job show {job_id}` tells. Or give it up with `ape run job cancel {job_id}`."
    )


def adopting(job_id: int, windows: tuple[int, int]) -> str:
    """The command that has scores pay for a job. `windows`: to commit and to reveal them."""
    commit_s, reveal_s = windows
    return f"ape run job adopt {job_id} --score-commit-s {commit_s} --score-reveal-s {reveal_s}"


def funding(job_id: int, amount: int) -> str:
    """The command that pays into a job's escrow."""
    return f"ape run job fund {job_id} {zoo(amount).removesuffix(' ZOO').replace(',', '')}"


def pays_scores(store: Any, digest: bytes) -> bool:
    """Whether validators' scores pay for the work of a job with this spec, by its `verify`.

    Raises StoreError where the spec can't be had, SpecError where it is none.
    """
    from agents.mechanisms import verify
    from agents.training.spec import MAX_SPEC_BYTES, JobSpec

    spec = JobSpec.from_bytes(store.get_digest(digest, MAX_SPEC_BYTES))
    return bool(verify.get(spec.verify).validators_score)


def refuse_unadopted(network: Any, job_id: int, store: str | None) -> None:
    """Raise click.ClickException for a job that no agent works for, since scores are to pay for its
    work and its sponsor has not adopted them. What can't be looked at is warned of.

    `store`: None where none is known.
    """
    from agents.protocol.scores import Consensus
    from agents.storage.content_store import open_store
    from agents.storage.errors import StoreError
    from agents.training.spec import SpecError

    if Consensus(network).adopted(job_id):
        return
    job = network.job(job_id)
    why = "no --store was named"
    try:
        if store is not None:
            if not pays_scores(open_store(store), job.terms.spec):
                return
            why = ""
    except (StoreError, SpecError) as error:
        why = str(error).rstrip(".")
    if why:
        click.echo(
            f"Warning: the spec was not looked at, because {why}. If scores are to pay for the "
            "job's work, its sponsor must have adopted them (`ape run job adopt`).",
            err=True,
        )
        return
    told = f"Scores are to pay for the work of job {job_id}, and its sponsor has not adopted them"
    if job.rounds_opened:
        raise click.ClickException(
            f"{told}. Its first round has opened, so it is too late for that, and no agent works "
            f"for it. `ape run job cancel {job_id}` ends it."
        )
    raise click.ClickException(
        f"{told}, so no agent would work for it. `ape run job adopt {job_id}` comes first, and "
        "only its sponsor can do it."
    )
