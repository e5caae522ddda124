# SPDX-License-Identifier: Apache-2.0
"""`distribute` splits by contribution, rounded down, each node at most once, in any batches."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event, logged
from tests.stage.contracts.pool import ZOO, PoolStage


@pytest.fixture
def distributing(pool: Any, job: int, reserved: int, results: str, nodes: list[int]) -> int:
    """10 ZOO, of which 1 is cut, for a total contribution of 7."""
    pool.start_distribution(job, reserved, [], 7, nodes[:1], [ZOO], sender=results)
    return reserved


def test_distribute__one_batch__splits_and_rounds_down(
    pool: Any, job: int, distributing: int, results: str, nodes: list[int], payouts: list[str]
) -> None:
    pool.distribute(job, distributing, nodes, [1, 0, 6], 0, sender=results)
    shares = [9 * ZOO // 7, 0, 9 * ZOO * 6 // 7]
    assert logged(pool) == [
        event(
            "RewardsDistributed",
            job_id=job,
            round_id=distributing,
            nodes=nodes,
            payouts=payouts,
            amounts=shares,
        )
    ]
    assert [pool.pending(payout) for payout in payouts] == [ZOO + shares[0], 0, shares[2]]
    paid = ZOO + sum(shares)
    assert 0 < 10 * ZOO - paid < len(nodes)
    assert tuple(pool.pool(job, distributing)) == (
        10 * ZOO,
        0,
        9 * ZOO,
        7,
        7,
        paid,
        nodes[2],
        2,
        False,
    )
    assert pool.total_pending() == paid
    assert pool.total_reserved() == 10 * ZOO - paid


def test_distribute__batches__pay_what_one_batch_would(
    pool: Any, job: int, distributing: int, results: str, nodes: list[int], payouts: list[str]
) -> None:
    for node, contribution in zip(nodes, [1, 2, 4], strict=True):
        pool.distribute(job, distributing, [node], [contribution], 0, sender=results)
    expected = [ZOO + 9 * ZOO // 7, 9 * ZOO * 2 // 7, 9 * ZOO * 4 // 7]
    assert [pool.pending(payout) for payout in payouts] == expected


def test_distribute__shared_payout__adds_up(
    stage: PoolStage, pool: Any, job: int, reserved: int, results: str, payouts: list[str]
) -> None:
    pair = [stage.add_node(payouts[0]) for _ in range(2)]
    pool.start_distribution(job, reserved, [], 2, [], [], sender=results)
    pool.distribute(job, reserved, pair, [1, 1], 0, sender=results)
    assert pool.pending(payouts[0]) == 10 * ZOO


def test_distribute__payout_changed_before__is_followed(
    stage: PoolStage, pool: Any, job: int, distributing: int, results: str, nodes: list[int]
) -> None:
    new = str(boa.env.generate_address("new payout"))
    stage.registry.set_payout(nodes[1], new, sender=stage.holder)
    pool.distribute(job, distributing, nodes[1:2], [7], 0, sender=results)
    assert pool.pending(new) == 9 * ZOO


def test_distribute__unknown_node__its_share_goes_back(
    pool: Any, job: int, distributing: int, results: str, nodes: list[int]
) -> None:
    pool.distribute(job, distributing, [nodes[2], 999], [3, 4], 0, sender=results)
    assert logged(pool)[0][1]["amounts"] == [9 * ZOO * 3 // 7, 0]
    paid, returned = pool.close(job, distributing, True, sender=results)
    assert paid == ZOO + 9 * ZOO * 3 // 7
    assert returned == 10 * ZOO - paid


@pytest.mark.parametrize("aside", [0, 1])
def test_distribute__nobody__is_the_treasury(
    stage: PoolStage, pool: Any, sponsor: str, results: str, nodes: list[int], aside: int
) -> None:
    """Nothing is retained or set aside of what is nobody's, in a job that retains pay as well."""
    job = stage.add_job(sponsor, 3)
    stage.fund(job, 10 * ZOO, sponsor)
    pool.reserve(job, 1, 10 * ZOO, sender=results)
    pool.start_distribution(job, 1, [], 10, [], [], sender=results)
    pool.distribute(job, 1, [0, nodes[0]], [4, 6], aside, sender=results)
    treasury = stage.registry.parameters().treasury
    kept, paid = logged(pool)
    assert kept == event("PayRetained", job_id=job, round_id=1, node_id=nodes[0], amount=6 * ZOO)
    assert (paid[1]["payouts"][0], paid[1]["amounts"]) == (treasury, [4 * ZOO, 0])
    assert pool.pending(treasury) == pool.total_pending() == 4 * ZOO
    assert (pool.retained(job, 0), pool.held(0), pool.set_aside(job, 1, 0)) == (0, 0, 0)
    assert pool.close(job, 1, False, sender=results) == (10 * ZOO, 0)
    pool.claim(sender=treasury)
    assert stage.token.balanceOf(treasury) == 4 * ZOO


