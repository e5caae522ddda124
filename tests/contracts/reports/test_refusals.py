# SPDX-License-Identifier: Apache-2.0
"""What ViolationReports refuses, to whom and when. In round 1 trainers 0 and 1 revealed the same
content; the reports are of trainer 0, as INVALID, unless a row says otherwise."""

from __future__ import annotations

import boa
import pytest
from eth_utils import keccak

from tests.contracts.reports.conftest import to_challenge
from tests.stage.contracts.refusals import Act, Refusal, by, by_each, first, node
from tests.stage.contracts.refusals import refused as row
from tests.stage.contracts.rounds import DEPOSIT, EVIDENCE, RoundStage
from tests.stage.contracts.system import (
    COPIED,
    FALSE_REPORT,
    INVALID,
    NO_REVEAL,
    STAKE,
    VERIFIER,
)

STATEMENT = keccak(text="statement")
# Who may be taken for the node, a verifier's operator or the owner, and is not.
NOT_THE_NODE = ["trainer 0 payout", "trainer 1 owner", "verifier 0", "coordinator", "stranger"]
NOT_VERIFIER_0 = ["verifier 0 owner", "verifier 1", "sponsor", "coordinator", "stranger"]
NOT_OWNERS = [
    *("trainer 0 owner", "trainer 0", "verifier 0", "sponsor", "rounds", "stranger", "deployer"),
]


def report(
    who: str = "verifier 0",
    verifier: str = "verifier 0",
    of: str = "trainer 0",
    violation: int = INVALID,
) -> Act:
    return by(who, "reports.report", 1, 1, node(verifier), node(of), violation, EVIDENCE)


def announce(who: str, verifier: str = "verifier 0", deposit: int = DEPOSIT) -> Act:
    return by(who, "reports.announce_report", 1, 1, node(verifier), STATEMENT, deposit)


def expire(digest: bytes = STATEMENT, verifier: str = "verifier 0") -> Act:
    return by("stranger", "reports.expire_announcement", 1, 1, node(verifier), digest)


def report_id(stage: RoundStage) -> bytes:
    return stage.report_id(1, stage.trainers[0], INVALID)


def appeal(who: str = "trainer 0 owner", of: Act | bytes = report_id) -> Act:
    return by(who, "reports.appeal", of, STATEMENT)


def resolve(who: str = "coordinator", upheld: bool = True) -> Act:
    return by(who, "reports.resolve_appeal", report_id, upheld)


def end(function: str, of: Act | bytes = report_id) -> Act:
    return by("stranger", f"reports.{function}", of)


def pass_deadline(stage: RoundStage) -> None:
    """Of the report's stage."""
    boa.env.evm.patch.timestamp = stage.system.reports.report_of(report_id(stage)).deadline + 1


def unrevealed(stage: RoundStage) -> None:
    """In CHALLENGE; trainer 2 did not reveal."""
    stage.to_aggregate(stage.trainers[:2])
    stage.propose(1, nodes=[], contributions=[])


def late_verifier(stage: RoundStage) -> None:
    to_challenge(stage)
    stage.system.join("late", VERIFIER, 50 * STAKE)


def challenge_over(stage: RoundStage) -> None:
    to_challenge(stage)
    stage.system.wait_out(1, 1)


REPORTED = first(to_challenge, report())
CONFIRMED = first(REPORTED, report("verifier 1", "verifier 1"))
APPEALED = first(CONFIRMED, appeal())

REFUSED = [
    *(
        row("reports: not in challenge", report(), after=after)
        for after in (None, "to_commit", "to_aggregate", "to_finalized", challenge_over)
    ),
    row("reports: not operator", *map(report, NOT_VERIFIER_0), after=to_challenge),
    row(
        "reports: not a verifier",
        *(report(who, who) for who in ("late", "aggregator 0", "trainer 1")),
        after=late_verifier,
    ),
    row(
        "reports: unknown violation",
        *(report(violation=v) for v in (0, NO_REVEAL, 4, 5, FALSE_REPORT, 7, 2**256 - 1)),
        after=to_challenge,
    ),
    row(
        "reports: not revealed",
        *(report(of=who) for who in ("trainer 2", "verifier 1", "aggregator 0")),
        after=unrevealed,
    ),
    row(
        "reports: not a duplicate",
        report(of="trainer 2", violation=COPIED),
        after=to_challenge,
    ),
    row("reports: already reported", report(), after=REPORTED),
    row(
        "reports: already confirmed",
        *(report("verifier 2", "verifier 2", violation=v) for v in (INVALID, COPIED)),
        after=CONFIRMED,
    ),
    row(
        "reports: not operator",
        *map(announce, ("verifier 0 owner", "stranger", "trainer 0")),
        after=to_challenge,
    ),
    row("reports: not a verifier", announce("trainer 0", "trainer 0"), after=to_challenge),
    row(
        "reports: bad deposit",
        *(announce("verifier 0", deposit=d) for d in (0, 2**128, 2**256 - 1)),
        after=to_challenge,
    ),
    row(
        "erc20: transfer amount exceeds balance",
        announce("verifier 0", deposit=100 * DEPOSIT + 1),
        after=to_challenge,
    ),
    row("announcements: not announced", expire(), after=to_challenge),
    row(
        "announcements: not announced",
        *(expire(bytes(32)), expire(verifier="verifier 1")),
        after=first(to_challenge, announce("verifier 0")),
    ),
    row(
        "announcements: too early",
        expire(),
        after=first(to_challenge, announce("verifier 0")),
    ),
    # Appeals
    row("reports: not the node", *map(appeal, NOT_THE_NODE), after=CONFIRMED),
    row("reports: too late", appeal(), after=first(CONFIRMED, pass_deadline)),
    row("erc20: insufficient allowance", appeal("trainer 0"), after=CONFIRMED),
    row("reports: not confirmed", appeal(), end("execute"), after=APPEALED),
    row(
        "ownable: caller is not the owner",
        *by_each(NOT_OWNERS, "reports.resolve_appeal", report_id, True),
        *by_each(NOT_OWNERS, "reports.resolve_appeal", report_id, False),
        after=APPEALED,
    ),
    row("reports: too late", resolve(), after=first(APPEALED, pass_deadline)),
    row("reports: not appealed", resolve(), end("dismiss_unresolved"), after=CONFIRMED),
    # Ends
    row("reports: not confirmed", end("execute"), end("execute", bytes(32)), after=REPORTED),
    row("reports: not open", end("lapse"), end("lapse", bytes(32)), after=CONFIRMED),
    row("reports: not appealed", end("dismiss_unresolved", bytes(32))),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_call__is_refused_with_its_reason(stage: RoundStage, refusal: Refusal) -> None:
    refusal.check(stage)
