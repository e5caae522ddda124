# SPDX-License-Identifier: Apache-2.0
"""What the reward pool makes of a round's scores: trainers by consensus, verifiers by trust, and
the rest of the pool where it came from."""

from __future__ import annotations

from collections.abc import Sequence

from tests.stage.contracts.events import logged
from tests.stage.contracts.scores import BPS, SCALE, ScoreStage, make_scores
from tests.stage.contracts.system import INVALID, REWARD, System

HONEST = [30_000, 20_000, 15_535]
LIE = [0, 0, SCALE]
PROPOSER_CUT = REWARD * 500 // BPS
VERIFIER_CUT = REWARD * 1_000 // BPS


def trainers_paid(stage: ScoreStage) -> list[int]:
    return [stage.system.pool.pending(p.payout) for p in stage.job.trainers]


def verifiers_paid(stage: ScoreStage) -> list[int]:
    return [stage.system.pool.pending(p.payout) for p in stage.verifiers]


def proposer_paid(stage: ScoreStage) -> int:
    return int(stage.system.pool.pending(stage.job.aggregators[0].payout))


def check_money(stage: ScoreStage) -> None:
    """What was funded is credited, set aside or in escrow, and the contracts hold what they owe."""
    pool = stage.system.pool
    credited = sum(trainers_paid(stage)) + sum(verifiers_paid(stage)) + proposer_paid(stage)
    assert credited == pool.total_pending()
    assert pool.total_reserved() == pool.carried(1)  # of what is spoiled
    assert pool.escrow(1) + pool.carried(1) + pool.total_held() + credited == 10 * REWARD
    assert stage.system.owed() == stage.system.balances()


