# SPDX-License-Identifier: Apache-2.0
"""Attacks with reports: by one verifier, by late stake, to delay, to take a share for good; and
what a convict earns while its appeal window runs."""

from __future__ import annotations

import pytest

from tests.stage.contracts.clock import mine
from tests.stage.contracts.rounds import EVIDENCE, RoundStage, make_rounds
from tests.stage.contracts.system import (
    APPEAL_BOND,
    CHALLENGE,
    INVALID,
    REWARD,
    STAKE,
    TERMS,
    VERIFIER,
    ZOO,
    System,
    refuses,
)
from tests.stage.contracts.wealth import of_player

TRAINERS_PART = 85 * ZOO  # of a round's reward; shares of 1, 2 and 3 sixths
FIRST_TWO = TRAINERS_PART // 6 + TRAINERS_PART // 3


@pytest.fixture
def at_work(stage: RoundStage) -> RoundStage:
    """Round 1 has a result."""
    stage.to_challenge()
    return stage


def execute(stage: RoundStage, *report_ids: bytes) -> None:
    mine(1, TERMS["appeal_s"] + 1)
    for report_id in report_ids:
        stage.system.reports.execute(report_id)


def test_one_verifier__while_the_others_rest__convicts_nobody(stage: RoundStage) -> None:
    """Two of three verifiers rest. The third reports two honest trainers so that its friend gets
    what they would have got, and finalizes alone."""
    system, (evil, *resting) = stage.system, stage.verifiers
    for player in resting:
        system.registry.set_active(player.node_id, False, sender=player.operator)
    round_id = stage.to_challenge()
    victims, friend = stage.trainers[:2], stage.trainers[2]
    before, worth = of_player(system, evil, friend), of_player(system, *victims)
    reports = [stage.report(round_id, victim, INVALID, evil) for victim in victims]
    assert all(system.reports.report_of(report).status == 1 for report in reports)
    stage.attest(round_id, evil)
    assert not system.results.can_finalize(1, round_id)
    system.wait_out(1, round_id)
    stage.finalize()
    # The cut of the only one that attested, and the friend's half: what they earned.
    assert of_player(system, evil, friend) - before == 10 * ZOO + TRAINERS_PART // 2
    assert of_player(system, *victims) - worth == FIRST_TWO


def test_stake_added_in_the_block_of_the_round__has_no_weight(stage: RoundStage) -> None:
    """A verifier adds thirty times the others' stake, opens a round in the same block, and is the
    two thirds that convict."""
    system, evil = stage.system, stage.verifiers[0]
    system.token.transfer(evil.owner, 30 * STAKE, sender=system.holder)
    system.registry.add_stake(evil.node_id, 30 * STAKE, sender=evil.owner)
    round_id = stage.to_challenge()
    weights = [system.results.verifier_weight(1, round_id, v.node_id) for v in stage.verifiers]
    assert weights[0] == weights[1] == weights[2]
    victim = stage.trainers[0]
    worth = of_player(system, victim)
    report = stage.report(round_id, victim, INVALID, evil)
    assert system.reports.report_of(report).status == 1
    stage.attest(round_id, *stage.verifiers[1:])
    system.wait_out(1, round_id)
    stage.finalize()
    assert of_player(system, victim) - worth == TRAINERS_PART // 6


def test_two_thirds_of_the_weight_in_one_hand__is_not_enough(system: System) -> None:
    """Where only one verifier has a voice it has all of the weight, and still convicts nobody and
    makes nothing final before its window has passed."""
    stage = make_rounds(system)
    for player in stage.verifiers[1:]:
        system.registry.begin_exit(player.node_id, sender=player.owner)
    round_id = stage.to_challenge()
    report = stage.report(round_id, stage.trainers[0], INVALID, stage.verifiers[0])
    assert system.reports.report_of(report).weight == system.results.result(1, 1).verifier_stake
    assert system.reports.report_of(report).status == 1
    stage.attest(round_id, stage.verifiers[0])
    assert not system.results.can_finalize(1, round_id)


