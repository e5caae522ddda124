# SPDX-License-Identifier: Apache-2.0
"""Constructor, pause, ownership, and the calls only ViolationReports may make."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.rounds import Field
from tests.stage.contracts.system import ZERO, Codes, System, events_of, refuses


def test_constructor__zero_address__reverts(codes: Codes, system: System) -> None:
    some = str(boa.env.eoa)
    for index in range(6):
        arguments = [some] * 6
        arguments[index] = ZERO
        module = "bonds" if index == 0 else "rounds"
        with refuses(f"{module}: zero address"):
            codes.rounds.deploy(*arguments, ZERO)


def test_constructor__deployer_has_no_right(system: System, rounds: Any, owner: str) -> None:
    deployer = str(boa.env.eoa)
    assert rounds.owner() == owner != deployer
    for call in (
        lambda: rounds.set_paused(1, sender=deployer),
        lambda: rounds.transfer_ownership(deployer, sender=deployer),
        lambda: rounds.resolve_challenge(1, 1, bytes(32), True, sender=deployer),
    ):
        with refuses("ownable: caller is not the owner"):
            call()


def test_constructor__addresses(system: System, rounds: Any) -> None:
    assert rounds.registry() == system.registry.address
    assert rounds.pool() == system.pool.address
    assert rounds.ledger() == system.ledger.address
    assert rounds.reports() == system.reports.address


def test_set_paused__owner_only_and_known_bits(field: Field, rounds: Any, owner: str) -> None:
    rounds.set_paused(2, sender=owner)
    assert events_of(rounds) == [("PauseChanged", {"old_bits": 0, "new_bits": 2})]
    assert rounds.paused() == 2
    with refuses("pausing: unknown bit"):
        rounds.set_paused(4, sender=owner)
    for sender in (field.sponsor, field.stranger, field.verifiers[0].operator):
        with refuses("ownable: caller is not the owner"):
            rounds.set_paused(0, sender=sender)


def test_ownership__two_steps_no_renounce(field: Field, rounds: Any, owner: str) -> None:
    rounds.transfer_ownership(field.sponsor, sender=owner)
    assert rounds.pending_owner() == field.sponsor
    with refuses("ownable_2step: caller is not the new owner"):
        rounds.accept_ownership(sender=field.stranger)
    rounds.accept_ownership(sender=field.sponsor)
    assert rounds.owner() == field.sponsor
    assert not hasattr(rounds, "renounce_ownership")


@pytest.mark.parametrize("name", ["report_opened", "report_closed", "invalidate"])
def test_reports_only__anyone_else__reverts(
    field: Field, rounds: Any, owner: str, name: str
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
        with refuses("rounds: not reports"):
            getattr(rounds, name)(*arguments, sender=sender)


@pytest.mark.parametrize("name", ["report_opened", "report_closed", "invalidate"])
def test_reports_only__outside_challenge__reverts(field: Field, rounds: Any, name: str) -> None:
    reports = field.system.reports.address
    arguments = (1, 1, field.ids[0]) if name == "invalidate" else (1, 1)
    for way in (field.to_commit, field.to_aggregate, field.to_disputed, field.to_finalized):
        with boa.env.anchor():
            way()
            with refuses("rounds: not in challenge"):
                getattr(rounds, name)(*arguments, sender=reports)
    field.to_challenge()
    field.system.wait_out(1, 1)
    with refuses("rounds: too late"):
        getattr(rounds, name)(*arguments, sender=reports)


def test_reports_only__counts(field: Field, rounds: Any) -> None:
    field.to_challenge()
    reports = field.system.reports.address
    with refuses("rounds: no open report"):
        rounds.report_closed(1, 1, sender=reports)
    rounds.report_opened(1, 1, sender=reports)
    rounds.report_opened(1, 1, sender=reports)
    rounds.report_closed(1, 1, sender=reports)
    assert rounds.round(1, 1).open_reports == 1


def test_invalidate__once_and_only_revealed_nodes(field: Field, rounds: Any) -> None:
    field.to_aggregate(field.trainers[:2])
    field.propose(1, nodes=field.ids[:2], contributions=[1, 1])
    reports = field.system.reports.address
    rounds.invalidate(1, 1, field.ids[0], sender=reports)
    assert events_of(rounds) == [
        ("NodeInvalidated", {"job_id": 1, "round_id": 1, "node_id": field.ids[0]})
    ]
    assert rounds.is_invalid(1, 1, field.ids[0])
    for node_id in (field.ids[0], field.ids[2], field.verifiers[0].node_id):
        with refuses("rounds: node not payable"):
            rounds.invalidate(1, 1, node_id, sender=reports)
