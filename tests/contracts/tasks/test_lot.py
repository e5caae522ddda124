# SPDX-License-Identifier: Apache-2.0
"""Who a draw takes: every node of the pool equally likely; never two of one owner, never the
creator's own, none with its hands full; and nothing that is done after the request changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

import boa
import pytest
from scipy.stats import chisquare

from tests.stage.contracts import tasks as task
from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.system import (
    NO_REVEAL,
    TRAINER,
    ZERO,
    ZOO,
    Player,
    System,
    refuses,
)
from tests.stage.contracts.tasks import COOLDOWN, CPU, MAX_OPEN, RIGHT, TaskStage, lot, make_tasks

FUNDS = 10_000 * ZOO


def by_lot(stage: TaskStage, task_id: int, seats: list[Player | None]) -> Any:
    """The draw by definition, from these seats."""
    seed = stage.seed(task_id, stage.state(task_id).seed_block)
    owners = [p and (p.node_id, p.owner) for p in seats]
    return lot(seed, owners, {stage.state(task_id).creator}, 2)


def slash(stage: TaskStage, player: Player, violation: int) -> None:
    stage.registry.slash(
        player.node_id, violation, boa.env.timestamp, ZERO, sender=stage.tasks.address
    )


# Uniform


def test_lot__every_ordered_pair_is_equally_likely(system: System, tasks: Any) -> None:
    stage = make_tasks(system, nodes=5)
    pairs: Counter[tuple[int, ...]] = Counter()
    for _ in range(30):
        ids = [stage.create(fee=ZOO) for _ in range(10)]
        mine(2)
        for task_id in ids:
            expected = tasks.expected(task_id)
            assert expected == by_lot(stage, task_id, [*stage.nodes])
            pairs[tuple(expected)] += 1
    every = list(permutations([p.node_id for p in stage.nodes], 2))
    assert set(pairs) <= set(every)
    assert chisquare([pairs[pair] for pair in every]).pvalue > 0.01


def test_lot__empty_seats_favour_nobody(system: System, tasks: Any) -> None:
    """Were an empty seat's neighbour taken instead, it would be drawn twice as often."""
    stage = make_tasks(system, nodes=8)
    for place in (1, 2, 5):
        tasks.leave(stage.nodes[place].node_id, sender=stage.nodes[place].owner)
    mine()
    seats = [None if i in (1, 2, 5) else p for i, p in enumerate(stage.nodes)]
    nodes: Counter[int] = Counter()
    for _ in range(25):
        ids = [stage.create(fee=ZOO) for _ in range(10)]
        mine(2)
        for task_id in ids:
            expected = tasks.expected(task_id)
            assert expected == by_lot(stage, task_id, seats)
            nodes.update(expected)
    left = [p.node_id for p in seats if p]
    assert set(nodes) == set(left)
    assert chisquare([nodes[node_id] for node_id in left]).pvalue > 0.01


# Who is passed over


def test_lot__never_two_of_one_owner(system: System, tasks: Any) -> None:
    stage = make_tasks(system, nodes=2)
    for i in range(2, 6):
        stage.seat(f"node {i}", owner="landlord")
    mine()
    landlord = {p.node_id for p in stage.nodes[2:]}
    seen = 0
    for _ in range(60):
        task_id = stage.create(fee=ZOO)
        mine(2)
        expected = tasks.expected(task_id)
        assert expected == by_lot(stage, task_id, [*stage.nodes])
        seen += len(landlord & set(expected))
        assert len(landlord & set(expected)) <= 1
    assert seen > 30


def test_lot__third_is_of_another_owner_too(system: System) -> None:
    """Else two keys of one person would decide against the third."""
    stage = make_tasks(system, nodes=3)
    for i in range(3, 6):
        stage.seat(f"node {i}", owner="node 0 owner")
    mine()
    wrong = RIGHT[::-1]
    # Decided tasks keep their lanes open until they are finalized, and a node has two.
    for _ in range(MAX_OPEN):
        task_id = stage.started(fee=ZOO)
        stage.commit_all(task_id, {0: RIGHT, 1: wrong})
        stage.reveal_all(task_id, {0: RIGHT, 1: wrong})
        stage.draw(task_id)
        assert len({p.owner for p in stage.runners(task_id)}) == 3
        stage.commit(task_id, 2, wrong)
        stage.reveal(task_id, 2, wrong)


def test_lot__hands_full__is_passed_over_until_a_lane_closes(system: System, tasks: Any) -> None:
    stage = make_tasks(system, nodes=3)
    ids = []
    while True:
        task_id = stage.create(fee=ZOO)
        mine(2)
        full = {p.node_id for p in stage.nodes if stage.open_lanes(p) == MAX_OPEN}
        expected = tasks.expected(task_id)
        assert not full & set(expected)
        if not expected:
            break
        tasks.draw(task_id)
        ids.append(task_id)
    with refuses("tasks: hands full"):
        tasks.draw(task_id)
    # Only one is left with a free hand.
    assert sum(stage.open_lanes(p) < MAX_OPEN for p in stage.nodes) <= 1
    assert 2 <= len(ids) <= 3
    stage.play(RIGHT, RIGHT, task_id=ids[0])
    stage.draw(task_id)
    assert len(stage.state(task_id).nodes) == 2
    assert max(stage.open_lanes(p) for p in stage.nodes) == MAX_OPEN


