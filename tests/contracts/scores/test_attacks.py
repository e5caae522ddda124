# SPDX-License-Identifier: Apache-2.0
"""What somebody may try to be paid, or to keep others from being paid, by scores."""

from __future__ import annotations

import boa
import pytest

from tests.stage.contracts.clock import mine, now
from tests.stage.contracts.registry import account, consent
from tests.stage.contracts.scores import (
    BPS,
    COMMIT_S,
    REVEAL_S,
    SCALE,
    SCORE_REVEAL,
    ScoreStage,
    make_scores,
)
from tests.stage.contracts.system import INVALID, REWARD, VOID, ZERO, ZOO, System, refuses
from tests.stage.contracts.wealth import of_address, of_sponsor

HONEST = [30_000, 20_000, 0]  # trainer 2 is the liar's friend and worth nothing
LIE = [0, 0, SCALE]


def test_first_round_opened_by_a_stranger__keeps_the_sponsor_from_adopting__at_a_rounds_price(
    stage: ScoreStage,
) -> None:
    """It took nothing where a round paid nothing. What the stranger pays is the sponsor's."""
    system, sponsor, mallory = stage.system, stage.job.sponsor, stage.job.stranger
    with refuses("jobs: reward too low"):
        system.job(sponsor, escrow=0, reward_per_round=0)
    job = system.job(sponsor, escrow=0, reward_per_round=ZOO)
    with refuses("pool: escrow too low"):
        system.rounds.open_round(job, sender=mallory)
    before, theirs = of_address(system, mallory), of_sponsor(system, sponsor, job)
    system.fund(job, ZOO, mallory)
    system.rounds.open_round(job, sender=mallory)
    with refuses("scores: round opened"):
        stage.scores.adopt(job, COMMIT_S, REVEAL_S, sender=sponsor)
    system.jobs.cancel_job(job, sender=sponsor)
    system.time_out(job, 1)
    system.pool.refund(job, sender=sponsor)
    assert of_address(system, mallory) - before == -ZOO
    assert of_sponsor(system, sponsor, job) - theirs == ZOO
    other = system.job(sponsor, escrow=0, reward_per_round=ZOO)
    stage.scores.adopt(other, COMMIT_S, REVEAL_S, sender=sponsor)


@pytest.mark.parametrize("honest_present", [2, 1])
def test_minority_of_stake__raises_nobody(system: System, honest_present: int) -> None:
    """A liar with 30 % of the stake; honest verifiers of 35 % each, one of them maybe away. What is
    away counts against everybody, never for the liar."""
    stage = make_scores(system, stakes=[150 * ZOO, 175 * ZOO, 175 * ZOO])
    round_id = stage.job.to_aggregate()
    rows = [LIE, HONEST, HONEST if honest_present == 2 else None]
    consensus = stage.score(round_id, rows)
    assert consensus == (HONEST if honest_present == 2 else [0, 0, 0])
    friend = stage.job.trainers[2]
    if honest_present == 2:
        stage.finish(round_id, *stage.verifiers[1:])
        assert system.pool.pending(friend.payout) == 0


def test_minority_of_stake__when_alone__cannot_score_at_all(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    assert stage.score(round_id, [LIE, None, None]) == [0, 0, 0]
    assert stage.scores.settlement(1, round_id) == (True, 0, 0)


def test_minority_of_stake__thins_out_the_others_where_honest_scores_differ(system: System) -> None:
    """The friend's consensus is what honest verifiers gave it, with or without the lie. But nobody
    else has half of the stake any more, except for the least that all honest ones agree on."""
    stage = make_scores(system, stakes=[150 * ZOO, 175 * ZOO, 175 * ZOO])
    round_id = stage.job.to_aggregate()
    rows = [[40_000, 15_000, 5_000], [15_000, 40_000, 5_000]]
    with boa.env.anchor():
        assert stage.score(round_id, [[25_000, 25_000, 0], *rows]) == [25_000, 25_000, 5_000]
    assert stage.score(round_id, [LIE, *rows]) == [15_000, 15_000, 5_000]
    liar = stage.verifiers[0]
    # One part in seven of the pay instead of one in eleven; the liar pays with its trust.
    assert stage.scores.trust_of(1, liar.node_id) == BPS * 5_000 // SCALE


def test_commit_after_the_first_reveal__is_too_late(stage: ScoreStage) -> None:
    """Nobody can see a vector and still commit."""
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, HONEST, *stage.verifiers[:2])
    with refuses("scores: not in reveal"):
        stage.reveal(round_id, stage.verifiers[0], HONEST)
    stage.past_commits(round_id)
    stage.reveal(round_id, stage.verifiers[0], HONEST)
    with refuses("scores: too late"):
        stage.commit(round_id, stage.verifiers[2], HONEST)


def test_reveal_after_the_deadline__is_refused_and_costs_the_cut(stage: ScoreStage) -> None:
    """Whoever waits to see whether its vector suits it is not paid and not trusted."""
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [HONEST, HONEST, LIE], silent=[2])
    late = stage.verifiers[2]
    with refuses("scores: not in reveal"):
        stage.reveal(round_id, late, LIE)
    ids = [p.node_id for p in stage.verifiers]
    assert stage.scores.cut_factors(1, round_id, ids) == [BPS, BPS, 0]
    assert stage.scores.trust_of(1, late.node_id) == 0


