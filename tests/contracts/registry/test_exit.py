# SPDX-License-Identifier: Apache-2.0
"""Rule: every owner can always leave with what is left of its stake, after the unbonding period."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.events import events_of
from tests.stage.contracts.registry import (
    UNBONDING,
    account,
    address_of,
    benchmark_passed,
    consent,
)


@pytest.fixture
def exiting(registry: Any, node: int) -> int:
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    return node


def test_begin_exit__unbonds_the_whole_stake(registry: Any, node: int) -> None:
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    fields = {"node_id": node, "amount": stage.STAKE, "unlock_at": now() + UNBONDING}
    assert events_of(registry) == [("ExitBegun", fields)]
    record = registry.node(node)
    assert (record.stake, record.unbonding, record.unlock_at) == (0, stage.STAKE, now() + UNBONDING)
    assert registry.bonded(node) == registry.total_stake() == stage.STAKE


def test_begin_exit__listed_node__leaves_the_list(
    registry: Any, benchmarks: Any, verifiers: stage.Keys, register: stage.Register
) -> None:
    node_id = register("worker")
    benchmark_passed(registry, benchmarks, node_id, verifiers)
    assert registry.role_nodes(stage.TRAINER, 0, 128) == [node_id]
    registry.begin_exit(node_id, sender=address_of("worker owner"))
    assert registry.role_count(stage.TRAINER) == 0


def test_begin_exit__everything_paused__still_works(registry: Any, node: int) -> None:
    registry.set_paused(stage.PAUSE_REGISTER, sender=stage.COORDINATOR)
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(node, sender=stage.NODE_OWNER)


def test_withdraw__pays_the_owner_and_closes(registry: Any, token: Any, exiting: int) -> None:
    before = token.balanceOf(stage.NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)
    fields = {"node_id": exiting, "owner": stage.NODE_OWNER, "amount": stage.STAKE}
    assert events_of(registry) == [("StakeWithdrawn", fields)]
    assert token.balanceOf(stage.NODE_OWNER) == before + stage.STAKE
    assert registry.total_stake() == token.balanceOf(registry.address) == 0
    assert registry.operator_of(exiting) == stage.ZERO
    assert registry.node_of(stage.OPERATOR) == 0
    assert registry.payouts([exiting]) == [stage.PAYOUT]


def test_withdraw__frees_the_operator(registry: Any, exiting: int) -> None:
    wait(UNBONDING)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)
    signed = consent(registry, account("operator"), stage.NODE_OWNER)
    again = registry.register_node(
        stage.OPERATOR,
        stage.PAYOUT,
        stage.TRAINER,
        stage.STAKE,
        stage.EMPTY,
        signed,
        sender=stage.NODE_OWNER,
    )
    assert again != exiting
    assert registry.node_of(stage.OPERATOR) == again


def test_withdraw__a_second_early__reverts(registry: Any, exiting: int) -> None:
    wait(UNBONDING - 1)
    with boa.reverts("registry: still unbonding"):
        registry.withdraw(exiting, sender=stage.NODE_OWNER)
    wait(1)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)


def test_withdraw__locked__reverts_until_unlocked(registry: Any, exiting: int) -> None:
    registry.lock(exiting, sender=stage.SLASHER)
    wait(10 * UNBONDING)
    with boa.reverts("registry: stake locked"):
        registry.withdraw(exiting, sender=stage.NODE_OWNER)
    registry.unlock(exiting, sender=stage.SLASHER)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)


def test_withdraw__slashed_while_unbonding__pays_the_rest(
    registry: Any, token: Any, exiting: int
) -> None:
    """Unbonding does not escape: the unbonding part is slashed."""
    before = token.balanceOf(stage.NODE_OWNER)
    registry.slash(exiting, stage.COPIED, now(), stage.ZERO, sender=stage.SLASHER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)
    assert token.balanceOf(stage.NODE_OWNER) == before + stage.STAKE // 2


def test_withdraw__nothing_left__still_closes(registry: Any, exiting: int) -> None:
    registry.slash(exiting, stage.REPEATED, now(), stage.ZERO, sender=stage.SLASHER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)
    assert registry.operator_of(exiting) == stage.ZERO


def test_withdraw__banned_node__gets_what_was_not_at_risk(
    registry: Any, token: Any, node: int
) -> None:
    offence = now()
    wait(1)
    registry.add_stake(node, 50 * stage.ZOO, sender=stage.NODE_OWNER)
    registry.slash(node, stage.REPEATED, offence, stage.ZERO, sender=stage.SLASHER)
    before = token.balanceOf(stage.NODE_OWNER)
    registry.begin_exit(node, sender=stage.NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(node, sender=stage.NODE_OWNER)
    assert token.balanceOf(stage.NODE_OWNER) == before + 50 * stage.ZOO


def test_withdraw__period_changed_while_exiting__keeps_its_date(
    registry: Any, exiting: int, parameters: tuple[Any, ...]
) -> None:
    registry.set_parameters((365 * 86_400, *parameters[1:]), sender=stage.COORDINATOR)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=stage.NODE_OWNER)


def test_exit__of_one_node__leaves_the_others_alone(
    registry: Any, register: stage.Register, token: Any
) -> None:
    first, second = register("first", stage.VERIFIER), register("second", stage.VERIFIER)
    for node_id in (first, second):
        registry.approve_role(node_id, stage.VERIFIER, True, sender=stage.COORDINATOR)
    registry.begin_exit(first, sender=address_of("first owner"))
    wait(UNBONDING)
    registry.withdraw(first, sender=address_of("first owner"))
    assert registry.node(second).stake == token.balanceOf(registry.address) == stage.STAKE
    assert registry.role_nodes(stage.VERIFIER, 0, 128) == [second]
