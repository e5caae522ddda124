# SPDX-License-Identifier: Apache-2.0
"""Retained pay answers for a node's work as long as it can work: it can't be taken out before a
lie, nobody but the treasury wins by a conviction, and no unit of it stays behind."""

from __future__ import annotations

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.rounds import EVIDENCE, RoundStage, make_rounds
from tests.stage.contracts.system import (
    APPEAL_BOND,
    INVALID,
    TERMS,
    UNBONDING,
    ZOO,
    System,
    refuses,
)
from tests.stage.contracts.wealth import of_player, of_sponsor

RETAINED = 2  # rounds' pay
POT = 85 * ZOO + 1  # the trainers' part, with the dust of three verifiers' cuts
PAY = [POT * part // 6 for part in (1, 2, 3)]


@pytest.fixture
def stage(system: System) -> RoundStage:
    return make_rounds(system, retain_rounds=RETAINED, rounds=20)


def retained(stage: RoundStage) -> list[int]:
    return [stage.system.pool.retained(stage.job_id, node) for node in stage.ids]


def pending(stage: RoundStage) -> list[int]:
    return [stage.system.pool.pending(p.payout) for p in stage.trainers]


def play(stage: RoundStage, rounds: int = 1, without: int | None = None) -> None:
    """Rounds to their end; trainer number `without` doesn't commit."""
    system = stage.system
    there = [p for number, p in enumerate(stage.trainers) if number != without]
    for _ in range(rounds):
        round_id = stage.to_reveal(there)
        stage.reveal_all(round_id, *there)
        if system.phase(stage.job_id, round_id) == 2:
            system.time_out(stage.job_id, round_id)
        nodes, parts = [p.node_id for p in there], [stage.shares[p] for p in range(len(there))]
        stage.propose(round_id, nodes=nodes, contributions=parts)
        stage.attest(round_id)
        system.results.finalize(stage.job_id, round_id, nodes, parts)


def release(stage: RoundStage, number: int = 2) -> int:
    node = stage.trainers[number].node_id
    return int(stage.system.pool.release_retained(stage.job_id, node, sender=stage.stranger))


def refused(stage: RoundStage, reason: str, number: int = 2) -> None:
    with refuses(f"pool: {reason}"):
        release(stage, number)


def end(stage: RoundStage) -> None:
    stage.system.jobs.cancel_job(stage.job_id, sender=stage.sponsor)


def test_pay_of_the_first_rounds__is_retained_and_later_pay_is_not(stage: RoundStage) -> None:
    for number in range(1, 5):
        play(stage)
        kept = min(number, RETAINED)
        assert retained(stage) == [kept * pay for pay in PAY]
        assert pending(stage) == [(number - kept) * pay for pay in PAY]
        assert stage.system.balances() == stage.system.owed()


def test_more_pay__fills_up_and_less_pay_frees_nothing(stage: RoundStage) -> None:
    play(stage, RETAINED)
    play(stage, without=2)  # the others get 85 ZOO in two parts of three
    first, second, third = retained(stage)
    more = [POT // 3, POT * 2 // 3]  # twice as much, so twice the retained pay
    assert [first, second] == [
        min(2 * now, 2 * pay + now) for now, pay in zip(more, PAY[:2], strict=True)
    ]
    assert third == RETAINED * PAY[2]
    play(stage)
    assert retained(stage) == [first, second, third]


def test_lying_after_the_pay_was_taken_out__is_not_possible_while_at_work(
    stage: RoundStage,
) -> None:
    """Attack: eve works honestly until little of her work is drawn, and takes out what the draw
    counts on before her lie is found. In no phase of a round, nor between two."""
    play(stage, RETAINED)
    system = stage.system
    refused(stage, "still working")
    round_id = stage.to_commit()
    refused(stage, "still working")
    stage.commit_all(round_id, *stage.trainers)
    refused(stage, "still working")
    stage.reveal_all(round_id, *stage.trainers)
    refused(stage, "still working")
    stage.propose(round_id)
    refused(stage, "still working")
    report = stage.report(round_id, stage.trainers[2], INVALID, *stage.verifiers[:2])
    refused(stage, "node locked")
    stage.attest(round_id)
    stage.finalize()
    end(stage)
    refused(stage, "node locked")
    mine(1, TERMS["appeal_s"] + 1)
    system.reports.execute(report)
    refused(stage, "nothing retained")


def test_lying_after_a_pause__meets_a_round_that_does_not_count_what_left(
    stage: RoundStage,
) -> None:
    """Attack: eve stays away for as many rounds as her pay was retained for. In the next one she
    may commit, and the draw counts what was there when it opened: so it stays until she can't."""
    play(stage, RETAINED)
    play(stage, RETAINED - 1, without=2)
    refused(stage, "still working")
    stage.to_commit()
    refused(stage, "still working")
    stage.commit_all(RETAINED * 2, *stage.trainers[:2])
    stage.system.time_out(stage.job_id, RETAINED * 2)
    assert release(stage) == RETAINED * PAY[2]
    assert retained(stage)[2] == 0 and pending(stage)[2] == RETAINED * PAY[2]
    refused(stage, "nothing retained")
    refused(stage, "still working", 0)


def test_conviction__takes_all_of_it_for_the_treasury_and_nothing_for_the_sponsor(
    stage: RoundStage,
) -> None:
    """Attack: a sponsor and its two verifiers convict a node to have its pay of all rounds back.
    They get nothing. The share of the one round is the other trainers' in the next one."""
    system = stage.system
    play(stage, RETAINED)
    round_id = stage.to_challenge()
    victim, evil = stage.trainers[2], stage.verifiers[:2]
    report = stage.report(round_id, victim, INVALID, *evil)
    stage.attest(round_id)
    stage.finalize()
    treasury = system.registry.parameters().treasury
    before = of_sponsor(system, stage.sponsor, stage.job_id), of_player(system, *evil)
    had = system.pool.pending(treasury)
    mine(1, TERMS["appeal_s"] + 1)
    system.reports.execute(report)
    told = events_of(system.reports, system.pool)
    after = of_sponsor(system, stage.sponsor, stage.job_id), of_player(system, *evil)
    assert after == before
    kept = system.pool.carried_for_trainers(stage.job_id)
    assert kept - PAY[2] == 2  # dust of cuts and shares
    assert system.pool.pending(treasury) - had == RETAINED * PAY[2]
    wanted = event(
        "RetainedForfeited",
        job_id=stage.job_id,
        node_id=victim.node_id,
        treasury=treasury,
        amount=RETAINED * PAY[2],
    )
    assert wanted in told
    assert retained(stage) == [RETAINED * pay for pay in PAY[:2]] + [0]
    assert system.balances() == system.owed()


def test_false_conviction__upheld_appeal__leaves_it_where_it_is(stage: RoundStage) -> None:
    system, victim = stage.system, stage.trainers[2]
    play(stage, RETAINED)
    round_id = stage.to_challenge()
    report = stage.report(round_id, victim, INVALID, *stage.verifiers[:2])
    stage.attest(round_id)
    stage.finalize()
    system.token.transfer(victim.owner, APPEAL_BOND, sender=system.holder)
    system.reports.appeal(report, EVIDENCE, sender=victim.owner)
    system.reports.resolve_appeal(report, True, sender=system.coordinator.address)
    assert retained(stage)[2] == RETAINED * PAY[2] and pending(stage)[2] == PAY[2]
    end(stage)
    assert release(stage) == RETAINED * PAY[2]


def test_ended_job__anyone_releases_each_node_once(stage: RoundStage) -> None:
    play(stage, 1)
    end(stage)
    for number, pay in enumerate(PAY):
        assert release(stage, number) == pay
        refused(stage, "nothing retained", number)
    assert pending(stage) == PAY and retained(stage) == [0, 0, 0]
    assert stage.system.pool.total_held() == 0
    assert stage.system.balances() == stage.system.owed()


def test_leaving_node__gets_it_with_its_stake_and_not_before(stage: RoundStage) -> None:
    """Also where the job goes on: what answers for the work leaves with what is slashable."""
    play(stage, 1)
    leaver, registry = stage.trainers[2], stage.system.registry
    registry.begin_exit(leaver.node_id, sender=leaver.owner)
    refused(stage, "still working")
    round_id = stage.to_commit()
    mine(1, UNBONDING + 1)
    refused(stage, "still working")
    assert stage.system.phase(stage.job_id, round_id) == 1
    registry.withdraw(leaver.node_id, sender=leaver.owner)
    assert release(stage) == PAY[2]


def test_sponsor_lets_its_job_rest__the_pay_is_free_after_an_unbonding_period(
    stage: RoundStage,
) -> None:
    """Attack: a sponsor neither ends its job nor pays for another round, so that what was retained
    stays for ever."""
    play(stage, 1)
    mine(1, UNBONDING - 3_600)
    refused(stage, "still working")
    mine(1, 2 * 3_600)
    assert release(stage) == PAY[2]
    stage.to_commit()
    refused(stage, "still working", 1)


def test_job_that_retains_nothing__pays_at_once(system: System) -> None:
    stage = make_rounds(system)
    play(stage)
    assert (retained(stage), pending(stage)) == ([0, 0, 0], PAY)
    refused(stage, "nothing retained")


def test_locked_node__what_is_over_is_held(stage: RoundStage) -> None:
    """A node that stands accused elsewhere: its retained pay is filled, the rest waits."""
    play(stage, RETAINED)
    round_id = stage.to_challenge()
    registry, node = stage.system.registry, stage.trainers[2].node_id
    registry.lock(node, sender=stage.system.results.address)
    stage.attest(round_id)
    stage.finalize()
    assert stage.system.pool.held(node) == PAY[2] and retained(stage)[2] == RETAINED * PAY[2]
    assert pending(stage)[2] == 0
