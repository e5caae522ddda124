# SPDX-License-Identifier: Apache-2.0
"""A scoring among everything else that may happen to a round and its job: disputes, cancelling,
exits, pauses, snapshots that wrap. Each time the round ends and all money is somewhere."""

from __future__ import annotations

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.scores import BPS, SCORE_CLOSED, SCORE_REVEAL, ScoreStage, make_scores
from tests.stage.contracts.system import (
    AGGREGATE,
    CANCELLED,
    COMPLETED,
    DAY,
    FINALIZED,
    INVALID,
    REWARD,
    VOID,
    System,
    refuses,
)

HONEST = [30_000, 20_000, 15_535]
ADOPT, OPEN = 1, 2
VERIFIER_CUT = REWARD * 1_000 // BPS


def resolve(stage: ScoreStage, round_id: int, upheld: bool) -> None:
    rounds = stage.system.rounds
    result = rounds.round(1, round_id).result_hash
    owner = stage.system.coordinator.address
    stage.system.results.resolve_challenge(1, round_id, result, upheld, sender=owner)


def run_out(stage: ScoreStage, round_id: int) -> None:
    """Past both windows of a scoring."""
    stage.past_commits(round_id)
    stage.past_reveals(round_id)


def check_money(stage: ScoreStage) -> None:
    assert stage.system.pool.total_reserved() == stage.system.pool.carried(1)
    assert stage.system.owed() == stage.system.balances()


def test_dispute__another_result_is_paid_by_the_same_scores(stage: ScoreStage) -> None:
    """A disputed result is thrown out and another proposed while the scores are still open; the
    scores are closed later, and pay that other result."""
    round_id = stage.job.to_disputed()
    stage.commit_all(round_id, HONEST, *stage.verifiers[:2])
    resolve(stage, round_id, upheld=True)
    assert stage.system.phase(1, round_id) == AGGREGATE
    stage.job.propose(round_id, stage.job.verifiers[0])
    stage.job.attest(round_id)
    with refuses("scores: open"):
        stage.job.finalize()
    stage.past_commits(round_id)
    stage.reveal_all(round_id, HONEST, *stage.verifiers[:2])
    stage.close(round_id, HONEST)
    stage.job.finalize()
    assert stage.system.pool.pool(1, round_id).scored_round == round_id
    check_money(stage)


def test_unresolved_dispute__ends_a_round_with_open_scores(stage: ScoreStage) -> None:
    """Nobody decides and nobody reveals: the round is void, its scores never close, and the job
    goes on to its next round and to its end."""
    round_id = stage.job.to_disputed()
    stage.commit(round_id, stage.verifiers[0], HONEST)
    stage.system.time_out(1, round_id)
    assert stage.system.phase(1, round_id) == VOID
    run_out(stage, round_id)
    with refuses("scores: round not running"):
        stage.close(round_id, [0, 0, 0])
    assert stage.state(round_id).phase == SCORE_REVEAL
    for _ in range(3):
        stage.finish(stage.to_scored())
    assert stage.system.jobs.job(1).status == COMPLETED
    check_money(stage)


def test_job_cancelled_with_open_scores__ends_after_the_round(stage: ScoreStage) -> None:
    round_id = stage.job.to_challenge()
    stage.commit(round_id, stage.verifiers[0], HONEST)
    stage.system.jobs.cancel_job(1, sender=stage.job.sponsor)
    stage.job.attest(round_id)
    with refuses("scores: open"):
        stage.job.finalize()
    with refuses("pool: job not ended"):
        stage.system.pool.refund(1, sender=stage.job.sponsor)
    run_out(stage, round_id)
    stage.close(round_id, [0, 0, 0])
    stage.job.finalize()
    assert stage.system.jobs.job(1).status == CANCELLED
    stage.system.pool.refund(1, sender=stage.job.sponsor)
    assert stage.system.pool.escrow(1) == 0
    check_money(stage)


def test_all_verifiers_leave_with_open_scores__a_stranger_ends_the_round(stage: ScoreStage) -> None:
    """Their stake is out, their nodes are closed and their operators unknown."""
    round_id = stage.job.to_challenge()
    registry = stage.system.registry
    for player in stage.verifiers:
        registry.begin_exit(player.node_id, sender=player.owner)
    stage.commit(round_id, stage.verifiers[0], HONEST)
    mine(1, 14 * DAY + 1)
    for player in stage.verifiers:
        registry.withdraw(player.node_id, sender=player.owner)
    with refuses("scores: not operator"):
        stage.commit(round_id, stage.verifiers[1], HONEST)
    stage.close(round_id, [0, 0, 0])
    stage.job.finalize()
    assert stage.system.phase(1, round_id) == FINALIZED
    check_money(stage)


