# SPDX-License-Identifier: Apache-2.0
"""Constructor, pause, ownership, and the calls only ViolationReports may make."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import of_round
from tests.stage.contracts.rounds import RoundStage
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
    stage: RoundStage, results: Any, owner: str, name: str
) -> None:
    stage.to_challenge()
    arguments = (1, 1, stage.ids[0]) if name == "invalidate" else (1, 1)
    for sender in (
        owner,
        stage.sponsor,
        stage.verifiers[0].operator,
        stage.aggregators[0].operator,
        stage.system.registry.address,
        stage.system.pool.address,
        stage.stranger,
    ):
        with refuses("results: not reports"):
            getattr(results, name)(*arguments, sender=sender)


@pytest.mark.parametrize("name", ["report_opened", "report_closed", "invalidate"])
def test_reports_only__outside_challenge__reverts(
    stage: RoundStage, results: Any, name: str
) -> None:
    reports = stage.system.reports.address
    arguments = (1, 1, stage.ids[0]) if name == "invalidate" else (1, 1)
    for way in (stage.to_commit, stage.to_aggregate, stage.to_finalized):
        with boa.env.anchor():
            way()
            with refuses("results: not in challenge"):
                getattr(results, name)(*arguments, sender=reports)
    stage.to_challenge()
    stage.system.wait_out(1, 1)
    with refuses("results: too late"):
        getattr(results, name)(*arguments, sender=reports)


def test_reports_only__counts(stage: RoundStage, results: Any) -> None:
    stage.to_challenge()
    reports = stage.system.reports.address
    with refuses("results: no open report"):
        results.report_closed(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_opened(1, 1, sender=reports)
    results.report_closed(1, 1, sender=reports)
    assert results.result(1, 1).open_reports == 1


def test_invalidate__once_and_only_revealed_nodes(stage: RoundStage, results: Any) -> None:
    stage.to_aggregate(stage.trainers[:2])
    stage.propose(1, nodes=stage.ids[:2], contributions=[1, 1])
    reports = stage.system.reports.address
    results.invalidate(1, 1, stage.ids[0], sender=reports)
    assert events_of(results) == [of_round("NodeInvalidated", node_id=stage.ids[0])]
    assert results.is_invalid(1, 1, stage.ids[0])
    for node_id in (stage.ids[0], stage.ids[2], stage.verifiers[0].node_id):
        with refuses("results: node not payable"):
            results.invalidate(1, 1, node_id, sender=reports)
