# SPDX-License-Identifier: Apache-2.0
"""Rule: only listed slashers lower a stake, by the table, by what was at risk, and never revert for
want of stake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import DAY, SLASHER, STAKE, ZERO, ZOO, address_of


@pytest.mark.parametrize(("violation", "row"), stage.DEFAULT_ROWS.items())
def test_slash__applies_the_row(
    registry: Any, token: Any, node: int, violation: int, row: tuple[Any, ...]
) -> None:
    bps, _, suspension, strike, ban, reporter_bps = row
    taken = registry.slash(node, violation, now(), stage.REPORTER, sender=SLASHER)
    events = events_of(registry)
    amount = STAKE * bps // 10_000
    share = amount * reporter_bps // 10_000
    until = now() + suspension if suspension else 0
    assert taken == amount
    assert events == [
        event(
            "NodeSlashed",
            node_id=node,
            violation=violation,
            amount=amount,
            reporter=stage.REPORTER,
            reporter_share=share,
            treasury_share=amount - share,
            suspended_until=until,
            strikes=int(strike),
            banned=ban,
        )
    ]
    record = registry.node(node)
    assert record.stake == registry.total_stake() == STAKE - amount
    assert (record.suspended_until, record.strikes) == (until, int(strike))
    assert record.banned == ban
    assert registry.bounty(stage.REPORTER) == share
    assert registry.bounty(stage.TREASURY) == amount - share
    assert registry.total_bounties() == amount
    assert registry.offences(node, violation) == 1
    assert token.balanceOf(registry.address) == STAKE


def test_slash__empty_row__takes_nothing_but_counts(registry: Any, node: int) -> None:
    assert registry.slash(node, 16, now(), ZERO, sender=SLASHER) == 0
    assert registry.offences(node, 16) == 1
    assert registry.node(node).stake == STAKE


def test_slash__rounds_up(registry: Any, node: int) -> None:
    registry.add_stake(node, ZOO + 1, sender=stage.NODE_OWNER)
    total = STAKE + ZOO + 1
    assert registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER) == -(
        -total * 500 // 10_000
    )


# Escalation and strikes


def test_slash__repeats_escalate_up_to_everything(registry: Any, node: int) -> None:
    left = STAKE
    for earlier in range(21):
        bps = min(10_000, 500 + 500 * earlier)
        expected = -(-left * bps // 10_000)
        assert registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER) == expected
        left -= expected
    assert left == registry.node(node).stake == 0
    assert not registry.node(node).banned


def test_slash__escalation_is_per_violation_and_per_node(
    registry: Any, node: int, register: Any
) -> None:
    other = register("other")
    registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER)
    assert registry.slash(other, stage.NO_REVEAL, now(), ZERO, sender=SLASHER) == STAKE // 20
    assert registry.offences(node, stage.INVALID) == 0


@pytest.mark.parametrize(
    "kinds", [(stage.INVALID,) * 3, (stage.INVALID, stage.COPIED, stage.BAD_RESULT)]
)
def test_slash__third_strike__takes_all_and_bans(
    registry: Any, node: int, kinds: tuple[int, ...]
) -> None:
    for violation in kinds[:2]:
        registry.slash(node, violation, now(), stage.REPORTER, sender=SLASHER)
    assert not registry.node(node).banned
    left = registry.node(node).stake
    taken = registry.slash(node, kinds[2], now(), stage.REPORTER, sender=SLASHER)
    (event,) = events_of(registry)
    assert taken == left
    assert event[1]["violation"] == kinds[2]
    assert (event[1]["banned"], event[1]["strikes"]) == (True, 3)
    assert registry.node(node).stake == 0
    assert registry.offences(node, stage.REPEATED) == 1


def test_slash__no_reveal__is_no_strike(registry: Any, node: int) -> None:
    for _ in range(4):
        registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER)
    assert registry.node(node).strikes == 0


def test_slash__suspension__never_gets_shorter(registry: Any, node: int) -> None:
    registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER)
    until = now() + 30 * DAY
    wait(DAY)
    registry.slash(node, stage.INVALID, now(), ZERO, sender=SLASHER)
    assert registry.node(node).suspended_until == until


def test_slash__changed_row__is_used(registry: Any, node: int) -> None:
    registry.set_penalty(stage.NO_REVEAL, (1, 0, 5, False, False, 0), sender=stage.COORDINATOR)
    assert registry.slash(node, stage.NO_REVEAL, now(), ZERO, sender=SLASHER) == STAKE // 10_000
    assert registry.node(node).suspended_until == now() + 5


# What is at risk


def test_slash__stake_added_after_the_offence__is_not_at_risk(registry: Any, node: int) -> None:
    offence = now()
    wait(1)
    registry.add_stake(node, 9_000 * ZOO, sender=stage.NODE_OWNER)
    assert registry.slash(node, stage.COPIED, offence, ZERO, sender=SLASHER) == STAKE // 2


def test_slash__stake_added_before_or_with_the_offence__is_at_risk(
    registry: Any, node: int
) -> None:
    registry.add_stake(node, STAKE, sender=stage.NODE_OWNER)
    assert registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER) == STAKE


def test_slash__only_the_later_additions_are_spared(registry: Any, node: int) -> None:
    for _ in range(3):
        registry.add_stake(node, 100 * ZOO, sender=stage.NODE_OWNER)
        wait(10)
    offence = now() - 25  # between the first and the second addition
    assert registry.slash(node, stage.REPEATED, offence, ZERO, sender=SLASHER) == STAKE + 100 * ZOO


@pytest.mark.parametrize("additions", [15, 16])
def test_slash__ring_of_sixteen__forgets_no_young_addition(
    registry: Any, node: int, additions: int
) -> None:
    """A 17th within an unbonding period is refused (`test_voters.py`)."""
    offence = now()
    for _ in range(additions):
        wait(1)
        registry.add_stake(node, 10 * stage.ZOO, sender=stage.NODE_OWNER)
    assert registry.slash(node, stage.REPEATED, offence, stage.ZERO, sender=SLASHER) == stage.STAKE


def test_slash__earlier_slashes_ate_into_additions__never_reverts(registry: Any, node: int) -> None:
    offence = now()
    wait(1)
    registry.add_stake(node, 10 * ZOO, sender=stage.NODE_OWNER)
    registry.slash(node, stage.REPEATED, now(), ZERO, sender=SLASHER)
    assert registry.slash(node, stage.REPEATED, offence, ZERO, sender=SLASHER) == 0


def test_slash__exiting__takes_from_the_unbonding_part(registry: Any, node: int) -> None:
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    assert registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER) == STAKE // 2
    record = registry.node(node)
    assert (record.stake, record.unbonding) == (0, STAKE // 2)


@pytest.mark.parametrize("violation", range(1, 17))
def test_slash__nothing_left__records_without_revert(
    registry: Any, node: int, violation: int
) -> None:
    """Settlement of a round must never be blocked by a node that has gone."""
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    wait(stage.UNBONDING)
    registry.withdraw(node, sender=stage.NODE_OWNER)
    assert registry.slash(node, violation, now(), stage.REPORTER, sender=SLASHER) == 0
    assert registry.offences(node, violation) == 1
    assert registry.bounty(stage.REPORTER) == 0


# Who gets it


@pytest.mark.parametrize("who", ["node_owner", "operator"])
def test_slash__reported_by_itself__pays_the_treasury_alone(
    registry: Any, node: int, who: str
) -> None:
    registry.slash(node, stage.COPIED, now(), address_of(who), sender=SLASHER)
    assert registry.bounty(address_of(who)) == 0
    assert registry.bounty(stage.TREASURY) == STAKE // 2


def test_attack__payout_set_to_the_reporters_address__denies_it_no_share(
    registry: Any, node: int
) -> None:
    """It was 0 of a quarter of the stake: the offender may set its payout to any address."""
    registry.set_payout(node, stage.REPORTER, sender=stage.NODE_OWNER)
    registry.slash(node, stage.COPIED, now(), stage.REPORTER, sender=SLASHER)
    bounties = [registry.bounty(person) for person in (stage.REPORTER, stage.TREASURY)]
    assert bounties == [STAKE // 4] * 2


def test_slash__without_reporter__pays_the_treasury_alone(registry: Any, node: int) -> None:
    registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER)
    assert registry.bounty(ZERO) == 0
    assert registry.bounty(stage.TREASURY) == STAKE // 2


def test_slash__reported_by_the_treasury__pays_it_both_shares(registry: Any, node: int) -> None:
    registry.slash(node, stage.COPIED, now(), stage.TREASURY, sender=SLASHER)
    assert registry.bounty(stage.TREASURY) == registry.total_bounties() == STAKE // 2


def test_slash__odd_amount__loses_no_wei(registry: Any, node: int) -> None:
    registry.add_stake(node, ZOO + 1, sender=stage.NODE_OWNER)
    taken = registry.slash(node, stage.REPEATED, now(), stage.REPORTER, sender=SLASHER)
    assert taken == STAKE + ZOO + 1
    assert registry.bounty(stage.REPORTER) == taken // 2
    assert registry.bounty(stage.TREASURY) == taken - taken // 2


def test_slash__new_treasury__gets_later_slashes_only(
    registry: Any, node: int, parameters: tuple[Any, ...]
) -> None:
    registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER)
    registry.set_parameters((*parameters[:6], address_of("heir")), sender=stage.COORDINATOR)
    registry.slash(node, stage.COPIED, now(), ZERO, sender=SLASHER)
    assert registry.bounty(stage.TREASURY) == STAKE // 2
    assert registry.bounty(address_of("heir")) == STAKE // 4