def test_distribute__nobody_alone__is_followed_by_nodes(
    pool: Any, job: int, distributing: int, results: str, nodes: list[int], payouts: list[str]
) -> None:
    pool.distribute(job, distributing, [0], [3], 0, sender=results)
    pool.distribute(job, distributing, nodes[:1], [4], 0, sender=results)
    assert pool.pending(payouts[0]) == ZOO + 9 * ZOO * 4 // 7


def test_distribute__empty_batch__changes_nothing(
    pool: Any, job: int, distributing: int, results: str
) -> None:
    before = pool.pool(job, distributing)
    pool.distribute(job, distributing, [], [], 0, sender=results)
    assert pool.pool(job, distributing) == before


def test_distribute__more_than_the_total_over_batches__reverts(
    pool: Any, job: int, distributing: int, results: str, nodes: list[int]
) -> None:
    pool.distribute(job, distributing, nodes[:1], [5], 0, sender=results)
    with boa.reverts("pool: over-distributed"):
        pool.distribute(job, distributing, nodes[1:2], [3], 0, sender=results)
    pool.distribute(job, distributing, nodes[1:2], [2], 0, sender=results)


def test_distribute__zero_total__reverts(
    pool: Any, job: int, reserved: int, results: str, nodes: list[int]
) -> None:
    pool.start_distribution(job, reserved, [], 0, [], [], sender=results)
    with boa.reverts("pool: zero total"):
        pool.distribute(job, reserved, nodes, [0, 0, 0], 0, sender=results)
    assert pool.close(job, reserved, True, sender=results) == (0, 10 * ZOO)


def test_distribute__full_batch__fits_under_the_gas_cap(
    stage: PoolStage, pool: Any, job: int, reserved: int, results: str
) -> None:
    """128 nodes, each with a payout that was never credited: the dearest batch there is."""
    fresh = [stage.add_node(str(boa.env.generate_address())) for _ in range(128)]
    pool.start_distribution(job, reserved, [], 128, [], [], sender=results)
    pool.distribute(job, reserved, fresh, [1] * 128, 0, sender=results)
    assert pool.total_pending() == 128 * (10 * ZOO // 128)


def test_distribute__retained_pay_that_is_full__costs_a_node_no_write(
    stage: PoolStage, pool: Any, sponsor: str, results: str
) -> None:
    """Slots are warm here, so a read is 2,000 gas more on a chain. The first round, where all of
    the pay is retained, fits in a batch of the settlement."""
    crowd = [stage.add_node(str(boa.env.generate_address())) for _ in range(64)]
    gas: dict[int, list[int]] = {}
    for retain in (0, 1):
        job = stage.add_job(sponsor, retain)
        stage.fund(job, 3 * ZOO, sponsor)
        gas[retain] = []
        for number in (1, 2, 3):
            pool.reserve(job, number, ZOO, sender=results)
            pool.start_distribution(job, number, [], 64, [], [], sender=results)
            pool.distribute(job, number, crowd, [1] * 64, 0, sender=results)
            gas[retain].append(int(pool.call_trace().gas_used))
        assert pool.retained(job, crowd[0]) == retain * (ZOO // 64)
    assert gas[1][2] - gas[0][2] < 64 * 700
    assert max(gas[1]) < 5_000_000
