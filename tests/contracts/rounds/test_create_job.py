# SPDX-License-Identifier: Apache-2.0
"""create_job: every term is bounded, the sponsor is the caller, the creation is pausable."""

from __future__ import annotations

from typing import Any

import boa
import pytest

from tests.stage.contracts.events import event
from tests.stage.contracts.system import (
    ACTIVE,
    BOUNDS,
    EMPTY,
    TERMS,
    UNBONDING,
    ZERO,
    ZOO,
    Codes,
    System,
    deploy,
    events_of,
    refuses,
    terms_tuple,
)

WINDOWS = [name for name in TERMS if name.endswith("_s")]
# A window is longer than this: 14 days // 20,000.
TOO_SHORT = 60
# Twice the Coordinator's routine delay of 60 s.
DECISION = 120
# Everything a node may have to stay for besides the commit window.
OTHER_WINDOWS = 500 + 2 * 400 + 300 + 150 + 700 + 2 * 800


@pytest.fixture
def sponsor(system: System) -> str:
    return system.person("sponsor")


def test_create_job__numbers_jobs_and_stores_the_terms(sponsor: str, jobs: Any) -> None:
    assert jobs.create_job(terms_tuple(), sender=sponsor) == 1
    assert events_of(jobs) == [event("JobCreated", job_id=1, sponsor=sponsor, terms=terms_tuple())]
    assert jobs.create_job(terms_tuple(rounds=7), sender=sponsor) == 2
    assert jobs.job_count() == 2
    assert jobs.job(1) == (sponsor, terms_tuple(), ACTIVE, False, 0, 0, TERMS["genesis_model"])
    assert jobs.sponsor_of(2) == sponsor
    assert jobs.sponsor_of(3) == ZERO
    assert not jobs.job_ended(1)
    assert not jobs.job_ended(3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"spec": EMPTY}, "empty artefact"),
        ({"genesis_model": EMPTY}, "empty artefact"),
        ({"genesis_checkpoint": EMPTY}, "empty artefact"),
        ({"rounds": 0}, "bad round count"),
        ({"rounds": 100_001}, "bad round count"),
        ({"reward_per_round": 2**128}, "bad amount"),
        ({"reward_per_round": ZOO - 1}, "reward too low"),
        ({"challenge_bond": 0}, "bad bond"),
        ({"challenge_bond": BOUNDS[0] - 1}, "bad bond"),
        ({"challenge_bond": BOUNDS[1] + 1}, "bad bond"),
        ({"verifier_bps": 4_501}, "cuts too high"),
        ({"aggregator_bps": 4_001}, "cuts too high"),
        ({"verifier_bps": 5_001, "aggregator_bps": 0}, "cuts too high"),
        ({"verifier_bps": 0, "aggregator_bps": 5_001}, "cuts too high"),
        ({"verifier_bps": 2**256 - 1, "aggregator_bps": 0}, "cuts too high"),
        ({"max_nodes": 0}, "bad node count"),
        ({"max_nodes": 129}, "bad node count"),
        ({"retain_rounds": 33}, "bad retention"),
        *(({window: bad}, "bad window") for window in WINDOWS for bad in (0, 1, TOO_SHORT)),
        *(({window: UNBONDING}, "windows exceed unbonding") for window in WINDOWS),
        ({"commit_s": UNBONDING - OTHER_WINDOWS + 1}, "windows exceed unbonding"),
        ({"dispute_s": TOO_SHORT + 1}, "dispute window too short"),
        ({"dispute_s": DECISION - 1}, "dispute window too short"),
    ],
)
def test_create_job__bad_terms__reverts(
    sponsor: str, changes: dict[str, Any], reason: str, jobs: Any
) -> None:
    with refuses(f"jobs: {reason}"):
        jobs.create_job(terms_tuple(**changes), sender=sponsor)
    assert jobs.job_count() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 100_000},
        {"reward_per_round": 2**128 - 1, "challenge_bond": BOUNDS[1]},
        {"reward_per_round": ZOO, "challenge_bond": BOUNDS[0]},
        {"verifier_bps": 5_000, "aggregator_bps": 0},
        {"verifier_bps": 0, "aggregator_bps": 5_000},
        {"max_nodes": 1},
        {"retain_rounds": 32},
        {"commit_s": UNBONDING - OTHER_WINDOWS},
        *({window: TOO_SHORT + 1} for window in WINDOWS if window != "dispute_s"),
        {"dispute_s": DECISION},
    ],
)
def test_create_job__edge_of_the_bounds(sponsor: str, changes: dict[str, Any], jobs: Any) -> None:
    assert jobs.create_job(terms_tuple(**changes), sender=sponsor) == 1


@pytest.mark.parametrize(
    "changes",
    [
        *({window: 2**256 - 1} for window in WINDOWS),
        {"verifier_bps": 2**256 - 1, "aggregator_bps": 2},
    ],
)
def test_create_job__sum_that_overflows__reverts(
    sponsor: str, changes: dict[str, Any], jobs: Any
) -> None:
    """The compiler's check stops it, without a reason: no sum wraps round to a small one."""
    with pytest.raises(boa.BoaError):
        jobs.create_job(terms_tuple(**changes), sender=sponsor)
    assert jobs.job_count() == 0


def test_create_job__shortest_window_follows_the_unbonding_period(codes: Codes) -> None:
    """Ten times the unbonding period, ten times the shortest window."""
    system = deploy(codes, unbonding_period=10 * UNBONDING)
    sponsor = system.person("sponsor")
    terms = dict.fromkeys(WINDOWS, 10 * TOO_SHORT + 10)
    for window in WINDOWS:
        with refuses("jobs: bad window"):
            short = terms_tuple(**{**terms, window: 10 * TOO_SHORT + 4})
            system.jobs.create_job(short, sender=sponsor)
    assert system.jobs.create_job(terms_tuple(**terms), sender=sponsor) == 1


def test_create_job__window_above_a_month__reverts(codes: Codes) -> None:
    """A longer one would not fit in the clock's 22 bits, whatever the unbonding period allows."""
    month = 30 * 86_400
    system = deploy(codes, unbonding_period=365 * 86_400)
    sponsor = system.person("sponsor")
    terms = dict.fromkeys(WINDOWS, month)
    for window in WINDOWS:
        with refuses("jobs: bad window"):
            long = terms_tuple(**{**terms, window: month + 1})
            system.jobs.create_job(long, sender=sponsor)
    assert system.jobs.create_job(terms_tuple(**terms), sender=sponsor) == 1


def test_create_job__owner_without_a_delay__may_decide_at_once(
    sponsor: str, owner: str, jobs: Any
) -> None:
    """Before the Coordinator takes over, the owner is an account: there is no delay to respect."""
    short = terms_tuple(dispute_s=TOO_SHORT + 1)
    with refuses("jobs: dispute window too short"):
        jobs.create_job(short, sender=sponsor)
    jobs.transfer_ownership(sponsor, sender=owner)
    jobs.accept_ownership(sender=sponsor)
    assert jobs.create_job(short, sender=sponsor) == 1
    with refuses("jobs: bad window"):
        jobs.create_job(terms_tuple(dispute_s=TOO_SHORT), sender=sponsor)
