# SPDX-License-Identifier: Apache-2.0
"""Rule: only the coordinator sets roles, slashers, parameters, penalties and pauses, in bounds."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts import registry as stage
from tests.stage.contracts.clock import now
from tests.stage.contracts.events import event, events_of
from tests.stage.contracts.registry import COORDINATOR, STRANGER, Register, address_of

ROW = (1, 2, 3, True, True, 4)
# What only the coordinator may do, with its arguments; `set_parameters` takes those of now.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "approve_role": (1, stage.VERIFIER, True),
    "set_slasher": (STRANGER, True),
    "set_parameters": (),
    "set_penalty": (stage.NO_REVEAL, ROW),
    "set_paused": (1,),
    "transfer_ownership": (STRANGER,),
}
OTHERS = ("node_owner", "operator", "payout", "slasher", "second_slasher", "treasury", "stranger")


@pytest.mark.parametrize("who", [*OTHERS, "deployer"])
@pytest.mark.parametrize("function", SETTINGS)
def test_settings__not_the_coordinator__reverts(
    registry: Any, node: int, parameters: tuple[Any, ...], deployer: str, who: str, function: str
) -> None:
    sender = deployer if who == "deployer" else address_of(who)
    with boa.reverts("ownable: caller is not the owner"):
        getattr(registry, function)(*(SETTINGS[function] or (parameters,)), sender=sender)


@pytest.mark.parametrize("role", [stage.VERIFIER, stage.AGGREGATOR])
def test_approve_role__admits_and_revokes(registry: Any, register: Register, role: int) -> None:
    node_id = register("candidate", stage.VERIFIER | stage.AGGREGATOR)
    for approved in (True, True, False):
        registry.approve_role(node_id, role, approved, sender=COORDINATOR)
        fields = {"node_id": node_id, "role": role, "approved": approved}
        assert events_of(registry) == [("RoleApproved", fields)]
        assert registry.is_eligible(node_id, role) == approved
        assert registry.role_count(role) == int(approved)
        assert registry.node(node_id).approved_roles == (role if approved else 0)


@pytest.mark.parametrize("state", ["exiting", "banned"])
def test_approve_role__of_a_leaving_node__does_not_list_it(
    registry: Any, register: Register, state: str
) -> None:
    node_id = register("candidate", stage.VERIFIER)
    if state == "exiting":
        registry.begin_exit(node_id, sender=address_of("candidate owner"))
    else:
        registry.slash(node_id, stage.REPEATED, now(), stage.ZERO, sender=stage.SLASHER)
    registry.approve_role(node_id, stage.VERIFIER, True, sender=COORDINATOR)
    assert registry.role_count(stage.VERIFIER) == 0
    assert not registry.is_eligible(node_id, stage.VERIFIER)


def test_set_slasher__lists_and_delists(registry: Any) -> None:
    registry.set_slasher(STRANGER, True, sender=COORDINATOR)
    assert events_of(registry) == [event("SlasherChanged", slasher=STRANGER, allowed=True)]
    registry.set_slasher(stage.SLASHER, False, sender=COORDINATOR)
    assert events_of(registry) == [event("SlasherChanged", slasher=stage.SLASHER, allowed=False)]
    listed = [registry.is_slasher(a) for a in (stage.SLASHER, stage.SECOND_SLASHER, STRANGER)]
    assert listed == [False, True, True]


def test_set_slasher__delisting_the_last_in_the_list(registry: Any) -> None:
    registry.set_slasher(stage.SECOND_SLASHER, False, sender=COORDINATOR)
    assert [registry.is_slasher(a) for a in (stage.SLASHER, stage.SECOND_SLASHER)] == [True, False]


def test_set_slasher__ninth__reverts(registry: Any) -> None:
    for i in range(6):
        registry.set_slasher(address_of(f"extra {i}"), True, sender=COORDINATOR)
    with boa.reverts("registry: too many slashers"):
        registry.set_slasher(address_of("extra 7"), True, sender=COORDINATOR)


def test_set_parameters__tells_old_and_new(registry: Any, parameters: tuple[Any, ...]) -> None:
    new = (1, stage.ZOO, stage.ZOO, stage.ZOO, 1, 16, address_of("heir"))
    registry.set_parameters(new, sender=COORDINATOR)
    ((name, fields),) = events_of(registry)
    assert name == "ParametersChanged"
    assert tuple(fields["old_parameters"]) == parameters
    assert tuple(fields["new_parameters"]) == new
    assert tuple(registry.parameters()) == new


@pytest.mark.parametrize(
    ("place", "wrong", "reason"),
    [
        (0, 0, "registry: bad unbonding period"),
        (0, 365 * stage.DAY + 1, "registry: bad unbonding period"),
        (1, stage.ZOO - 1, "registry: bad minimum stake"),
        (2, stage.ZOO - 1, "registry: bad minimum stake"),
        (3, stage.ZOO - 1, "registry: bad minimum stake"),
        (4, 0, "registry: bad benchmark window"),
        (4, 7 * stage.DAY + 1, "registry: bad benchmark window"),
        (5, 0, "registry: bad quorum"),
        (5, 17, "registry: bad quorum"),
        (6, stage.ZERO, "registry: zero address"),
    ],
)
def test_set_parameters__out_of_bounds__reverts(
    registry: Any, parameters: tuple[Any, ...], place: int, wrong: Any, reason: str
) -> None:
    changed = (*parameters[:place], wrong, *parameters[place + 1 :])
    with boa.reverts(reason):
        registry.set_parameters(changed, sender=COORDINATOR)


def test_set_parameters__higher_minimum__makes_poor_nodes_ineligible(
    registry: Any, register: Register, parameters: tuple[Any, ...]
) -> None:
    node_id = register("candidate", stage.VERIFIER, 500 * stage.ZOO)
    registry.approve_role(node_id, stage.VERIFIER, True, sender=COORDINATOR)
    assert registry.is_eligible(node_id, stage.VERIFIER)
    changed = (*parameters[:2], 500 * stage.ZOO + 1, *parameters[3:])
    registry.set_parameters(changed, sender=COORDINATOR)
    assert not registry.is_eligible(node_id, stage.VERIFIER)


def test_set_penalty__tells_old_and_new(registry: Any) -> None:
    registry.set_penalty(stage.NO_REVEAL, ROW, sender=COORDINATOR)
    ((name, fields),) = events_of(registry)
    assert name == "PenaltyChanged"
    assert fields["violation"] == stage.NO_REVEAL
    assert tuple(fields["old_penalty"]) == stage.DEFAULT_ROWS[stage.NO_REVEAL]
    assert tuple(fields["new_penalty"]) == ROW
    assert tuple(registry.penalty(stage.NO_REVEAL)) == ROW


@pytest.mark.parametrize("violation", [0, 17])
def test_set_penalty__unknown_violation__reverts(registry: Any, violation: int) -> None:
    with boa.reverts("penalties: unknown violation"):
        registry.set_penalty(violation, ROW, sender=COORDINATOR)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((10_001, 0, 0, False, False, 0), "penalties: bps too large"),
        ((0, 10_001, 0, False, False, 0), "penalties: escalation too large"),
        ((0, 0, 3_650 * stage.DAY + 1, False, False, 0), "penalties: suspension too long"),
        ((0, 0, 0, False, False, 5_001), "penalties: reporter share too large"),
    ],
)
def test_set_penalty__out_of_bounds__reverts(
    registry: Any, row: tuple[Any, ...], reason: str
) -> None:
    with boa.reverts(reason):
        registry.set_penalty(stage.NO_REVEAL, row, sender=COORDINATOR)


def test_set_penalty__at_the_bounds__is_allowed(registry: Any) -> None:
    row = (10_000, 10_000, 3_650 * stage.DAY, True, True, 5_000)
    registry.set_penalty(16, row, sender=COORDINATOR)
    assert tuple(registry.penalty(16)) == row


@pytest.mark.parametrize("better", range(5), ids=["bps", "escalation", "time", "strike", "ban"])
@pytest.mark.parametrize("which", ["silence lowered", "loss raised"])
def test_set_penalty__silence_below_a_lost_comparison__reverts(
    registry: Any, which: str, better: int
) -> None:
    """Whoever sees that it will lose would stay silent."""
    low = [2_000, 100, 7 * stage.DAY, False, False, 0]
    high = list(low)
    high[better] = True if better > 2 else low[better] + 1
    # Level first: silence is raised before loss, since neither may ever be the other way round.
    level = high if which == "silence lowered" else low
    registry.set_penalty(
        stage.ABORT, (10_000, 10_000, 30 * stage.DAY, True, True, 0), sender=COORDINATOR
    )
    registry.set_penalty(stage.REDUNDANCY_MISMATCH, tuple(level), sender=COORDINATOR)
    registry.set_penalty(stage.ABORT, tuple(level), sender=COORDINATOR)
    row, change = (
        (stage.ABORT, low) if which == "silence lowered" else (stage.REDUNDANCY_MISMATCH, high)
    )
    with boa.reverts("penalties: abort below mismatch"):
        registry.set_penalty(row, tuple(change), sender=COORDINATOR)
    assert tuple(registry.penalty(row)) == tuple(level)
    # The reporter's share is no part of what the node pays.
    registry.set_penalty(stage.REDUNDANCY_MISMATCH, (*level[:5], 5_000), sender=COORDINATOR)


def test_set_penalty__silence_may_cost_more(registry: Any) -> None:
    row = (3_000, 0, 8 * stage.DAY, True, False, 0)
    registry.set_penalty(stage.ABORT, row, sender=COORDINATOR)
    assert tuple(registry.penalty(stage.ABORT)) == row
    registry.set_penalty(stage.REDUNDANCY_MISMATCH, (0, 0, 0, False, False, 0), sender=COORDINATOR)