def test_false_report_of_a_small_voice__early_finalization__is_not_delayed(
    system: System,
) -> None:
    """A verifier with a seventh of the weight opens a false report in each round: everybody waits
    for the challenge window to pass. It can be silent, which costs its cut: then they wait for half
    of the window."""
    small = system.join("small", VERIFIER, stake=100 * ZOO)
    stage = make_rounds(system)
    round_id = stage.to_challenge()
    stage.report(round_id, stage.trainers[0], INVALID, small)
    assert not system.results.can_finalize(1, round_id)
    stage.attest(round_id)
    stage.to_last_half(round_id)  # the small one is silent
    assert system.results.can_finalize(1, round_id)
    stage.finalize()
    system.reports.lapse(system.reports.report_id_of(1, 1, stage.trainers[0].node_id, INVALID))


def test_report_of_a_third__early_finalization__waits_for_it(at_work: RoundStage) -> None:
    """The other side of the same rule: a third of the weight that sees a cheat is heard."""
    stage = at_work
    stage.attest(1)
    assert stage.system.results.can_finalize(1, 1)
    stage.report(1, stage.trainers[2], INVALID, stage.verifiers[0])
    assert not stage.system.results.can_finalize(1, 1)
    assert stage.system.results.result(1, 1).open_reports == 1
    stage.report(1, stage.trainers[2], INVALID, stage.verifiers[1])
    assert stage.system.results.result(1, 1).open_reports == 0
    assert stage.system.results.can_finalize(1, 1)


@pytest.mark.parametrize("settled_first", [False, True])
def test_false_conviction__appeal_upheld__the_victim_gets_its_share(
    at_work: RoundStage, settled_first: bool
) -> None:
    """Two of three verifiers convict an honest trainer so that the others, or the sponsor, get its
    half of the pool. Its appeal is upheld before, or after, the round is settled."""
    stage, system, victim = at_work, at_work.system, at_work.trainers[2]
    owner = system.coordinator.address
    others = of_player(system, *stage.trainers[:2])
    report = stage.report(1, victim, INVALID, *stage.verifiers[:2])
    system.token.transfer(victim.owner, APPEAL_BOND, sender=system.holder)
    worth = of_player(system, victim)
    evil = of_player(system, *stage.verifiers[:2])
    stage.attest(1)
    if settled_first:
        stage.finalize()
        assert system.pool.set_aside(1, 1, victim.node_id) == TRAINERS_PART // 2
        assert system.pool.total_held() == TRAINERS_PART // 2
        assert of_player(system, victim) == worth
    system.reports.appeal(report, EVIDENCE, sender=victim.owner)
    system.reports.resolve_appeal(report, True, sender=owner)
    assert not system.results.is_invalid(1, 1, victim.node_id)
    if not settled_first:
        stage.finalize()
    cut = 10 * ZOO // 3
    slashed = STAKE // 5
    assert of_player(system, victim) - worth == TRAINERS_PART // 2 + slashed
    assert of_player(system, *stage.verifiers[:2]) - evil == 2 * (cut - slashed)
    assert of_player(system, *stage.trainers[:2]) - others == FIRST_TWO
    assert system.pool.total_held() == 0


