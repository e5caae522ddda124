# SPDX-License-Identifier: Apache-2.0
"""attest, challenge, resolve_challenge: fixed-denominator quorum, bonds, the owner's decision."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import block, mine
from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import EVIDENCE, RoundStage
from tests.stage.contracts.system import (
    AGGREGATE,
    BAD_RESULT,
    BOND,
    CHALLENGE,
    DISPUTED,
    STAKE,
    VOICE,
    ZERO,
    events_of,
    refuses,
)


def result_of(stage: RoundStage) -> bytes:
    return bytes(stage.system.rounds.round(1, 1).result_hash)


def test_attest__counts_the_snapshot_weight(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_challenge()
    first, second, _ = stage.verifiers
    stage.system.add_stake(first, STAKE)
    result = result_of(stage)
    results.attest(1, 1, first.node_id, result, sender=first.operator)
    assert events_of(results) == [
        of_round("Attested", verifier_id=first.node_id, result_hash=result, weight=VOICE)
    ]
    assert rounds.round(1, 1).attested_stake == VOICE
    assert not results.can_finalize(1, 1)
    stage.attest(1, second)
    assert not results.can_finalize(1, 1)
    stage.to_last_half(1)
    assert results.can_finalize(1, 1)


def test_attest__while_disputed__counts_until_the_deadline(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    stage.to_disputed()
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    stage.attest(1, stage.verifiers[0])
    assert rounds.round(1, 1).attested_stake == VOICE
    assert not results.can_finalize(1, 1)
    boa.env.evm.patch.timestamp += 1
    with refuses("results: too late"):
        stage.attest(1, stage.verifiers[1])


def test_attest_and_challenge__after_the_deadline__revert(stage: RoundStage) -> None:
    stage.to_challenge()
    boa.env.evm.patch.timestamp = stage.system.rounds.round(1, 1).deadline
    stage.attest(1, stage.verifiers[0])
    boa.env.evm.patch.timestamp += 1
    with refuses("results: too late"):
        stage.attest(1, stage.verifiers[1])
    with refuses("results: too late"):
        stage.challenge(1)


def test_challenge__takes_the_bond(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_challenge()
    result = result_of(stage)
    results.challenge(1, 1, result, EVIDENCE, sender=stage.challenger)
    assert events_of(results) == [
        of_round("Challenged", challenger=stage.challenger, evidence=EVIDENCE, bond=BOND),
        of_round("PhaseChanged", phase=DISPUTED, deadline=boa.env.timestamp + 800),
        event("BondTaken", account=stage.challenger, amount=BOND),
    ]
    assert rounds.round(1, 1).challenger == stage.challenger
    assert results.bonds_held() == BOND
    assert stage.system.token.balanceOf(results.address) == BOND


def test_challenge__attested_by_everybody__still_possible(stage: RoundStage) -> None:
    stage.to_challenge()
    stage.attest(1)
    stage.challenge(1)
    with refuses("results: not finalizable"):
        stage.finalize()


def test_announce_challenge__takes_a_deposit_and_challenge_gives_it_back(
    stage: RoundStage, results: Any
) -> None:
    stage.to_challenge()
    sender, scope = stage.challenger, bytes.fromhex(stage.challenger[2:].rjust(64, "0"))
    digest = stage.announce_challenge(1, sender)
    assert events_of(results) == [
        event("Announced", scope=scope, digest=digest),
        event("BondTaken", account=sender, amount=BOND),
    ]
    announced_in = block() - 1
    with refuses("announcements: already announced"):
        results.announce_challenge(digest, sender=sender)
    stage.challenge(1)
    opened = {"subject": result_of(stage), "scope": scope, "finder": int(sender, 16)}
    assert events_of(results)[:2] == [
        event("AnnouncementOpened", **opened, announced_in=announced_in),
        event("BondCredited", account=sender, amount=BOND),
    ]
    assert results.bonds_held() == 2 * BOND
    with refuses("announcements: not announced"):
        results.expire_announcement(sender, digest)


def test_challenge__of_another_result_than_announced__opens_nothing(
    stage: RoundStage, owner: str, results: Any
) -> None:
    """Neither does a challenge in the block of its announcement: both might have been copied."""
    stage.to_challenge()
    digest = stage.announce_challenge(1, stage.challenger, evidence=bytes(32))
    result, what = result_of(stage), int.from_bytes(result_of(stage), "big")
    late = stage.announcement(results, 1, what, int(stage.stranger, 16))
    results.announce_challenge(late, sender=stage.stranger)
    results.challenge(1, 1, result, EVIDENCE, sender=stage.stranger)
    with refuses("results: already challenged"):
        stage.challenge(1)
    results.resolve_challenge(1, 1, result, True, sender=owner)
    registry = stage.system.registry
    assert registry.bounty(stage.challenger) == registry.bounty(stage.stranger) == 0
    with refuses("announcements: too early"):
        results.expire_announcement(stage.challenger, digest)


def test_resolve_challenge__upheld(
    stage: RoundStage, rounds: Any, owner: str, results: Any
) -> None:
    stage.to_challenge()
    proposer = rounds.round(1, 1).proposer
    stage.attest(1)
    stage.announce_challenge(1, stage.challenger)
    stage.challenge(1)
    results.resolve_challenge(1, 1, result_of(stage), True, sender=owner)
    assert events_of(results) == [
        of_round("ChallengeResolved", upheld=True),
        event("BondCredited", account=stage.challenger, amount=BOND),
        of_round("PhaseChanged", phase=AGGREGATE, deadline=boa.env.timestamp + 400),
    ]
    registry = stage.system.registry
    slashed = STAKE * 20 // 100
    assert registry.offences(proposer, BAD_RESULT) == 1
    assert registry.bonded(proposer) == STAKE - slashed
    assert registry.bounty(stage.challenger) == slashed // 2
    state = rounds.round(1, 1)
    assert (state.proposer, state.attested_stake, state.result_hash) == (0, 0, bytes(32))
    assert state.challenger == ZERO
    assert results.aggregator_on_duty(1, 1) == 0
    assert results.withdraw_bond(sender=stage.challenger) == 2 * BOND  # the deposit too


def test_resolve_challenge__upheld__old_attestations_do_not_count(
    stage: RoundStage, rounds: Any, owner: str, results: Any
) -> None:
    """The same result proposed again needs new attestations."""
    stage.to_challenge()
    stage.attest(1)
    stage.challenge(1)
    results.resolve_challenge(1, 1, result_of(stage), True, sender=owner)
    stage.propose(1, stage.verifiers[0])
    assert rounds.round(1, 1).attested_stake == 0
    with refuses("results: not finalizable"):
        stage.finalize()
    stage.attest(1)
    stage.finalize()


def test_resolve_challenge__rejected(
    stage: RoundStage, rounds: Any, owner: str, results: Any
) -> None:
    stage.to_challenge()
    stage.attest(1, stage.verifiers[0])
    stage.challenge(1)
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    results.resolve_challenge(1, 1, result_of(stage), False, sender=owner)
    assert events_of(results) == [
        of_round("ChallengeResolved", upheld=False),
        event("BondCredited", account=owner, amount=BOND),
        of_round("PhaseChanged", phase=CHALLENGE, deadline=boa.env.timestamp + 300),
    ]
    assert rounds.round(1, 1).attested_stake == VOICE
    assert results.bond_credit(stage.challenger) == 0
    with refuses("bonds: nothing to withdraw"):
        results.withdraw_bond(sender=stage.challenger)
    assert results.bond_credit(owner) == BOND
    with refuses("results: already challenged"):
        stage.challenge(1)
    assert results.bonds_held() == BOND


@pytest.mark.parametrize(("waited", "window"), [(0, 300), (100, 200), (151, 150), (300, 150)])
def test_resolve_challenge__rejected__what_was_left_of_the_window_goes_on(
    stage: RoundStage, rounds: Any, owner: str, results: Any, waited: int, window: int
) -> None:
    stage.to_challenge()
    mine(1, waited)
    stage.challenge(1)
    mine(1, 400)
    results.resolve_challenge(1, 1, result_of(stage), False, sender=owner)
    assert rounds.round(1, 1).deadline == boa.env.timestamp + window


def test_resolve_challenge__upheld__the_next_result_may_be_challenged(
    stage: RoundStage, owner: str, results: Any
) -> None:
    stage.to_disputed()
    results.resolve_challenge(1, 1, result_of(stage), True, sender=owner)
    stage.propose(1, stage.verifiers[0])
    assert not results.is_challenged(1, 1)
    stage.challenge(1)
    assert results.bonds_held() == 2 * BOND


def test_withdraw_bond__pays_once(stage: RoundStage, owner: str, results: Any) -> None:
    stage.to_disputed()
    results.resolve_challenge(1, 1, result_of(stage), True, sender=owner)
    assert results.withdraw_bond(sender=stage.challenger) == BOND
    assert events_of(results) == [event("BondWithdrawn", account=stage.challenger, amount=BOND)]
    assert results.bonds_held() == 0
    with refuses("bonds: nothing to withdraw"):
        results.withdraw_bond(sender=stage.challenger)
