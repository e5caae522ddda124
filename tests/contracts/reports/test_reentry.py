# SPDX-License-Identifier: Apache-2.0
"""A token or a registry that calls ViolationReports from the middle of an appeal, a slash or the
release of a stake: the lock refuses it, also what only reads, since a report is half ended then."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts import system as stage
from tests.stage.contracts.intruder import Intruder
from tests.stage.contracts.rounds import DEPOSIT, RoundStage
from tests.stage.contracts.system import STAKE

WORD = b"\x01" * 32
STATEMENT = keccak(text="statement")
EXECUTED, DISMISSED = 4, 5

# `withdraw_bond` has no lock: it empties a credit before it pays.
CALLS = [
    ("is_pending", (1, 1, 1)),
    ("finder_of", (1, 1, 1)),
    ("report_of", (WORD,)),
    ("announce_report", (1, 1, 1, WORD, 1)),
    ("expire_announcement", (1, 1, 1, WORD)),
    ("open_announcement", (1, 1, 1, 1, WORD)),
    ("report", (1, 1, 1, 1, stage.COPIED, WORD)),
    ("lapse", (WORD,)),
    ("appeal", (WORD, WORD)),
    ("resolve_appeal", (WORD, True)),
    ("execute", (WORD,)),
    ("dismiss_unresolved", (WORD,)),
    ("withdraw_bond", ()),
]


@pytest.fixture
def report_id(challenge: RoundStage) -> bytes:
    """INVALID of trainer 0, found by verifier 0 and confirmed by verifier 1."""
    return challenge.find(1, challenge.trainers[0], stage.INVALID, *challenge.verifiers[:2])


def intruder_on(of: RoundStage, target: Any, name: str, arguments: tuple[Any, ...]) -> Intruder:
    """The token strikes in its transfers, the registry in a slash and in the release of a stake."""
    token, registry = of.system.token, of.system.registry
    neighbours = (token, ("transfer", "transferFrom")), (registry, ("slash", "unlock"))
    return Intruder(target, name, arguments, *neighbours)


def pass_deadline(reports: Any, report_id: bytes) -> None:
    boa.env.evm.patch.timestamp = reports.report_of(report_id).deadline + 1


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_execute__reentered_by_the_registry__slashes_once(
    challenge: RoundStage, reports: Any, report_id: bytes, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: have the slash twice, or appeal while it is on the way."""
    intruder = intruder_on(challenge, reports, name, arguments)
    pass_deadline(reports, report_id)
    amount = intruder.locked_out(lambda: reports.execute(report_id), 3)  # unlock, slash, bounty
    node = challenge.trainers[0].node_id
    assert reports.report_of(report_id).status == EXECUTED
    assert challenge.system.registry.bonded(node) == STAKE - amount
    assert not reports.is_pending(1, 1, node)


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_appeal__reentered_by_token_and_registry__is_upheld_once(
    challenge: RoundStage,
    reports: Any,
    report_id: bytes,
    owner: str,
    name: str,
    arguments: tuple[Any, ...],
) -> None:
    """Attack: end the appeal twice, from inside its bond's payment or a reporter's slash."""
    node = challenge.trainers[0]
    intruder = intruder_on(challenge, reports, name, arguments)
    intruder.locked_out(lambda: reports.appeal(report_id, STATEMENT, sender=node.owner), 1)
    intruder.locked_out(lambda: reports.resolve_appeal(report_id, True, sender=owner), 3)
    assert reports.report_of(report_id).status == DISMISSED
    assert reports.bond_credit(node.owner) == stage.APPEAL_BOND
    assert reports.bonds_held() == stage.APPEAL_BOND + 2 * DEPOSIT


def test_finalize__from_inside_an_execution__cannot_ask_what_is_pending(
    challenge: RoundStage, reports: Any, report_id: bytes
) -> None:
    """Attack: the round is settled while the slash of one of its nodes is half done. Settling asks
    `is_pending`, which the lock refuses; it works once the report has come to its end."""
    results = challenge.system.results
    pass_deadline(reports, report_id)
    assert results.can_finalize(1, 1)
    shares = (1, 1, challenge.ids, challenge.shares)
    intruder = intruder_on(challenge, results, "finalize", shares)
    intruder.locked_out(lambda: reports.execute(report_id), 3)
    challenge.finalize()
    assert challenge.system.phase(1, 1) == stage.FINALIZED