@pytest.mark.parametrize("settled_first", [False, True])
def test_conviction__share_of_the_cheat__is_carried(
    at_work: RoundStage, settled_first: bool
) -> None:
    """A cheat's sponsor has it convicted so that its share goes back to the escrow: it is the next
    round's trainers', whenever the round is settled. The cheat is not among them."""
    stage, system, cheat = at_work, at_work.system, at_work.trainers[2]
    worth = of_player(system, cheat)
    others = of_player(system, *stage.trainers[:2])
    report = stage.report(1, cheat, INVALID, *stage.verifiers[:2])
    stage.attest(1)
    escrow, pool = system.pool.escrow(1), system.pool
    if settled_first:
        stage.finalize()
        assert (pool.escrow(1), pool.carried(1)) == (escrow, 2)  # dust of cuts and shares
        execute(stage, report)
    else:
        execute(stage, report)
        stage.finalize()
    assert pool.escrow(1) == escrow
    assert pool.carried(1) == pool.carried_for_trainers(1) == TRAINERS_PART // 2 + 2
    assert of_player(system, cheat) - worth == -(STAKE // 5)
    assert of_player(system, *stage.trainers[:2]) - others == FIRST_TWO
    assert system.pool.total_held() == 0


def test_undecided_appeal__the_share__is_the_nodes(at_work: RoundStage) -> None:
    """The committee sleeps: nobody is slashed, so nobody may lose its pay either."""
    stage, system, node = at_work, at_work.system, at_work.trainers[2]
    report = stage.report(1, node, INVALID, *stage.verifiers[:2])
    stage.attest(1)
    stage.finalize()
    system.token.transfer(node.owner, APPEAL_BOND, sender=system.holder)
    worth = of_player(system, node)
    system.reports.appeal(report, EVIDENCE, sender=node.owner)
    mine(1, TERMS["dispute_s"] + 1)
    system.reports.dismiss_unresolved(report)
    assert of_player(system, node) - worth == TRAINERS_PART // 2


def test_convict__in_the_next_round__is_not_expected(at_work: RoundStage) -> None:
    """A cheat goes on working, and being paid, until its appeal window has passed."""
    stage, system, cheat = at_work, at_work.system, at_work.trainers[2]
    stage.report(1, cheat, INVALID, *stage.verifiers[:2])
    stage.attest(1)
    stage.finalize()
    round_id = stage.to_commit()
    assert not system.rounds.is_expected(1, round_id, cheat.node_id)


def test_convict__in_a_round_that_was_open_already__is_paid_when_its_stake_is_free(
    system: System,
) -> None:
    """A cheat works in two jobs at once. It is convicted in one, and paid nothing out of the other
    until the report on it has its end: then of what it was not convicted for, nothing is lost."""
    stage = make_rounds(system)
    cheat = stage.trainers[2]
    other = system.job(stage.sponsor)
    second = RoundStage(**{**vars(stage), "job_id": other})
    second.to_challenge()
    second.attest(1)
    stage.to_challenge()
    report = stage.report(1, cheat, INVALID, *stage.verifiers[:2])
    worth = of_player(system, cheat)
    second.finalize()
    assert of_player(system, cheat) == worth
    assert system.pool.held(cheat.node_id) == TRAINERS_PART // 2
    with refuses("pool: node locked"):
        system.pool.release(cheat.node_id)
    execute(stage, report)
    assert of_player(system, cheat) - worth == TRAINERS_PART // 2 - STAKE // 5
    assert system.pool.held(cheat.node_id) == system.pool.total_held() == 0
    with refuses("pool: nothing held"):
        system.pool.release(cheat.node_id)


def test_second_verdict__after_an_upheld_appeal__is_refused(at_work: RoundStage) -> None:
    """The third verifier adds its voice to a report that was dismissed, or opens one of the other
    kind: the victim was judged, and is not judged twice."""
    stage, system, victim = at_work, at_work.system, at_work.trainers[2]
    report = stage.report(1, victim, INVALID, *stage.verifiers[:2])
    system.token.transfer(victim.owner, APPEAL_BOND, sender=system.holder)
    system.reports.appeal(report, EVIDENCE, sender=victim.owner)
    system.reports.resolve_appeal(report, True, sender=system.coordinator.address)
    assert system.phase(1, 1) == CHALLENGE
    with refuses("reports: already confirmed"):
        stage.report(1, victim, INVALID, stage.verifiers[2])


def test_banned_verifier__of_the_snapshot__has_no_say(at_work: RoundStage) -> None:
    """A verifier that is suspended or banned in the middle of a round still has its weight of the
    snapshot, and would make the result final with it."""
    stage, system, evil = at_work, at_work.system, at_work.verifiers[0]
    slasher = system.results.address
    system.registry.slash(evil.node_id, 6, 0, system.holder, sender=slasher)
    with refuses("results: not operator"):
        stage.attest(1, evil)
    with refuses("reports: not operator"):
        stage.report(1, stage.trainers[0], INVALID, evil)


def test_clear_and_settle_share__by_strangers__revert(at_work: RoundStage) -> None:
    """A convict clears itself, or has its own share settled."""
    stage, system, cheat = at_work, at_work.system, at_work.trainers[2]
    stage.report(1, cheat, INVALID, *stage.verifiers[:2])
    for sender in (cheat.operator, system.coordinator.address, system.results.address):
        with refuses("results: not reports"):
            system.results.clear(1, 1, cheat.node_id, sender=sender)
        with refuses("pool: not reports"):
            system.pool.settle_share(1, 1, cheat.node_id, False, sender=sender)
    assert system.pool.total_reserved() == REWARD
