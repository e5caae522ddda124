# SPDX-License-Identifier: Apache-2.0
"""Jobs that would publish what a node's own data shows, without any protection.

Rule: where nodes bring their own data and the job adds no noise, a payload may give the text back
word by word. A trainer joins such a job only where its operator names it (`job_id`) or accepts it,
and never where the operator set a bound on its privacy loss: without noise that has no end.

Where the job adds noise, its tokenizer still works without: which text becomes tokens, and how
many, is the file's choice, and shows in how many examples a node says that it has, and in whether
it can work at all. So a trainer that chooses its job brings its text to no such file either, unless
its operator accepts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.runtime.config import AgentSettings

if TYPE_CHECKING:  # who only asks what jobs pay does not load torch
    from agents.jobs.job import JobContext


def shown_openly(job: JobContext, settings: AgentSettings) -> str | None:
    """Why a trainer with these settings keeps its own data out of a job; None if it does not."""
    trainer = settings.trainer
    if job.spec.access != "local":
        return None
    if job.privacy.unit != "none":
        if job.tokenizer is None or settings.job_id or trainer.accept_tokenizer:
            return None
        return (
            "its nodes bring their own data, and a tokenizer file of its sponsor's would read it: "
            "that file can ask what it likes, and no noise is on the answer; name the job by "
            "job_id, or set trainer.accept_tokenizer: true to train in such jobs all the same"
        )
    if trainer.max_epsilon is not None:
        return (
            "it has no privacy account, so what it shows of your data has no bound, and "
            f"trainer.max_epsilon is {trainer.max_epsilon:g}"
        )
    if settings.job_id or trainer.accept_no_privacy:
        return None
    return (
        "its nodes bring their own data, and it hides nothing of it; name it by job_id, or set "
        "trainer.accept_no_privacy: true to train in such jobs all the same"
    )
