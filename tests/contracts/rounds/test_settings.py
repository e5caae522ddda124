# SPDX-License-Identifier: Apache-2.0
"""Constructor, pause, ownership, and the calls only ViolationReports may make."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import BOUNDS, ZERO, Codes, System, events_of, refuses

# What each constructor takes, by the public name of the part; owner and random source follow.
PARTS = {
    "jobs": ("registry", "rounds", "results"),
    "rounds": ("registry", "jobs", "results"),
    "results": ("token", "registry", "pool", "ledger", "reports", "jobs", "rounds"),
}


@pytest.mark.parametrize("name", PARTS)
def test_constructor__zero_address__reverts(codes: Codes, name: str) -> None:
    some = str(boa.env.eoa)
    count = len(PARTS[name]) + 1
    source: list[Any] = [BOUNDS] if name == "jobs" else [ZERO]
    for index in range(count):
        arguments = [some] * count
        arguments[index] = ZERO
        module = "bonds" if name == "results" and index == 0 else name
        with refuses(f"{module}: zero address"):
            getattr(codes, name).deploy(*arguments, *source)


@pytest.mark.parametrize("name", PARTS)
def test_constructor__addresses(system: System, name: str) -> None:
    for part in PARTS[name]:
        if part != "token":  # which the bonds keep to themselves
            assert getattr(getattr(system, name), part)() == getattr(system, part).address


@pytest.mark.parametrize("name", PARTS)
def test_constructor__deployer_has_no_right(system: System, owner: str, name: str) -> None:
    deployer, contract = str(boa.env.eoa), getattr(system, name)
    assert contract.owner() == owner != deployer
    calls = [lambda: contract.transfer_ownership(deployer, sender=deployer)]
    if name == "results":
        calls.append(lambda: contract.resolve_challenge(1, 1, bytes(32), True, sender=deployer))
    else:
        calls.append(lambda: contract.set_paused(1, sender=deployer))
    for call in calls:
        with refuses("ownable: caller is not the owner"):
            call()


@pytest.mark.parametrize("name", ["report_opened", "report_closed", "invalidate"])
def test_reports_only__anyone_else__reverts(
    field: Field, results: Any, owner: str, name: str
) -> None:
    field.to_challenge()
    arguments = (1, 1, field.ids[0]) if name == "invalidate" else (1, 1)
    for sender in (
        owner,
        field.sponsor,
        field.verifiers[0].operator,
        field.aggregators[0].operator,
        field.system.registry.address,
        field.system.pool.address,
        field.stranger,
    ):
        with refuses("results: not reports"):
            getattr(results, name)(*arguments, sender=sender)


@pytest.mark.parametrize("name", ["report_opened", "report_closed", "invalidate"])
def test_reports_only__outside_challenge__reverts(field: Field, results: Any, name: str) -> None:
    reports = field.system.reports.address
    arguments = (1, 1, field.ids[0]) if name == "invalidate" else (1, 1)
    for way in (field.to_commit, field.to_aggregate, field.to_finalized):
        with boa.env.anchor():
            way()
            with refuses("results: not in challenge"):
                getattr(results, name)(*arguments, sender=reports)
    field.to_challenge()
    field.system.wait_out(1, 1)
    with refuses("results: too late"):
        getattr(results, name)(*arguments, sender=reports)


def test_reports_only__counts(field: Field, results: Any) -> None:
    field.to_challenge()
    reports = field.system.reports.address
    with refuses("results: no open report"):
        results.report_closed(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_closed(1, 1, sender=reports)
    assert results.result(1, 1).open_reports == 1


def test_invalidate__once_and_only_revealed_nodes(field: Field, results: Any) -> None:
    field.to_aggregate(field.trainers[:2])
    field.propose(1, nodes=field.ids[:2], contributions=[1, 1])
    reports = field.system.reports.address
    results.invalidate(1, 1, field.ids[0], sender=reports)
    assert events_of(results) == [of_round("NodeInvalidated", node_id=field.ids[0])]
    assert results.is_invalid(1, 1, field.ids[0])
    for node_id in (field.ids[0], field.ids[2], field.verifiers[0].node_id):
        with refuses("results: node not payable"):
            results.invalidate(1, 1, node_id, sender=reports)
