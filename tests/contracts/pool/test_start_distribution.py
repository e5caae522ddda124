# SPDX-License-Identifier: Apache-2.0
"""`start_distribution` pays the fixed cuts and fixes what the trainers share, once."""

from __future__ import annotations

from typing import Any

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO


def test_start_distribution__cuts__are_credited_to_payouts(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int], payouts: list[str]
) -> None:
    cuts = [2 * ZOO, ZOO]
    pool.start_distribution(job, reserved, [], 77, nodes[:2], cuts, sender=results)
    assert logged(pool) == [
        event(
            "CutCredited", job_id=job, node_id=node, payout=payout, round_id=reserved, amount=amount
        )
        for node, payout, amount in zip(nodes[:2], payouts[:2], cuts, strict=True)
    ]
    assert tuple(pool.pool(job, reserved)) == (10 * ZOO, 0, 7 * ZOO, 77, 0, 3 * ZOO, 0, 2, False)
    assert [pool.pending(payout) for payout in payouts] == [2 * ZOO, ZOO, 0]
    assert pool.total_pending() == 3 * ZOO
    assert pool.total_reserved() == 7 * ZOO


def test_start_distribution__same_node_twice__gets_both(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int], payouts: list[str]
) -> None:
    pool.start_distribution(job, reserved, [], 1, [nodes[0]] * 2, [3, 4], sender=results)
    assert pool.pending(payouts[0]) == 7


def test_start_distribution__no_cuts_or_zero_cut__credits_nothing(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int]
) -> None:
    pool.start_distribution(job, reserved, [], 1, nodes[:1], [0], sender=results)
    assert logged(pool) == []
    assert pool.pool(job, reserved).trainer_amount == 10 * ZOO
    pool.reserve(job, 2, 5, sender=results)
    pool.start_distribution(job, 2, [], 1, [], [], sender=results)
    assert pool.pool(job, 2).trainer_amount == 5


def test_start_distribution__unknown_node__its_cut_goes_back_at_the_end(
    pool: Any, job: int, reserved: int, results: str
) -> None:
    pool.start_distribution(job, reserved, [], 0, [999], [4 * ZOO], sender=results)
    assert logged(pool) == []
    assert pool.pool(job, reserved).trainer_amount == 6 * ZOO
    assert pool.total_pending() == 0
    assert pool.close(job, reserved, True, sender=results) == (0, 10 * ZOO)


def test_start_distribution__cuts_take_all__is_allowed(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int]
) -> None:
    pool.start_distribution(job, reserved, [], 0, nodes[:1], [10 * ZOO], sender=results)
    assert pool.pool(job, reserved).trainer_amount == 0
