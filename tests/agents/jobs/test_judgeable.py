# SPDX-License-Identifier: Apache-2.0
"""Nobody works on a job, or creates one, whose results can't be recomputed while disputed; each
change that the refusal names makes the job a good one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from agents.jobs import judgeable
from agents.jobs.job import DataLocked, JobContext
from agents.jobs.judgeable import unjudgeable
from agents.jobs.publish import Terms
from agents.jobs.workload import recomputing
from agents.training.spec import JobSpec
from tests.stage.memory.honest_round import HonestRound

TERMS = Terms(max_nodes=64)


def context(tiny: HonestRound, **changes: Any) -> JobContext:
    fields = {**tiny.job.spec.model_dump(mode="json"), "eval_batches": 3, **changes}
    return JobContext(JobSpec.from_dict(fields), tiny.store)


@pytest.fixture
def slow(tiny: HonestRound, monkeypatch: pytest.MonkeyPatch) -> JobContext:
    """A job of score alignment that takes 10 % more than it may, at the speed of a machine."""
    job = context(tiny, score="alignment")
    most_s = TERMS.dispute_s / 2
    monkeypatch.setattr(judgeable, "USUAL_SPEED", recomputing(job, 64) / (1.1 * most_s))
    return job


def test_a_job_that_is_judged_in_time_is_fine(tiny: HonestRound) -> None:
    assert unjudgeable(tiny.job, TERMS) is None


def test_a_refusal_says_what_it_takes(slow: JobContext) -> None:
    why = unjudgeable(slow, TERMS)
    assert why is not None and why.startswith(
        "a result with max_nodes 64 takes a committee member of usual speed 39.6 hours to "
        "recompute, and half of its dispute window is 36: a wrong one may stand. What helps: "
    )


def test_each_change_that_it_names_helps_and_none_is_larger_than_needed(
    tiny: HonestRound, slow: JobContext
) -> None:
    why = unjudgeable(slow, TERMS) or ""
    named = {key: int(value) for key, value in re.findall(r"(\w+) (?:of )?(\d+)", why)}
    window, batches = named["window"], named["eval_batches"]
    seats = int(re.findall(r"max_nodes (\d+)", why)[-1])
    assert unjudgeable(slow, replace(TERMS, dispute_s=window)) is None
    assert unjudgeable(slow, replace(TERMS, dispute_s=window - 1)) is not None
    assert unjudgeable(slow, replace(TERMS, max_nodes=seats)) is None
    assert unjudgeable(slow, replace(TERMS, max_nodes=seats + 1)) is not None
    less = context(tiny, score="alignment", eval_batches=batches)
    assert batches == 2 and unjudgeable(less, TERMS) is None
    assert '"shares"' in why and unjudgeable(context(tiny, score="shares"), TERMS) is None


def test_where_seats_change_nothing_none_are_named(
    tiny: HonestRound, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = context(tiny, score="shares")
    monkeypatch.setattr(judgeable, "USUAL_SPEED", recomputing(job, 64) / TERMS.dispute_s)
    why = unjudgeable(job, TERMS)
    assert why is not None
    assert why.endswith(f"What helps: a dispute window of {2 * TERMS.dispute_s} s; eval_batches 1")


def test_without_the_key_of_its_data_nobody_can_tell(
    slow: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: Any) -> float:
        raise DataLocked("no key")

    monkeypatch.setattr(judgeable, "recomputing", locked)
    assert unjudgeable(slow, TERMS) is None