def test_operator_replaced_between_commitment_and_reveal__the_old_key_opens_it(
    stage: ScoreStage,
) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, HONEST)
    first = stage.verifiers[0]
    key = account("newer operator")
    newer = str(key.address)
    signed = consent(stage.system.registry, key, first.owner)
    stage.system.registry.set_operator(first.node_id, newer, signed, sender=first.owner)
    with refuses("scores: bad opening"):
        stage.reveal(round_id, first, HONEST, sender=newer)
    with refuses("scores: already committed"):
        stage.scores.commit_scores(1, round_id, first.node_id, b"\x01" * 32, sender=newer)
    stage.reveal_all(round_id, HONEST)
    stage.close(round_id, HONEST)
    stage.finish(round_id, *stage.verifiers[1:])
    check_money(stage)


def test_all_paused_in_an_open_scoring__it_runs_to_its_end(stage: ScoreStage, owner: str) -> None:
    round_id = stage.job.to_aggregate()
    stage.commit(round_id, stage.verifiers[0], HONEST)
    stage.scores.set_paused(ADOPT | OPEN, sender=owner)
    stage.commit(round_id, stage.verifiers[1], HONEST)
    stage.past_commits(round_id)
    stage.reveal_all(round_id, HONEST, *stage.verifiers[:2])
    stage.close(round_id, HONEST)
    assert stage.state(round_id).phase == SCORE_CLOSED
    stage.finish(round_id)
    paid = [stage.system.pool.pending(p.payout) for p in stage.verifiers]
    # The pause spares nobody who could have committed.
    assert paid == [VERIFIER_CUT // 3, VERIFIER_CUT // 3, 0]
    check_money(stage)


@pytest.mark.parametrize("named", [0, 2])
def test_result_that_names_nobody_with_a_share__pays_them_all_the_same(
    stage: ScoreStage, named: int
) -> None:
    """Neither an empty result, nor one of others, brings the sponsor its pool back."""
    round_id = stage.to_scored(*[[65_535, 0, 0]] * 3)
    ids = stage.job.ids[1 : 1 + named]
    stage.job.propose(round_id, nodes=ids, contributions=[1] * named)
    stage.job.attest(round_id)
    stage.system.results.finalize(1, 1, ids, [1] * named)
    assert stage.system.rounds.round(1, round_id).settled
    rest = REWARD - REWARD // 20 - 3 * (VERIFIER_CUT // 3)
    assert [stage.system.pool.pending(p.payout) for p in stage.job.trainers] == [rest, 0, 0]
    check_money(stage)


def test_node_left_out_and_reported__its_share_is_set_aside(stage: ScoreStage) -> None:
    round_id = stage.to_scored(HONEST, HONEST, HONEST)
    ids, last = stage.job.ids[:2], stage.job.trainers[2]
    stage.job.propose(round_id, nodes=ids, contributions=[1, 1])
    stage.job.report(round_id, last, INVALID, *stage.verifiers[:2])
    stage.job.attest(round_id)
    stage.system.results.finalize(1, 1, ids, [1, 1])
    rest = REWARD - REWARD // 20 - 3 * (VERIFIER_CUT // 3)
    share = rest * HONEST[2] // sum(HONEST)
    assert stage.system.pool.set_aside(1, 1, last.node_id) == share
    check_money(stage)


def test_snapshot_that_wraps__each_score_stays_with_its_node(system: System) -> None:
    """20 trainers on 19 seats: the second round begins with the last one, whose word of the stored
    consensus is written at both ends of the list."""
    stage = make_scores(system, trainers=20, max_nodes=19)
    for _ in range(2):
        round_id = stage.system.open(1)
        nodes = stage.snapshot(round_id)[0]
        here = [p for p in stage.job.trainers if p.node_id in nodes]
        for player in here:
            system.commit(1, round_id, player, stage.job.work(player, round_id))
        for player in here:
            system.reveal(1, round_id, player, stage.job.work(player, round_id))
        row = [100 + node for node in nodes]
        assert score_row(stage, round_id, row) == row
        everybody = sorted(stage.job.ids)
        wanted = [100 + node if node in nodes else 0 for node in everybody]
        here = sorted(nodes), sorted(row)
        assert stage.scores.consensus_of(1, round_id) == here
        assert stage.scores.shares(1, round_id, everybody) == wanted
        listed = sorted(nodes)
        stage.job.propose(round_id, nodes=listed, contributions=[1] * 19)
        stage.job.attest(round_id)
        system.results.finalize(1, round_id, listed, [1] * 19)
        pool = system.pool.pool(1, round_id)
        assert pool.distributed == pool.total_contribution == sum(row)
    assert nodes != sorted(nodes)
    check_money(stage)


def score_row(stage: ScoreStage, round_id: int, row: list[int]) -> list[int]:
    """All verifiers give the same row."""
    stage.commit_all(round_id, row)
    stage.reveal_all(round_id, row)
    stage.close(round_id, row)
    return list(stage.scores.shares(1, round_id, stage.snapshot(round_id)[0]))
