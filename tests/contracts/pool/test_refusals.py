# SPDX-License-Identifier: Apache-2.0
"""What RewardPool refuses, one row a call: the reason, the call, and what happens before it. Every
row begins with job 1, which has 100 ZOO in escrow, and the nodes 1, 2 and 3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts.pool import ZOO, PoolStage
from tests.stage.contracts.refusals import Act, Refusal, by, first, refused

HUGE = 2**256 - 1


def by_results(function: str, *arguments: Any, job: int = 1, round_id: int = 1) -> Act:
    """A call of settlement, by TrainingResults."""
    return by("results", f"pool.{function}", job, round_id, *arguments)


def refund(job: int) -> Act:
    return by("sponsor", "pool.refund", job)


def fund(job: int, amount: int) -> Act:
    """By the sponsor of job 1, who names whose the job is and for what."""

    def send(stage: PoolStage) -> None:
        stage.fund(job, amount, stage.jobs.sponsor_of(1))

    send.__name__ = "fund by sponsor"
    return send


def another_job(stage: PoolStage) -> None:
    stage.add_job(stage.rich("another sponsor"))


def end_job(stage: PoolStage) -> None:
    stage.end_job(1, stage.jobs.sponsor_of(1))


def forfeit_carried(stage: PoolStage) -> None:
    stage.pool.forfeit_carried(1)


def distribute(nodes: list[int], contributions: list[int], round_id: int = 1) -> Act:
    return by_results("distribute", nodes, contributions, 0, round_id=round_id)


def start(nodes: list[int], cuts: list[int]) -> Act:
    return by_results("start_distribution", [], 7, nodes, cuts)


RESERVED = by_results("reserve", 10 * ZOO)
# 9 ZOO to distribute, for a total contribution of 7.
STARTED = (RESERVED, start([1], [ZOO]))
CLOSED = by_results("close", True)

REFUSED: list[tuple[Any, ...]] = [
    ("zero amount", fund(1, 0)),
    *(("unknown job", fund(job, 1)) for job in (0, 2, HUGE)),
    ("job ended", fund(1, 1), end_job),
    ("not sponsor", refund(9)),
    ("job not ended", refund(1)),
    ("job not ended", forfeit_carried, RESERVED, CLOSED),
    ("nothing carried", forfeit_carried, end_job),
    ("already reserved", by_results("reserve", 1), RESERVED),
    ("already reserved", by_results("reserve", 1), RESERVED, CLOSED),
    ("escrow too low", by_results("reserve", 1, job=2), another_job),
    ("not reserved", start([], [])),
    ("already distributing", start([1], [1]), *STARTED),
    ("closed", start([], []), RESERVED, CLOSED),
    *(
        ("cuts too high", start([1, 2], cuts), RESERVED)
        for cuts in ([10 * ZOO, 1], [10 * ZOO + 1, 0], [1, HUGE])
    ),
    *(("length mismatch", start([1, 2], cuts), RESERVED) for cuts in ([], [1], [1, 1, 1])),
    ("not distributing", distribute([1, 2, 3], [1, 1, 1]), RESERVED),
    ("not distributing", distribute([1, 2, 3], [1, 1, 1], round_id=2), RESERVED),
    ("closed", distribute([1, 2, 3], [1, 1, 1]), *STARTED, CLOSED),
    # A node is paid once, also over several batches.
    *(("node order", distribute(nodes, [1, 1]), *STARTED) for nodes in ([1, 1], [2, 1], [3, 2])),
    # Nobody, node 0, comes first or not at all, and once.
    *(("node order", distribute(nodes, [1, 1]), *STARTED) for nodes in ([1, 0], [0, 0])),
    *(
        ("node order", distribute([0], [1]), *STARTED, distribute(nodes, [1] * len(nodes)))
        for nodes in ([0], [1], [0, 1])
    ),
    *(
        ("node order", distribute([again], [1]), *STARTED, distribute([1, 2], [1, 0]))
        for again in (1, 2)
    ),
    *(
        ("over-distributed", distribute([1, 2], contributions), *STARTED)
        for contributions in ([8, 0], [7, 1], [1, HUGE])
    ),
    *(
        ("length mismatch", distribute([1, 2], contributions), *STARTED)
        for contributions in ([], [1], [1, 1, 1])
    ),
    ("not reserved", CLOSED),
    ("closed", CLOSED, RESERVED, CLOSED),
]


@pytest.mark.parametrize(
    "refusal",
    [refused(f"pool: {reason}", call, after=first(*before)) for reason, call, *before in REFUSED],
)
def test_call__is_refused_with_its_reason(
    stage: PoolStage, job: int, nodes: list[int], refusal: Refusal
) -> None:
    assert (job, nodes) == (1, [1, 2, 3])
    refusal.check(stage)
