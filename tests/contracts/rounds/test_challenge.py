# SPDX-License-Identifier: Apache-2.0
"""attest, challenge, resolve_challenge: fixed-denominator quorum, bonds, the owner's decision."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import system as stage
from tests.stage.contracts.clock import block, mine
from tests.stage.contracts.events import event, of_round
from tests.stage.contracts.rounds import EVIDENCE, Field
from tests.stage.contracts.system import (
    BAD_RESULT,
    BOND,
    STAKE,
    VOICE,
    ZERO,
    events_of,
    refuses,
)


def result_of(field: Field) -> bytes:
    return bytes(field.system.rounds.round(1, 1).result_hash)


def test_attest__counts_the_snapshot_weight(field: Field, rounds: Any, results: Any) -> None:
    field.to_challenge()
    first, second, _ = field.verifiers
    field.system.add_stake(first, STAKE)
    result = result_of(field)
    results.attest(1, 1, first.node_id, result, sender=first.operator)
    assert events_of(results) == [
        of_round("Attested", verifier_id=first.node_id, result_hash=result, weight=VOICE)
    ]
    assert rounds.round(1, 1).attested_stake == VOICE
    assert not results.can_finalize(1, 1)
    field.attest(1, second)
    assert results.can_finalize(1, 1)


def test_attest__twice__reverts(field: Field) -> None:
    field.to_challenge()
    field.attest(1, field.verifiers[0])
    with refuses("results: already attested"):
        field.attest(1, field.verifiers[0])


def test_attest__wrong_result__reverts(field: Field, results: Any) -> None:
    field.to_challenge()
    player = field.verifiers[0]
    with refuses("results: wrong result"):
        results.attest(1, 1, player.node_id, bytes(32), sender=player.operator)


def test_attest__not_the_operator__reverts(field: Field, results: Any) -> None:
    field.to_challenge()
    target = field.verifiers[0]
    for sender in (target.owner, field.verifiers[1].operator, field.stranger, field.sponsor):
        with refuses("results: not operator"):
            results.attest(1, 1, target.node_id, result_of(field), sender=sender)


def test_attest__not_in_the_snapshot__reverts(field: Field) -> None:
    field.to_challenge()
    late = field.system.join("late", 2, 50 * STAKE)
    for player in (late, field.trainers[0], field.aggregators[0]):
        with refuses("results: not a verifier"):
            field.attest(1, player)


def test_attest__wrong_phase__reverts(field: Field) -> None:
    for way in (field.to_commit, field.to_aggregate, field.to_finalized):
        with boa.env.anchor():
            way()
            with refuses("results: not in challenge"):
                field.attest(1, field.verifiers[0])


def test_attest__while_disputed__counts_until_the_deadline(
    field: Field, rounds: Any, results: Any
) -> None:
    field.to_disputed()
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    field.attest(1, field.verifiers[0])
    assert rounds.round(1, 1).attested_stake == VOICE
    assert not results.can_finalize(1, 1)
    boa.env.evm.patch.timestamp += 1
    with refuses("results: too late"):
        field.attest(1, field.verifiers[1])


def test_attest_and_challenge__after_the_deadline__revert(field: Field) -> None:
    field.to_challenge()
    boa.env.evm.patch.timestamp = field.system.rounds.round(1, 1).deadline
    field.attest(1, field.verifiers[0])
    boa.env.evm.patch.timestamp += 1
    with refuses("results: too late"):
        field.attest(1, field.verifiers[1])
    with refuses("results: too late"):
        field.challenge(1)


def test_challenge__takes_the_bond(field: Field, rounds: Any, results: Any) -> None:
    field.to_challenge()
    result = result_of(field)
    results.challenge(1, 1, result, EVIDENCE, sender=field.challenger)
    assert events_of(results) == [
        of_round("Challenged", challenger=field.challenger, evidence=EVIDENCE, bond=BOND),
        of_round("PhaseChanged", phase=stage.DISPUTED, deadline=boa.env.timestamp + 800),
        event("BondTaken", account=field.challenger, amount=BOND),
    ]
    assert rounds.round(1, 1).challenger == field.challenger
    assert results.bonds_held() == BOND
    assert field.system.token.balanceOf(results.address) == BOND


def test_challenge__attested_by_everybody__still_possible(field: Field) -> None:
    field.to_challenge()
    field.attest(1)
    field.challenge(1)
    with refuses("results: not finalizable"):
        field.finalize()


def test_challenge__wrong_result_or_phase__reverts(field: Field, results: Any) -> None:
    field.to_challenge()
    with refuses("results: wrong result"):
        results.challenge(1, 1, EVIDENCE, EVIDENCE, sender=field.challenger)
    assert not results.is_challenged(1, 1)
    field.challenge(1)
    assert results.is_challenged(1, 1)
    with refuses("results: already challenged"):
        field.challenge(1)


def test_announce_challenge__takes_a_deposit_and_challenge_gives_it_back(
    field: Field, results: Any
) -> None:
    field.to_challenge()
    sender, scope = field.challenger, bytes.fromhex(field.challenger[2:].rjust(64, "0"))
    digest = field.announce_challenge(1, sender)
    assert events_of(results) == [
        event("Announced", scope=scope, digest=digest),
        event("BondTaken", account=sender, amount=BOND),
    ]
    announced_in = block() - 1
    with refuses("announcements: already announced"):
        results.announce_challenge(digest, sender=sender)
    field.challenge(1)
    opened = {"subject": result_of(field), "scope": scope, "finder": int(sender, 16)}
    assert events_of(results)[:2] == [
        event("AnnouncementOpened", **opened, announced_in=announced_in),
        event("BondCredited", account=sender, amount=BOND),
    ]
    assert results.bonds_held() == 2 * BOND
    with refuses("announcements: not announced"):
        results.expire_announcement(sender, digest)


def test_announce_challenge__cannot_pay__reverts(field: Field, results: Any) -> None:
    poor = field.system.person("poor")
    with refuses("erc20: transfer amount exceeds balance"):
        results.announce_challenge(EVIDENCE, sender=poor)


def test_challenge__of_another_result_than_announced__opens_nothing(
    field: Field, owner: str, results: Any
) -> None:
    """Neither does a challenge in the block of its announcement: both might have been copied."""
    field.to_challenge()
    digest = field.announce_challenge(1, field.challenger, evidence=bytes(32))
    result, what = result_of(field), int.from_bytes(result_of(field), "big")
    late = field.announcement(results, 1, what, int(field.stranger, 16))
    results.announce_challenge(late, sender=field.stranger)
    results.challenge(1, 1, result, EVIDENCE, sender=field.stranger)
    with refuses("results: already challenged"):
        field.challenge(1)
    results.resolve_challenge(1, 1, result, True, sender=owner)
    registry = field.system.registry
    assert registry.bounty(field.challenger) == registry.bounty(field.stranger) == 0
    with refuses("announcements: too early"):
        results.expire_announcement(field.challenger, digest)


def test_challenge__cannot_pay__reverts(field: Field, results: Any) -> None:
    field.to_challenge()
    poor = field.system.person("poor")
    with refuses("erc20: transfer amount exceeds balance"):
        results.challenge(1, 1, result_of(field), EVIDENCE, sender=poor)
    assert field.system.phase(1, 1) == stage.CHALLENGE


def test_resolve_challenge__upheld(field: Field, rounds: Any, owner: str, results: Any) -> None:
    field.to_challenge()
    proposer = rounds.round(1, 1).proposer
    field.attest(1)
    field.announce_challenge(1, field.challenger)
    field.challenge(1)
    results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    assert events_of(results) == [
        of_round("ChallengeResolved", upheld=True),
        event("BondCredited", account=field.challenger, amount=BOND),
        of_round("PhaseChanged", phase=stage.AGGREGATE, deadline=boa.env.timestamp + 400),
    ]
    registry = field.system.registry
    slashed = STAKE * 20 // 100
    assert registry.offences(proposer, BAD_RESULT) == 1
    assert registry.bonded(proposer) == STAKE - slashed
    assert registry.bounty(field.challenger) == slashed // 2
    state = rounds.round(1, 1)
    assert (state.proposer, state.attested_stake, state.result_hash) == (0, 0, bytes(32))
    assert state.challenger == ZERO
    assert results.aggregator_on_duty(1, 1) == 0
    assert results.withdraw_bond(sender=field.challenger) == 2 * BOND  # the deposit too


def test_resolve_challenge__upheld__old_attestations_do_not_count(
    field: Field, rounds: Any, owner: str, results: Any
) -> None:
    """The same result proposed again needs new attestations."""
    field.to_challenge()
    field.attest(1)
    field.challenge(1)
    results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    field.propose(1, field.trainers[0])
    assert rounds.round(1, 1).attested_stake == 0
    with refuses("results: not finalizable"):
        field.finalize()
    field.attest(1)
    field.finalize()


def test_resolve_challenge__rejected(field: Field, rounds: Any, owner: str, results: Any) -> None:
    field.to_challenge()
    field.attest(1, field.verifiers[0])
    field.challenge(1)
    boa.env.evm.patch.timestamp = rounds.round(1, 1).deadline
    results.resolve_challenge(1, 1, result_of(field), False, sender=owner)
    assert events_of(results) == [
        of_round("ChallengeResolved", upheld=False),
        event("BondCredited", account=owner, amount=BOND),
        of_round("PhaseChanged", phase=stage.CHALLENGE, deadline=boa.env.timestamp + 300),
    ]
    assert rounds.round(1, 1).attested_stake == VOICE
    assert results.bond_credit(field.challenger) == 0
    with refuses("bonds: nothing to withdraw"):
        results.withdraw_bond(sender=field.challenger)
    assert results.bond_credit(owner) == BOND
    with refuses("results: already challenged"):
        field.challenge(1)
    assert results.bonds_held() == BOND


@pytest.mark.parametrize(("waited", "window"), [(0, 300), (100, 200), (151, 150), (300, 150)])
def test_resolve_challenge__rejected__what_was_left_of_the_window_goes_on(
    field: Field, rounds: Any, owner: str, results: Any, waited: int, window: int
) -> None:
    field.to_challenge()
    mine(1, waited)
    field.challenge(1)
    mine(1, 400)
    results.resolve_challenge(1, 1, result_of(field), False, sender=owner)
    assert rounds.round(1, 1).deadline == boa.env.timestamp + window


def test_resolve_challenge__upheld__the_next_result_may_be_challenged(
    field: Field, owner: str, results: Any
) -> None:
    field.to_disputed()
    results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    field.propose(1, field.trainers[0])
    assert not results.is_challenged(1, 1)
    field.challenge(1)
    assert results.bonds_held() == 2 * BOND


def test_resolve_challenge__wrong_caller__reverts(field: Field, results: Any) -> None:
    field.to_disputed()
    for sender in (
        field.challenger,
        field.sponsor,
        field.stranger,
        field.verifiers[0].operator,
        field.aggregators[0].operator,
        field.trainers[0].owner,
        field.system.reports.address,
        field.system.registry.address,
        str(boa.env.eoa),  # the deployer
    ):
        for upheld in (True, False):
            with refuses("ownable: caller is not the owner"):
                results.resolve_challenge(1, 1, result_of(field), upheld, sender=sender)


def test_resolve_challenge__not_disputed_late_or_wrong__reverts(
    field: Field, owner: str, results: Any
) -> None:
    field.to_challenge()
    with refuses("results: not disputed"):
        results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    field.challenge(1)
    with refuses("results: wrong result"):
        results.resolve_challenge(1, 1, EVIDENCE, True, sender=owner)
    field.system.wait_out(1, 1)
    with refuses("results: too late"):
        results.resolve_challenge(1, 1, result_of(field), True, sender=owner)


def test_withdraw_bond__pays_once(field: Field, owner: str, results: Any) -> None:
    field.to_disputed()
    results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    assert results.withdraw_bond(sender=field.challenger) == BOND
    assert events_of(results) == [event("BondWithdrawn", account=field.challenger, amount=BOND)]
    assert results.bonds_held() == 0
    with refuses("bonds: nothing to withdraw"):
        results.withdraw_bond(sender=field.challenger)


def test_self_challenge__loses_money(field: Field, rounds: Any, owner: str, results: Any) -> None:
    """Attack: a proposer challenges its own bad result through another account to earn the
    reporter's share. It gets the share of its own loss, never more."""
    field.to_challenge()
    proposer = rounds.round(1, 1).proposer
    field.announce_challenge(1, field.challenger)
    field.challenge(1)
    results.resolve_challenge(1, 1, result_of(field), True, sender=owner)
    registry = field.system.registry
    profit = (
        registry.bounty(field.challenger)
        + results.bond_credit(field.challenger)
        - 2 * BOND
        - (STAKE - registry.bonded(proposer))
    )
    assert profit == -STAKE * 10 // 100
