# SPDX-License-Identifier: Apache-2.0
"""close_scoring: when nobody is waited for, by anyone, with the medians; and whom it trusts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.protocol.median import agreement, next_trust, stake_median
from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.events import event
from tests.stage.contracts.scores import (
    BPS,
    REVEAL_S,
    SCALE,
    SCORE_CLOSED,
    SCORE_REVEAL,
    ScoreStage,
    make_scores,
    median,
)
from tests.stage.contracts.system import VOICE, System, events_of, refuses

ROW = [300, 200, 100]


def test_close__fixes_the_consensus_and_tells_all(stage: ScoreStage, scores: Any) -> None:
    round_id = stage.job.to_aggregate()
    rows = [[300, 200, 100], [100, 200, 300], [200, 50, 0]]
    consensus = stage.score(round_id, rows)
    assert consensus == [200, 200, 100]
    # Of sums 600, 600, 250 and a consensus of 500: 500, 400 and 250 of it are shared.
    agreements = [BPS * 500 // 600, BPS * 400 // 600, BPS * 250 // 500]
    assert events_of(scores) == [
        event(
            "ScoringClosed",
            job_id=1,
            round_id=round_id,
            nodes=stage.job.ids,
            consensus=consensus,
            scored=True,
            verifiers=[p.node_id for p in stage.verifiers],
            agreements=agreements,
            trusts=agreements,
        )
    ]
    state = stage.state(round_id)
    assert (state.phase, state.total, state.scored, state.closable) == (
        SCORE_CLOSED,
        500,
        True,
        False,
    )
    assert scores.settlement(1, round_id) == (True, round_id, 500)
    assert scores.consensus_of(1, round_id) == (stage.job.ids, consensus)
    assert scores.shares(1, round_id, stage.job.ids) == consensus
    assert scores.last_scored(1) == round_id


def test_close__somebody_is_waited_for__reverts(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, ROW, *stage.verifiers[:2])
    with refuses("scores: not over"):
        stage.close(round_id, ROW)
    mine(1, stage.state(round_id).commit_deadline - now())
    with refuses("scores: not over"):
        stage.close(round_id, ROW)
    mine(1, 1)
    stage.reveal(round_id, stage.verifiers[0], ROW)
    assert not stage.state(round_id).closable
    with refuses("scores: not over"):
        stage.close(round_id, ROW)
    mine(1, REVEAL_S - 1)
    assert stage.state(round_id).phase == SCORE_REVEAL
    with refuses("scores: not over"):
        stage.close(round_id, [0, 0, 0])
    stage.reveal(round_id, stage.verifiers[1], ROW)
    assert stage.state(round_id).closable
    stage.close(round_id, ROW)


def test_close__half_of_the_stake_is_not_enough(system: System) -> None:
    """Two verifiers with a quarter each, one with half: where halves differ the lower counts."""
    stage = make_scores(system, stakes=[VOICE // 2, VOICE // 2, VOICE])
    round_id = stage.job.to_aggregate()
    rows = [[10, 10, 10], [20, 9, 10], [0, 30, 11]]
    assert stage.score(round_id, rows) == [0, 10, 10]


def test_close__one_verifier_is_not_enough(system: System) -> None:
    """With two thirds of the weight it needs another's word."""
    stage = make_scores(system, stakes=[VOICE // 2, VOICE])
    round_id = stage.job.to_aggregate()
    assert stage.score(round_id, [[5, 0, 7], [9, 9, 3]]) == [5, 0, 3]


def test_close__node_that_did_not_reveal__has_no_consensus(stage: ScoreStage) -> None:
    """Its share would be paid to nobody: to the sponsor."""
    first, second, third = stage.job.ids
    round_id = stage.job.to_aggregate(stage.job.trainers[:2])
    stage.commit_all(round_id, ROW)
    stage.reveal_all(round_id, ROW)
    with refuses("scores: not the median"):
        stage.close(round_id, ROW)
    stage.close(round_id, [300, 200, 0])
    assert stage.scores.consensus_of(1, round_id) == ([first, second], [300, 200])
    assert stage.scores.shares(1, round_id, [third]) == [0]


def test_close__sum_of_medians_may_exceed_one(stage: ScoreStage) -> None:
    """Any two of three verifiers agree on a node. The total is what pay is divided by, so no more
    than the pool is ever paid."""
    half = SCALE // 2
    round_id = stage.job.to_aggregate()
    rows = [[half, half, 0], [half, 0, half], [0, half, half]]
    assert stage.score(round_id, rows) == [half] * 3
    stage.finish(round_id)
    pool = stage.system.pool
    assert len({pool.pending(p.payout) for p in stage.job.trainers}) == 1
    assert stage.system.owed() == stage.system.balances()


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 0, 0]] * 3,
        [ROW, None, None],  # a third of the stake decides nothing
        [[9, 0, 0], [0, 9, 0], [0, 0, 9]],  # three that share nothing
    ],
)
def test_close__no_median_above_zero__is_unscored(
    stage: ScoreStage, rows: Sequence[Sequence[int] | None]
) -> None:
    round_id = stage.job.to_aggregate()
    assert stage.score(round_id, rows) == [0, 0, 0]
    state = stage.state(round_id)
    assert (state.phase, state.scored, state.total) == (SCORE_CLOSED, False, 0)
    assert stage.scores.settlement(1, round_id) == (True, 0, 0)
    assert stage.scores.consensus_of(1, round_id) == ([], [])
    assert stage.scores.last_scored(1) == 0
    # Nobody is judged by a round without consensus.
    assert [stage.scores.trust_of(1, p.node_id) for p in stage.verifiers] == [0, 0, 0]


