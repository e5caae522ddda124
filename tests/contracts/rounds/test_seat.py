# SPDX-License-Identifier: Apache-2.0
"""seat: the draw of the trainers where there are more of them than seats."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agents.protocol import formulas
from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import (
    COMMIT,
    EMPTY,
    REWARD,
    VOID,
    System,
    deploy,
    events_of,
    refuses,
)


@pytest.fixture(scope="module")
def made(codes: Any) -> RoundStage:
    """Five trainers, two seats."""
    return make_rounds(deploy(codes), trainers=5, max_nodes=2, rounds=30)


@pytest.fixture
def candidates(stage: RoundStage, rounds: Any) -> tuple[list[int], list[int]]:
    """Those of round 1, which is open; the block of its seed is the next."""
    rounds.open_round(1)
    opened = dict(events_of(rounds))["RoundOpened"]
    return opened["nodes"], opened["weights"]


def test_seat__draws_by_the_seed(
    stage: RoundStage, rounds: Any, candidates: tuple[list[int], list[int]]
) -> None:
    before = rounds.round(1, 1)
    mine(2)
    rounds.seat(1, 1, *candidates, sender=stage.stranger)
    *_, (name, seated) = events_of(rounds)
    state = rounds.round(1, 1)
    nodes, weights = formulas.seated(state.seed, *candidates, 2)
    assert len(nodes) == 2
    assert (name, seated) == of_round("RoundSeated", nodes=list(nodes), weights=list(weights))
    assert [n for n in stage.ids if rounds.is_expected(1, 1, n)] == list(nodes)
    assert state.snapshot_hash == formulas.snapshot_hash(nodes, weights)
    assert (state.phase, state.deadline, state.n_eligible) == (COMMIT, before.deadline, 2)


def test_seat__the_draw__favours_no_place(stage: RoundStage, system: System) -> None:
    seeds = [bytes([i, j]) + bytes(30) for i in range(20) for j in range(100)]
    seats = Counter(n for s in seeds for n in formulas.seated(s, range(5), range(5), 2)[0])
    assert all(abs(seats[place] - 800) < 100 for place in range(5))  # 4.5 standard deviations


def test_seat__seated_ones_work__the_round_ends_and_pays_them_only(stage: RoundStage) -> None:
    round_id = stage.to_commit()
    nodes, _ = stage.system.snapshots[1, round_id]
    team = [p for p in stage.trainers if p.node_id in nodes]
    for player in set(stage.trainers) - set(team):
        with refuses("rounds: not expected"):
            stage.commit_all(round_id, player)
    stage.commit_all(round_id, *team)
    stage.reveal_all(round_id, *team)
    stage.propose(round_id, nodes=nodes, contributions=[1, 1])
    stage.attest(round_id)
    stage.system.results.finalize(1, round_id, nodes, [1, 1])
    paid = [p.node_id for p in stage.trainers if stage.system.pool.pending(p.payout)]
    assert paid == nodes


def test_seat__weights__fall_with_rounds_that_a_node_was_seated_in(
    stage: RoundStage, system: System, rounds: Any
) -> None:
    missed: Counter[int] = Counter()
    for _ in range(20):
        round_id = system.open(1)
        assert len(system.snapshots[1, round_id][0]) == 2
        for node, weight in zip(*system.snapshots[1, round_id], strict=True):
            last = [
                n
                for past in range(max(1, round_id - 8), round_id)
                for n in system.snapshots[1, past][0]
            ]
            score = system.registry.node(node).benchmark_score
            assert weight == formulas.weight(score, last.count(node), 0)
            missed[node] += 1
        system.time_out(1, round_id)
    assert set(missed) == set(stage.ids)


def test_seat__nobody_draws__the_round_is_void_and_counts_for_nobody(
    stage: RoundStage, system: System, rounds: Any, candidates: tuple[list[int], list[int]]
) -> None:
    mine(2)
    digest = b"\x01" * 32
    with refuses("rounds: not expected"):
        player = stage.trainers[0]
        rounds.commit(1, 1, player.node_id, digest, sender=player.operator)
    system.wait_out(1, 1)
    with refuses("rounds: too late"):
        rounds.seat(1, 1, *candidates)
    rounds.advance(1, 1, sender=stage.stranger)
    assert system.phase(1, 1) == VOID
    assert system.pool.total_reserved() == 0
    with refuses("rounds: no seats to draw"):
        rounds.seat(1, 1, *candidates)
    round_id = system.open(1)
    nodes, weights = system.snapshots[1, round_id]
    assert weights == [system.registry.node(n).benchmark_score for n in nodes]


def test_seat__twice_or_where_all_have_seats__reverts(
    stage: RoundStage, system: System, rounds: Any, candidates: tuple[list[int], list[int]]
) -> None:
    with refuses("randomness: too early"):
        rounds.seat(1, 1, *candidates)
    mine(2)
    rounds.seat(1, 1, *candidates)
    for lists in (candidates, system.snapshots.get((1, 1), ([], []))):
        with refuses("rounds: no seats to draw"):
            rounds.seat(1, 1, *lists)
    wide = system.job(stage.sponsor, escrow=REWARD, max_nodes=5)
    rounds.open_round(wide)
    assert rounds.round(wide, 1).n_eligible == 5
    mine(2)
    for job, round_id in ((wide, 1), (wide, 2), (9, 1)):
        with refuses("rounds: no seats to draw"):
            rounds.seat(job, round_id, *candidates)


def test_seat__other_lists__reverts(rounds: Any, candidates: tuple[list[int], list[int]]) -> None:
    mine(2)
    nodes, scores = candidates
    for lists in ((nodes[::-1], scores), (nodes[1:], scores[1:]), (nodes, [1] * 5), ([], [])):
        with refuses("rounds: wrong candidates"):
            rounds.seat(1, 1, *lists)


def test_seat__a_captured_seed__is_the_one(
    rounds: Any, candidates: tuple[list[int], list[int]]
) -> None:
    mine(2)
    seed = rounds.capture_seed(1, 1)
    mine(300, 12)
    rounds.seat(1, 1, *candidates)
    assert rounds.round(1, 1).seed == seed


def test_seat__an_expired_seed__is_pinned_anew_by_capture_seed(
    stage: RoundStage, rounds: Any, candidates: tuple[list[int], list[int]]
) -> None:
    mine(258, 12)
    with refuses("rounds: seed expired"):
        rounds.seat(1, 1, *candidates)
    assert rounds.capture_seed(1, 1, sender=stage.stranger) == EMPTY
    mine(2)
    rounds.seat(1, 1, *candidates)
    assert rounds.round(1, 1).n_eligible == 2