def test_lot__slashed_below_the_stake__is_passed_over(system: System, tasks: Any) -> None:
    stage = make_tasks(system, nodes=3)
    thin = stage.seat("thin", 100 * ZOO)
    slash(stage, thin, NO_REVEAL)
    mine()
    for _ in range(20):
        task_id = stage.create(fee=ZOO)
        mine(2)
        assert tasks.expected(task_id) == by_lot(stage, task_id, [*stage.nodes[:3], None])


# After the request


def joins(stage: TaskStage) -> None:
    stage.seat("late")


def joins_an_old_seat(stage: TaskStage) -> None:
    player = stage.system.join("late", TRAINER)
    stage.tasks.join(player.node_id, CPU, sender=player.owner)
    assert stage.tasks.executor(player.node_id).seat == 5


def seated(stage: TaskStage) -> list[Player]:
    return [p for p in stage.nodes if stage.tasks.executor(p.node_id).seated]


def leaves(stage: TaskStage) -> None:
    for player in seated(stage):
        stage.tasks.leave(player.node_id, sender=player.owner)


def exits(stage: TaskStage) -> None:
    for player in stage.nodes:
        stage.registry.begin_exit(player.node_id, sender=player.owner)


def exits_and_is_evicted(stage: TaskStage) -> None:
    exits(stage)
    for player in seated(stage):
        stage.tasks.evict(player.node_id, sender=stage.stranger)


def tops_up(stage: TaskStage) -> None:
    for player in stage.nodes:
        stage.system.add_stake(player, 500 * ZOO)


def rests(stage: TaskStage) -> None:
    for player in stage.nodes:
        stage.registry.set_active(player.node_id, False, sender=player.operator)


def changes_keys(stage: TaskStage) -> None:
    for player in stage.nodes:
        fresh = stage.system.person(f"new key of {player.name}")
        signed = consent(stage.registry, account(f"new key of {player.name}"), player.owner)
        stage.registry.set_operator(player.node_id, fresh, signed, sender=player.owner)


DEEDS = [
    joins,
    joins_an_old_seat,
    leaves,
    exits,
    exits_and_is_evicted,
    tops_up,
    rests,
    changes_keys,
]


@pytest.mark.parametrize("known", [False, True], ids=["in the block", "with the seed known"])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_expected__nothing_done_after_the_request_changes_it(
    stage: TaskStage, tasks: Any, deed: Callable[[TaskStage], None], known: bool
) -> None:
    """A thin node among them, who would be drawn if its later stake counted, and an empty seat, the
    next holder of which would be."""
    old = stage.seat("old")
    tasks.leave(old.node_id, sender=old.owner)
    thin = stage.seat("thin", 100 * ZOO)
    slash(stage, thin, NO_REVEAL)
    mine(COOLDOWN + 1)
    seats = [*stage.nodes[:5], None, None]
    ids = [stage.create(fee=ZOO) for _ in range(10)]
    if known:
        mine(2)
    deed(stage)
    mine(1 if known else 2)
    for task_id in ids:
        assert tasks.expected(task_id) == by_lot(stage, task_id, seats)
    # The deed could have mattered: with all seats in the draw others would have been drawn.
    everybody = [*stage.nodes[:5], old, thin]
    assert any(tasks.expected(i) != by_lot(stage, i, [*everybody]) for i in ids)
    nodes = tasks.expected(ids[0])
    mine(100)
    tasks.draw(ids[0])
    assert stage.state(ids[0]).nodes == nodes


def test_expected__the_block_of_the_request(stage: TaskStage, tasks: Any) -> None:
    """Who sits down in it comes too late, even before the request; who leaves in it is still in."""
    stage.seat("early riser")
    leaver = stage.nodes[0]
    tasks.leave(leaver.node_id, sender=leaver.owner)
    ids = [stage.create(fee=ZOO) for _ in range(10)]
    mine(2)
    for task_id in ids:
        assert tasks.expected(task_id) == by_lot(stage, task_id, [*stage.nodes[:5], None])
    later = stage.create(fee=ZOO)
    mine(2)
    assert tasks.expected(later) == by_lot(stage, later, [None, *stage.nodes[1:]])


def test_expected__slashed_after_the_request__is_passed_over(stage: TaskStage, tasks: Any) -> None:
    """The one way out of a draw costs what silence costs."""
    ids = [stage.create(fee=task.FEE) for _ in range(10)]
    mine(2)
    gone = stage.nodes[4]
    slash(stage, gone, 8)
    for task_id in ids:
        assert tasks.expected(task_id) == by_lot(stage, task_id, [*stage.nodes[:4], None])
