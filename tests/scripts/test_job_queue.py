# SPDX-License-Identifier: Apache-2.0
"""Where a job stands among the live ones, in words."""

from __future__ import annotations

import re

import pytest

from agents.jobs.choice import BETTER, USUAL_SPEED, Offer, hourly
from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO
from scripts._shared.job_queue import expected, standing

NODES = 4


def offer(job_id: int, reward: int, refused: str | None = None) -> tuple[Offer, float]:
    made = Offer(job_id, reward * ZOO * 85 // 100, NODES, 300, refused=refused)
    return made, hourly(made, USUAL_SPEED)


FOUND = [offer(3, 300), offer(1, 200), offer(2, 100), offer(4, 90, "its terms are bad")]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (3, "first of 4 live jobs by pay"),
        (1, "queued behind job 3: an hour of job 3 pays a node"),
        (2, "queued behind job 3, 1: an hour of job 3 pays a node"),
        (4, "no trainer works on it: its terms are bad"),
        (9, "not live"),
    ],
)
def test_standing(job: int, words: str) -> None:
    assert standing(FOUND, job).startswith(words)


def test_a_new_job_that_pays_well_enough_is_first() -> None:
    terms = Terms.brief(reward_per_round=1_000 * ZOO)
    assert expected([], terms, NODES) is None
    assert expected([offer(1, 300)], terms, NODES) is None


def test_a_new_job_that_would_queue_is_told_what_makes_it_first() -> None:
    """The reward it names is enough, and a tenth less is not."""
    terms = Terms.brief(reward_per_round=200 * ZOO)
    said = expected(FOUND, terms, NODES)
    assert said is not None and said.startswith("it queues behind job 3")
    (enough,) = map(int, re.findall(r"--reward (\d+)", said))
    assert expected(FOUND, Terms.brief(reward_per_round=enough * ZOO), NODES) is None
    assert expected(FOUND, Terms.brief(reward_per_round=enough * 9 // 10 * ZOO), NODES)


def test_a_refused_job_is_nobodys_rival() -> None:
    assert expected([FOUND[3]], Terms.brief(reward_per_round=ZOO), NODES) is None
    assert BETTER > 1