def split(shares: Sequence[int], amount: int) -> list[int]:
    return [amount * share // sum(shares) for share in shares]


def by_trust(*trusts: int) -> list[int]:
    """The verifiers' cuts, all of one weight, that are shared by the cube of trust."""
    each, best = VERIFIER_CUT // len(trusts), max(trusts)
    return split([BPS * trust**3 // best**3 for trust in trusts], len(trusts) * each)


def test_scored_round__pays_the_consensus_whatever_the_result_says(stage: ScoreStage) -> None:
    round_id = stage.to_scored(HONEST, HONEST, HONEST)
    stage.finish(round_id, contributions=[1, 10**20, 1])
    each = VERIFIER_CUT // 3
    amount = REWARD - PROPOSER_CUT - 3 * each
    assert trainers_paid(stage) == split(HONEST, amount)
    assert verifiers_paid(stage) == [each] * 3
    assert proposer_paid(stage) == PROPOSER_CUT
    held = stage.system.pool.pool(1, round_id)
    assert (held.scored_round, held.trainer_amount, held.total_contribution, held.distributed) == (
        round_id,
        amount,
        SCALE,
        SCALE,
    )
    check_money(stage)


def test_scored_round__events_tell_the_amounts(stage: ScoreStage) -> None:
    round_id = stage.to_scored(HONEST, HONEST, LIE)
    stage.finish(round_id)
    # The last call went to TrainingResults, which called the pool.
    events = logged(stage.system.results)
    (paid,) = (fields for name, fields in events if name == "RewardsDistributed")
    assert paid["amounts"] == trainers_paid(stage)
    cuts = [fields["amount"] for name, fields in events if name == "CutCredited"]
    assert cuts == [proposer_paid(stage), *verifiers_paid(stage)]


def test_distrusted_verifier__what_it_loses_goes_to_the_other_verifiers(stage: ScoreStage) -> None:
    round_id = stage.to_scored(HONEST, HONEST, LIE)
    stage.finish(round_id)
    paid = verifiers_paid(stage)
    assert paid == by_trust(BPS, BPS, BPS * 15_535 // SCALE)
    assert 0 <= VERIFIER_CUT - sum(paid) < 6  # what rounding leaves
    assert paid[2] < VERIFIER_CUT // 3 < paid[0]
    assert trainers_paid(stage) == split(HONEST, REWARD - PROPOSER_CUT - sum(paid))
    check_money(stage)


def test_honest_draws_that_differ__lose_no_cut(stage: ScoreStage) -> None:
    """Three vectors at different distances: the closest has the most, and all together theirs."""
    rows = [[30_000, 20_000, 15_535], [29_000, 21_000, 15_535], [33_000, 17_000, 15_535]]
    round_id = stage.to_scored(*rows)
    trusts = [stage.scores.trust_of(1, p.node_id) for p in stage.verifiers]
    assert len(set(trusts)) == 3
    stage.finish(round_id)
    assert verifiers_paid(stage) == by_trust(*trusts)
    assert 0 <= VERIFIER_CUT - sum(verifiers_paid(stage)) < 6
    check_money(stage)


def test_silent_verifier__its_cut_goes_to_the_trainers(stage: ScoreStage) -> None:
    """Nobody gains by another's silence but those who trained."""
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [HONEST, HONEST, HONEST], silent=[2])
    stage.finish(round_id)
    each = VERIFIER_CUT // 3
    assert verifiers_paid(stage) == [each, each, 0]
    assert trainers_paid(stage) == split(HONEST, REWARD - PROPOSER_CUT - 2 * each)
    check_money(stage)


def test_verifier_without_vector__attests_for_nothing(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [HONEST, HONEST, None])
    stage.finish(round_id)
    assert verifiers_paid(stage) == [VERIFIER_CUT // 3, VERIFIER_CUT // 3, 0]
    assert trainers_paid(stage) == split(HONEST, REWARD - PROPOSER_CUT - 2 * (VERIFIER_CUT // 3))
    check_money(stage)


def test_unscored_round__pays_by_the_result_and_those_that_revealed(stage: ScoreStage) -> None:
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [[0, 0, 0], LIE, None])
    stage.finish(round_id, contributions=[1, 2, 1])
    each = VERIFIER_CUT // 3
    assert verifiers_paid(stage) == [each, each, 0]
    assert trainers_paid(stage) == split([1, 2, 1], REWARD - PROPOSER_CUT - 2 * each)
    assert stage.system.pool.pool(1, round_id).scored_round == 0
    check_money(stage)


def test_round_that_nobody_scored__verifiers_get_nothing(stage: ScoreStage) -> None:
    """Attesting alone is not what the job's sponsor pays verifiers for."""
    round_id = stage.job.to_aggregate()
    stage.finish(round_id, contributions=[1, 1, 2])
    assert verifiers_paid(stage) == [0, 0, 0]
    assert trainers_paid(stage) == split([1, 1, 2], REWARD - PROPOSER_CUT)
    check_money(stage)


def test_round_without_consensus__is_paid_by_the_newest_one(stage: ScoreStage) -> None:
    """Among those that its result names: who is not there takes nothing from the others."""
    stage.finish(stage.to_scored(HONEST, HONEST, HONEST))
    before = trainers_paid(stage)
    round_id = stage.job.to_aggregate()
    stage.score(round_id, [[1, 2, 0], LIE, None])
    ids = stage.job.ids[:2]
    stage.job.propose(round_id, nodes=ids, contributions=[1, 10**20])
    stage.job.attest(round_id)
    stage.system.results.finalize(1, round_id, ids, [1, 10**20])
    assert stage.system.pool.pool(1, round_id).scored_round == 1
    amount = REWARD - PROPOSER_CUT - 2 * (VERIFIER_CUT // 3)
    gained = [after - old for after, old in zip(trainers_paid(stage), before, strict=True)]
    assert gained == [*split(HONEST[:2], amount), 0]
    check_money(stage)


def test_round_without_consensus__of_newcomers_only__is_paid_by_its_result(
    stage: ScoreStage,
) -> None:
    stage.finish(stage.to_scored(*[[SCALE, 0, 0]] * 3))
    before = trainers_paid(stage)
    round_id = stage.job.to_aggregate()
    stage.past_commits(round_id)
    ids = stage.job.ids[1:]
    stage.job.propose(round_id, nodes=ids, contributions=[1, 3])
    stage.job.attest(round_id)
    stage.system.results.finalize(1, round_id, ids, [1, 3])
    gained = [after - old for after, old in zip(trainers_paid(stage), before, strict=True)]
    assert gained == [0, *split([1, 3], REWARD - PROPOSER_CUT)]
    check_money(stage)


def test_node_invalidated_after_the_scoring__its_share_is_set_aside(stage: ScoreStage) -> None:
    """The others are paid what they would have been: a share of the whole consensus."""
    round_id = stage.to_scored(HONEST, HONEST, HONEST)
    stage.job.propose(round_id)
    stage.job.report(round_id, stage.job.trainers[0], INVALID, *stage.verifiers[:2])
    stage.job.attest(round_id)
    stage.system.results.finalize(1, 1, stage.job.ids, stage.job.shares)
    amount = REWARD - PROPOSER_CUT - 3 * (VERIFIER_CUT // 3)
    bad, *others = split(HONEST, amount)
    assert trainers_paid(stage) == [0, *others]
    pool = stage.system.pool
    assert pool.set_aside(1, 1, stage.job.ids[0]) == pool.total_held() == bad
    check_money(stage)


def test_node_that_scored_zero__is_listed_and_paid_nothing(stage: ScoreStage) -> None:
    round_id = stage.to_scored([5, 0, 5], [5, 0, 5], [5, 0, 5])
    stage.finish(round_id)
    assert trainers_paid(stage)[1] == 0
    check_money(stage)


def test_scoring_closed_before_the_round_is_void__pays_nobody_but_stands(stage: ScoreStage) -> None:
    """Who stands best was measured, whether or not a result came of it."""
    round_id = stage.to_scored(HONEST, HONEST, HONEST)
    for _ in range(2):
        stage.system.time_out(1, round_id)
    assert stage.system.pool.total_pending() == 0
    assert stage.scores.last_scored(1) == round_id
    check_money(stage)


def test_upheld_challenge__the_scores_stay_for_the_next_proposal(stage: ScoreStage) -> None:
    round_id = stage.to_scored(HONEST, HONEST, HONEST)
    stage.job.propose(round_id)
    stage.job.challenge(round_id)
    rounds = stage.system.rounds
    result = rounds.round(1, round_id).result_hash
    owner = stage.system.coordinator.address
    stage.system.results.resolve_challenge(1, round_id, result, True, sender=owner)
    stage.job.propose(round_id, player=stage.job.verifiers[0])
    stage.job.attest(round_id)
    stage.system.results.finalize(1, 1, stage.job.ids, stage.job.shares)
    amount = REWARD - PROPOSER_CUT - 3 * (VERIFIER_CUT // 3)
    assert trainers_paid(stage) == list(split(HONEST, amount))
    check_money(stage)


def test_verifier_that_proposes__its_proposers_cut_is_not_scaled(stage: ScoreStage) -> None:
    """Trust is about scores; the first cut is for the merge."""
    round_id = stage.to_scored(HONEST, HONEST, LIE)
    stage.system.time_out(1, round_id)
    liar = stage.verifiers[2]
    stage.job.propose(round_id, player=liar)
    stage.job.attest(round_id)
    stage.system.results.finalize(1, 1, stage.job.ids, stage.job.shares)
    own = by_trust(BPS, BPS, BPS * 15_535 // SCALE)[2]
    assert verifiers_paid(stage)[2] == PROPOSER_CUT + own
    check_money(stage)


def test_two_batches__pay_what_one_would(system: System) -> None:
    """More than 64 nodes are settled in two transactions, though the result names one only."""
    stage = make_scores(system, trainers=66)
    row = [place + 1 for place in range(66)]
    round_id = stage.to_scored(row, row, row)
    named = [stage.job.ids[3]], [1]
    stage.job.propose(round_id, None, *named)
    stage.job.attest(round_id)
    system.results.finalize(1, 1, *named)
    assert trainers_paid(stage)[64:] == [0, 0]
    assert system.pool.total_reserved() > 0
    system.results.settle(1, 1, *named)
    amount = REWARD - PROPOSER_CUT - 3 * (VERIFIER_CUT // 3)
    assert trainers_paid(stage) == split(row, amount)
    check_money(stage)


def test_ordinary_job_beside_it__is_paid_by_its_result(system: System) -> None:
    stage = make_scores(system, adopt=False)
    round_id = stage.job.to_aggregate()
    stage.finish(round_id, contributions=[1, 2, 1])
    each = VERIFIER_CUT // 3
    assert verifiers_paid(stage) == [each] * 3
    assert trainers_paid(stage) == split([1, 2, 1], REWARD - PROPOSER_CUT - 3 * each)
    check_money(stage)
