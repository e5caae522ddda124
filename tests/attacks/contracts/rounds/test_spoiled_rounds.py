# SPDX-License-Identifier: Apache-2.0
"""Attacks of a sponsor that spoils its own rounds, to have their work and keep their pay."""

from __future__ import annotations

from tests.stage.contracts.clock import wait
from tests.stage.contracts.rounds import RoundStage
from tests.stage.contracts.system import INVALID, REWARD, TERMS, VOID, refuses
from tests.stage.contracts.wealth import of_player, of_sponsor


def void(stage: RoundStage, round_id: int) -> None:
    """A friend has proposed a result, and the committee doesn't decide the friend's challenge."""
    stage.system.wait_out(stage.job_id, round_id)
    stage.system.results.advance(stage.job_id, round_id)
    assert stage.system.phase(stage.job_id, round_id) == VOID


def test_void_round_with_a_result__the_next_round_pays_both(stage: RoundStage) -> None:
    """The payloads are public, so the sponsor has the work; its round pays nobody."""
    system = stage.system
    before = of_sponsor(system, stage.sponsor, 1), of_player(system, *stage.trainers)
    void(stage, stage.to_disputed())
    assert of_sponsor(system, stage.sponsor, 1) - before[0] == -REWARD
    stage.to_finalized()
    pot = 2 * REWARD * 85 // 100
    gained = of_player(system, *stage.trainers) - before[1]
    assert 0 <= gained - pot < 10
    assert of_sponsor(system, stage.sponsor, 1) - before[0] <= -2 * REWARD + 10


def test_void_round_without_work_after_it__keeps_what_was_carried(stage: RoundStage) -> None:
    """After a spoiled round the sponsor lets one pass in which nobody works."""
    system = stage.system
    void(stage, stage.to_disputed())
    stage.to_commit()
    system.wait_out(1, 2)
    system.advance(1, 2)
    assert system.phase(1, 2) == VOID
    assert (system.pool.carried(1), system.pool.escrow(1)) == (REWARD, 9 * REWARD)


def test_void_round__cancelled_job__its_pay_is_the_treasurys(stage: RoundStage) -> None:
    system = stage.system
    treasury = system.registry.parameters().treasury
    void(stage, stage.to_disputed())
    system.jobs.cancel_job(1, sender=stage.sponsor)
    assert system.pool.refund(1, sender=stage.sponsor) == 9 * REWARD
    assert system.pool.forfeit_carried(1, sender=stage.stranger) == REWARD
    assert system.pool.pending(treasury) == REWARD


def test_own_noise__its_share_is_the_honest_trainers_in_the_next_round(stage: RoundStage) -> None:
    """The sponsor's trainer sends noise and is found: verifiers' and proposer's cuts don't grow."""
    system, own = stage.system, stage.trainers[2]
    round_id = stage.to_challenge()
    report = stage.report(round_id, own, INVALID, *stage.verifiers[:2])
    stage.attest(round_id)
    stage.finalize()
    escrow = system.pool.escrow(1)
    wait(TERMS["appeal_s"] + 1)
    system.reports.execute(report)
    assert system.pool.escrow(1) == escrow
    share = system.pool.carried(1)
    assert 0 <= share - 85 * REWARD // 200 < 10
    verifiers = [system.pool.pending(p.payout) for p in stage.verifiers]
    nodes, parts = stage.ids[:2], stage.shares[:2]
    honest = of_player(system, *stage.trainers[:2])
    round_id = stage.to_reveal(stage.trainers[:2])
    stage.reveal_all(round_id, *stage.trainers[:2])
    stage.propose(round_id, nodes=nodes, contributions=parts)
    stage.attest(round_id)
    system.results.finalize(1, round_id, nodes, parts)
    gained = of_player(system, *stage.trainers[:2]) - honest
    assert 0 <= gained - (85 * REWARD // 100 + share) < 10
    assert [system.pool.pending(p.payout) for p in stage.verifiers] == [2 * v for v in verifiers]


def test_fast_verifiers__a_slow_one__has_half_of_the_window(stage: RoundStage) -> None:
    """Two of three attest in the first second and would share the third one's cut, or make a wrong
    result final before it can say so."""
    round_id = stage.to_challenge()
    stage.attest(round_id, *stage.verifiers[:2])
    with refuses("results: not finalizable"):
        stage.finalize()
    wait(TERMS["challenge_s"] // 2 - 10)
    with refuses("results: not finalizable"):
        stage.finalize()
    stage.attest(round_id, stage.verifiers[2])
    stage.finalize()
    cuts = {stage.system.pool.pending(p.payout) for p in stage.verifiers}
    assert cuts == {REWARD // 10 // 3}
