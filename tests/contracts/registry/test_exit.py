# SPDX-License-Identifier: Apache-2.0
"""Rule: every owner can always leave with what is left of its stake, after the unbonding period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
    COORDINATOR,
    COPIED,
    EMPTY,
    NODE_OWNER,
    OPERATOR,
    PAUSE_REGISTER,
    PAYOUT,
    REPEATED,
    SLASHER,
    STAKE,
    TRAINER,
    UNBONDING,
    VERIFIER,
    ZERO,
    ZOO,
    Keys,
    account,
    address_of,
    benchmark_passed,
    consent,
    own_events,
)


@pytest.fixture
def exiting(registry: Any, node: int) -> int:
    registry.begin_exit(node, sender=NODE_OWNER)
    return node


def test_begin_exit__unbonds_the_whole_stake(registry: Any, node: int) -> None:
    registry.begin_exit(node, sender=NODE_OWNER)
    fields = {"node_id": node, "amount": STAKE, "unlock_at": now() + UNBONDING}
    assert own_events(registry) == [("ExitBegun", fields)]
    record = registry.node(node)
    assert (record.stake, record.unbonding, record.unlock_at) == (0, STAKE, now() + UNBONDING)
    assert registry.bonded(node) == registry.total_stake() == STAKE


def test_begin_exit__listed_node__leaves_the_list(
    registry: Any, benchmarks: Any, verifiers: Keys, register: Callable[..., int]
) -> None:
    node_id = register("worker")
    benchmark_passed(registry, benchmarks, node_id, verifiers)
    assert registry.role_nodes(TRAINER, 0, 128) == [node_id]
    registry.begin_exit(node_id, sender=address_of("worker owner"))
    assert registry.role_count(TRAINER) == 0


def test_begin_exit__everything_paused__still_works(registry: Any, node: int) -> None:
    registry.set_paused(PAUSE_REGISTER, sender=COORDINATOR)
    registry.begin_exit(node, sender=NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(node, sender=NODE_OWNER)


def test_withdraw__pays_the_owner_and_closes(registry: Any, token: Any, exiting: int) -> None:
    before = token.balanceOf(NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=NODE_OWNER)
    fields = {"node_id": exiting, "owner": NODE_OWNER, "amount": STAKE}
    assert own_events(registry) == [("StakeWithdrawn", fields)]
    assert token.balanceOf(NODE_OWNER) == before + STAKE
    assert registry.total_stake() == token.balanceOf(registry.address) == 0
    assert registry.operator_of(exiting) == ZERO
    assert registry.node_of(OPERATOR) == 0
    assert registry.payouts([exiting]) == [PAYOUT]


def test_withdraw__frees_the_operator(registry: Any, exiting: int) -> None:
    wait(UNBONDING)
    registry.withdraw(exiting, sender=NODE_OWNER)
    signed = consent(registry, account("operator"), NODE_OWNER)
    again = registry.register_node(
        OPERATOR, PAYOUT, TRAINER, STAKE, EMPTY, signed, sender=NODE_OWNER
    )
    assert again != exiting
    assert registry.node_of(OPERATOR) == again


def test_withdraw__a_second_early__reverts(registry: Any, exiting: int) -> None:
    wait(UNBONDING - 1)
    with boa.reverts("registry: still unbonding"):
        registry.withdraw(exiting, sender=NODE_OWNER)
    wait(1)
    registry.withdraw(exiting, sender=NODE_OWNER)


def test_withdraw__locked__reverts_until_unlocked(registry: Any, exiting: int) -> None:
    registry.lock(exiting, sender=SLASHER)
    wait(10 * UNBONDING)
    with boa.reverts("registry: stake locked"):
        registry.withdraw(exiting, sender=NODE_OWNER)
    registry.unlock(exiting, sender=SLASHER)
    registry.withdraw(exiting, sender=NODE_OWNER)


def test_withdraw__slashed_while_unbonding__pays_the_rest(
    registry: Any, token: Any, exiting: int
) -> None:
    """Unbonding does not escape: the unbonding part is slashed."""
    before = token.balanceOf(NODE_OWNER)
    registry.slash(exiting, COPIED, now(), ZERO, sender=SLASHER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=NODE_OWNER)
    assert token.balanceOf(NODE_OWNER) == before + STAKE // 2


def test_withdraw__nothing_left__still_closes(registry: Any, exiting: int) -> None:
    registry.slash(exiting, REPEATED, now(), ZERO, sender=SLASHER)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=NODE_OWNER)
    assert registry.operator_of(exiting) == ZERO


def test_withdraw__banned_node__gets_what_was_not_at_risk(
    registry: Any, token: Any, node: int
) -> None:
    offence = now()
    wait(1)
    registry.add_stake(node, 50 * ZOO, sender=NODE_OWNER)
    registry.slash(node, REPEATED, offence, ZERO, sender=SLASHER)
    before = token.balanceOf(NODE_OWNER)
    registry.begin_exit(node, sender=NODE_OWNER)
    wait(UNBONDING)
    registry.withdraw(node, sender=NODE_OWNER)
    assert token.balanceOf(NODE_OWNER) == before + 50 * ZOO


def test_withdraw__period_changed_while_exiting__keeps_its_date(
    registry: Any, exiting: int, parameters: tuple[Any, ...]
) -> None:
    registry.set_parameters((365 * 86_400, *parameters[1:]), sender=COORDINATOR)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=NODE_OWNER)


def test_exit__of_one_node__leaves_the_others_alone(
    registry: Any, register: Callable[..., int], token: Any
) -> None:
    first, second = register("first", VERIFIER), register("second", VERIFIER)
    for node_id in (first, second):
        registry.approve_role(node_id, VERIFIER, True, sender=COORDINATOR)
    registry.begin_exit(first, sender=address_of("first owner"))
    wait(UNBONDING)
    registry.withdraw(first, sender=address_of("first owner"))
    assert registry.node(second).stake == token.balanceOf(registry.address) == STAKE
    assert registry.role_nodes(VERIFIER, 0, 128) == [second]