def test_rushed_proposal__cannot_be_finalized_while_scores_are_open(stage: ScoreStage) -> None:
    """A proposer with its own shares, and verifiers that attest at once."""
    round_id = stage.job.to_aggregate()
    stage.commit(round_id, stage.verifiers[0], HONEST)
    stage.job.propose(round_id, contributions=[1, 1, 10**9])
    stage.job.attest(round_id)
    assert stage.system.results.can_finalize(1, 1)
    with refuses("scores: open"):
        stage.system.results.finalize(1, 1, stage.job.ids, [1, 1, 10**9])
    stage.commit_all(round_id, HONEST, *stage.verifiers[1:])
    stage.reveal_all(round_id, HONEST)
    stage.close(round_id, HONEST)
    stage.system.results.finalize(1, 1, stage.job.ids, [1, 1, 10**9])
    paid = [stage.system.pool.pending(p.payout) for p in stage.job.trainers]
    rest = REWARD * 85 // 100
    assert paid == [rest * 30_000 // 50_000, rest * 20_000 // 50_000, 0]


def test_hasty_result__waits_for_those_who_may_still_score(stage: ScoreStage) -> None:
    """All attest before anybody could score, so that the round is paid by its result. Nobody comes:
    it waits for the time to commit and no longer."""
    round_id = stage.job.to_challenge()
    stage.job.attest(round_id)
    mine(1, stage.state(round_id).commit_deadline - boa.env.timestamp)
    with refuses("scores: open"):
        stage.job.finalize()
    with boa.env.anchor():
        stage.commit_all(round_id, HONEST)
        stage.reveal_all(round_id, HONEST)
        stage.close(round_id, HONEST)
        stage.job.finalize()
        assert stage.system.pool.pool(1, round_id).scored_round == round_id
    mine(1, 1)
    stage.job.finalize()


def test_void_round__is_never_scored_afterwards(stage: ScoreStage) -> None:
    """Closing late would change, under everybody's feet, who stands best for the next round."""
    round_id = stage.job.to_aggregate()
    stage.commit_all(round_id, LIE)
    stage.reveal_all(round_id, LIE)
    assert stage.state(round_id).closable
    snapshot = stage.snapshot(round_id)
    for _ in range(2):
        stage.system.time_out(1, round_id)
    assert stage.system.phase(1, round_id) == VOID
    with refuses("scores: round not running"):
        stage.scores.close_scoring(1, round_id, *snapshot, LIE)
    assert stage.state(round_id).phase == SCORE_REVEAL
    assert stage.scores.last_scored(1) == 0
    # The whole pool went back, and the next round can be scored and paid.
    assert stage.system.pool.escrow(1) == 10 * REWARD
    stage.finish(stage.to_scored())


def test_wrong_consensus__is_refused_in_both_directions(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    rows = [[100, 7, 0], [200, 7, 0], [300, 7, 1]]
    for player, row in zip(stage.verifiers, rows, strict=True):
        stage.commit(round_id, player, row)
    for player, row in zip(stage.verifiers, rows, strict=True):
        stage.reveal(round_id, player, row)
    right = [200, 7, 0]
    for place in range(3):
        for change in (-100, -1, 1, 100, SCALE, 2**256 - 1 - right[place]):
            wrong = list(right)
            wrong[place] += change
            if wrong[place] >= 0:
                with refuses("scores: not the median"):
                    stage.close(round_id, wrong)
    stage.close(round_id, right)


def test_next_to_nothing_for_everybody__is_no_agreement(stage: ScoreStage) -> None:
    """Row sums are bounded, not fixed: without the greater of both sums a verifier that gives one
    unit to the best node would agree with everybody, perfectly and for nothing."""
    round_id = stage.job.to_aggregate()
    consensus = stage.score(round_id, [HONEST, HONEST, [1, 0, 0]])
    assert consensus == HONEST
    assert stage.scores.trust_of(1, stage.verifiers[0].node_id) == BPS
    assert stage.scores.trust_of(1, stage.verifiers[2].node_id) == 0


def test_convicted_verifiers__commit_or_reveal__have_no_say(stage: ScoreStage) -> None:
    """Two of three lie together, and are convicted of something else in the same round: their
    snapshot's weight is still more than half."""
    system, round_id = stage.system, stage.job.to_aggregate()
    suspended, banned, honest = stage.verifiers
    stage.commit(round_id, suspended, LIE)
    reports = system.reports.address
    system.registry.slash(suspended.node_id, INVALID, now(), ZERO, sender=reports)
    system.registry.slash(banned.node_id, 4, now(), ZERO, sender=reports)
    with refuses("scores: not operator"):
        stage.commit(round_id, banned, LIE)
    stage.commit(round_id, honest, HONEST)
    stage.past_commits(round_id)
    with refuses("scores: no say"):
        stage.reveal(round_id, suspended, LIE)
    stage.reveal(round_id, honest, HONEST)


def test_operator_that_was_replaced_since__still_opens_its_commitment(stage: ScoreStage) -> None:
    system, round_id = stage.system, stage.job.to_aggregate()
    verifier = stage.verifiers[0]
    stage.commit_all(round_id, HONEST)
    fresh = account("fresh")
    signed = consent(system.registry, fresh, verifier.owner)
    system.registry.set_operator(verifier.node_id, fresh.address, signed, sender=verifier.owner)
    stage.reveal(round_id, verifier, HONEST)
