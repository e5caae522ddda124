# SPDX-License-Identifier: Apache-2.0
"""Rule: every owner can always leave with what is left of its stake, after the unbonding period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest

from tests.stage.contracts.clock import now, wait
from tests.stage.contracts.registry import (
    COPIED,
    EMPTY,
    PAUSE_REGISTER,
    REPEATED,
    STAKE,
    TRAINER,
    UNBONDING,
    VERIFIER,
    ZERO,
    ZOO,
    Keys,
    address_of,
    benchmark_passed,
    own_events,
)


@pytest.fixture
def exiting(registry: Any, node: int, node_owner: str) -> int:
    registry.begin_exit(node, sender=node_owner)
    return node


def test_begin_exit__unbonds_the_whole_stake(registry: Any, node: int, node_owner: str) -> None:
    registry.begin_exit(node, sender=node_owner)
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


@pytest.mark.parametrize("who", ["operator", "payout", "coordinator", "slasher", "stranger"])
def test_begin_exit__not_the_owner__reverts(registry: Any, node: int, who: str) -> None:
    with boa.reverts("registry: not the owner"):
        registry.begin_exit(node, sender=address_of(who))


def test_begin_exit__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.begin_exit(7, sender=stranger)


def test_begin_exit__twice__reverts(registry: Any, exiting: int, node_owner: str) -> None:
    with boa.reverts("registry: exiting"):
        registry.begin_exit(exiting, sender=node_owner)


def test_begin_exit__everything_paused__still_works(
    registry: Any, node: int, node_owner: str, coordinator: str
) -> None:
    registry.set_paused(PAUSE_REGISTER, sender=coordinator)
    registry.begin_exit(node, sender=node_owner)
    wait(UNBONDING)
    registry.withdraw(node, sender=node_owner)


def test_withdraw__pays_the_owner_and_closes(
    registry: Any, token: Any, exiting: int, node_owner: str, operator: str, payout: str
) -> None:
    before = token.balanceOf(node_owner)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)
    fields = {"node_id": exiting, "owner": node_owner, "amount": STAKE}
    assert own_events(registry) == [("StakeWithdrawn", fields)]
    assert token.balanceOf(node_owner) == before + STAKE
    assert registry.total_stake() == token.balanceOf(registry.address) == 0
    assert registry.operator_of(exiting) == ZERO
    assert registry.node_of(operator) == 0
    assert registry.payouts([exiting]) == [payout]


def test_withdraw__frees_the_operator(
    registry: Any, exiting: int, node_owner: str, operator: str, payout: str
) -> None:
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)
    again = registry.register_node(operator, payout, TRAINER, STAKE, EMPTY, sender=node_owner)
    assert again != exiting
    assert registry.node_of(operator) == again


@pytest.mark.parametrize("who", ["operator", "payout", "coordinator", "slasher", "stranger"])
def test_withdraw__not_the_owner__reverts(registry: Any, exiting: int, who: str) -> None:
    wait(UNBONDING)
    with boa.reverts("registry: not the owner"):
        registry.withdraw(exiting, sender=address_of(who))


def test_withdraw__unknown_node__reverts(registry: Any, stranger: str) -> None:
    with boa.reverts("registry: unknown node"):
        registry.withdraw(7, sender=stranger)


def test_withdraw__before_the_exit__reverts(registry: Any, node: int, node_owner: str) -> None:
    with boa.reverts("registry: not exiting"):
        registry.withdraw(node, sender=node_owner)


def test_withdraw__a_second_early__reverts(registry: Any, exiting: int, node_owner: str) -> None:
    wait(UNBONDING - 1)
    with boa.reverts("registry: still unbonding"):
        registry.withdraw(exiting, sender=node_owner)
    wait(1)
    registry.withdraw(exiting, sender=node_owner)


def test_withdraw__twice__reverts(registry: Any, exiting: int, node_owner: str) -> None:
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)
    with boa.reverts("registry: closed"):
        registry.withdraw(exiting, sender=node_owner)


def test_withdraw__locked__reverts_until_unlocked(
    registry: Any, exiting: int, node_owner: str, slasher: str
) -> None:
    registry.lock(exiting, sender=slasher)
    wait(10 * UNBONDING)
    with boa.reverts("registry: stake locked"):
        registry.withdraw(exiting, sender=node_owner)
    registry.unlock(exiting, sender=slasher)
    registry.withdraw(exiting, sender=node_owner)


def test_withdraw__slashed_while_unbonding__pays_the_rest(
    registry: Any, token: Any, exiting: int, node_owner: str, slasher: str
) -> None:
    """Unbonding does not escape: the unbonding part is slashed."""
    before = token.balanceOf(node_owner)
    registry.slash(exiting, COPIED, now(), ZERO, sender=slasher)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)
    assert token.balanceOf(node_owner) == before + STAKE // 2


def test_withdraw__nothing_left__still_closes(
    registry: Any, exiting: int, node_owner: str, slasher: str
) -> None:
    registry.slash(exiting, REPEATED, now(), ZERO, sender=slasher)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)
    assert registry.operator_of(exiting) == ZERO


def test_withdraw__banned_node__gets_what_was_not_at_risk(
    registry: Any, token: Any, node: int, node_owner: str, slasher: str
) -> None:
    offence = now()
    wait(1)
    registry.add_stake(node, 50 * ZOO, sender=node_owner)
    registry.slash(node, REPEATED, offence, ZERO, sender=slasher)
    before = token.balanceOf(node_owner)
    registry.begin_exit(node, sender=node_owner)
    wait(UNBONDING)
    registry.withdraw(node, sender=node_owner)
    assert token.balanceOf(node_owner) == before + 50 * ZOO


def test_withdraw__period_changed_while_exiting__keeps_its_date(
    registry: Any, exiting: int, node_owner: str, coordinator: str, parameters: tuple[Any, ...]
) -> None:
    registry.set_parameters((365 * 86_400, *parameters[1:]), sender=coordinator)
    wait(UNBONDING)
    registry.withdraw(exiting, sender=node_owner)


def test_exit__of_one_node__leaves_the_others_alone(
    registry: Any, register: Callable[..., int], token: Any, coordinator: str
) -> None:
    first, second = register("first", VERIFIER), register("second", VERIFIER)
    for node_id in (first, second):
        registry.approve_role(node_id, VERIFIER, True, sender=coordinator)
    registry.begin_exit(first, sender=address_of("first owner"))
    wait(UNBONDING)
    registry.withdraw(first, sender=address_of("first owner"))
    assert registry.node(second).stake == token.balanceOf(registry.address) == STAKE
    assert registry.role_nodes(VERIFIER, 0, 128) == [second]