def test_close__nobody_revealed__ends_unscored(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    assert stage.score(round_id, [ROW, ROW, ROW], silent=[0, 1, 2]) == [0, 0, 0]
    stage.finish(round_id)


def test_last_scored__skips_rounds_without_consensus(stage: ScoreStage) -> None:
    for rows, newest in (([ROW] * 3, 1), ([[0, 0, 0]] * 3, 1), ([ROW] * 3, 3)):
        round_id = stage.job.to_aggregate()
        stage.score(round_id, rows)
        assert stage.scores.last_scored(1) == newest
        stage.finish(round_id)
    assert stage.scores.shares(1, 2, stage.job.ids) == [0, 0, 0]


def test_trust__persistent_outlier_falls_and_the_majority_stays(stage: ScoreStage) -> None:
    """It agrees once, then gives everything to its favourite, round after round."""
    liar, *others = stage.verifiers
    honest = [30_000, 20_000, 15_535]
    lie = [0, 0, SCALE]
    trust: int | None = None
    factors = []
    for number in range(3):
        round_id = stage.job.to_aggregate()
        row = honest if number == 0 else lie
        assert stage.score(round_id, [row, honest, honest]) == honest
        trust = next_trust(trust, agreement(row, honest))
        assert stage.scores.trust_of(1, liar.node_id) == trust
        assert [stage.scores.trust_of(1, p.node_id) for p in others] == [BPS, BPS]
        factor, *rest = stage.scores.cut_factors(1, round_id, [p.node_id for p in stage.verifiers])
        assert rest == [BPS, BPS]
        factors.append(factor)
        stage.finish(round_id)
    share = BPS * 15_535 // SCALE
    first = (7 * BPS + 3 * share) // 10
    trusts = [BPS, first, (7 * first + 3 * share) // 10]
    assert factors == [trust**3 // BPS**2 for trust in trusts]


def test_trust__silence_after_a_commitment_is_no_agreement(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [ROW] * 3)
    stage.finish(round_id)
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [ROW] * 3, silent=[2])
    silent = stage.verifiers[2].node_id
    assert stage.scores.trust_of(1, silent) == 7 * BPS // 10
    assert stage.scores.cut_factors(1, round_id, [silent]) == [0]


def test_trust__who_did_not_commit_is_not_judged(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [ROW] * 3)
    stage.finish(round_id)
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [ROW, ROW, None])
    away = stage.verifiers[2].node_id
    assert stage.scores.trust_of(1, away) == BPS
    assert stage.scores.cut_factors(1, round_id, [away]) == [0]


def test_trust__is_of_one_job_only(stage: ScoreStage) -> None:
    stage.finish(stage.to_scored())
    for player in stage.verifiers:
        assert stage.scores.trust_of(1, player.node_id) == BPS
        assert stage.scores.trust_of(2, player.node_id) == 0


def test_cut_factors__all_trusts_zero__all_that_revealed_are_equal(stage: ScoreStage) -> None:
    """One unit in common out of 65,535 rounds down to no agreement: nobody is better than anybody,
    so nothing is divided by zero and everybody keeps its cut."""
    round_id = stage.job.to_aggregate()
    rows = [[1, SCALE - 1, 0], [1, 0, SCALE - 1], None]
    assert stage.score(round_id, rows) == [1, 0, 0]
    ids = [p.node_id for p in stage.verifiers]
    assert [stage.scores.trust_of(1, node) for node in ids] == [0, 0, 0]
    assert stage.scores.cut_factors(1, round_id, ids) == [BPS, BPS, 0]
    stage.finish(round_id, *stage.verifiers)
    assert stage.system.owed() == stage.system.balances()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_close__any_rows_and_stakes__takes_the_models_consensus_and_no_other(
    system: System, data: st.DataObject
) -> None:
    import boa

    with boa.env.anchor():
        count = data.draw(st.integers(1, 4), label="verifiers")
        stakes = data.draw(
            st.lists(st.integers(VOICE // 2, 2 * VOICE), min_size=count, max_size=count)
        )
        stage = make_scores(system, stakes=stakes, trainers=2)
        score = st.one_of(st.integers(0, 4), st.integers(0, SCALE // 2))
        row = st.none() | st.lists(score, min_size=2, max_size=2)
        rows = data.draw(st.lists(row, min_size=count, max_size=count), label="rows")
        if all(given is None for given in rows):
            rows[0] = [1, 0]
        silent = [i for i in range(count) if rows[i] is not None and data.draw(st.booleans())]
        round_id = stage.job.to_aggregate()
        consensus = stage.score(round_id, rows, silent)
        spoke = [i for i in range(count) if rows[i] is not None and i not in silent]
        seen = [rows[i] or [] for i in spoke]
        weights = [min(stake, VOICE) for stake in stakes]
        held = [weights[i] for i in spoke]
        expected = stake_median(seen, held, sum(weights), nodes=2)
        assert consensus == expected == (median(seen, held, sum(weights)) or [0, 0])
        for i, player in enumerate(stage.verifiers):
            given_row = rows[i]
            if given_row is None or not sum(expected):
                wanted = 0
            else:
                wanted = agreement(given_row, expected) if i in spoke else 0
            assert stage.scores.trust_of(1, player.node_id) == wanted
