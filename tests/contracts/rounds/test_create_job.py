# SPDX-License-Identifier: Apache-2.0
"""create_job: every term is bounded, the sponsor is the caller, the creation is pausable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.system import (
    ACTIVE,
    DAY,
    EMPTY,
    TERMS,
    UNBONDING,
    ZERO,
    System,
    events_of,
    refuses,
    terms_tuple,
)

# Everything a node may have to stay for besides the commit window.
OTHER_WINDOWS = 500 + 2 * 400 + 300 + 700 + 2 * 800


@pytest.fixture
def sponsor(system: System) -> str:
    return system.person("sponsor")


def test_create_job__numbers_jobs_and_stores_the_terms(
    system: System, rounds: Any, sponsor: str
) -> None:
    assert rounds.create_job(terms_tuple(), sender=sponsor) == 1
    assert events_of(rounds) == [
        ("JobCreated", {"job_id": 1, "sponsor": sponsor, "terms": terms_tuple()})
    ]
    assert rounds.create_job(terms_tuple(rounds=7), sender=sponsor) == 2
    assert rounds.job_count() == 2
    assert rounds.job(1) == (
        sponsor,
        terms_tuple(),
        ACTIVE,
        False,
        0,
        0,
        TERMS["genesis_model"],
    )
    assert rounds.sponsor_of(2) == sponsor
    assert rounds.sponsor_of(3) == ZERO
    assert not rounds.job_ended(1)
    assert not rounds.job_ended(3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"spec": EMPTY}, "empty artefact"),
        ({"genesis_model": EMPTY}, "empty artefact"),
        ({"genesis_checkpoint": EMPTY}, "empty artefact"),
        ({"rounds": 0}, "bad round count"),
        ({"rounds": 100_001}, "bad round count"),
        ({"reward_per_round": 2**128}, "bad amount"),
        ({"challenge_bond": 0}, "bad amount"),
        ({"challenge_bond": 2**128}, "bad amount"),
        ({"verifier_bps": 4_501}, "cuts too high"),
        ({"aggregator_bps": 4_001}, "cuts too high"),
        ({"verifier_bps": 2**256 - 1, "aggregator_bps": 2}, "cuts too high"),
        ({"max_nodes": 0}, "bad node count"),
        ({"max_nodes": 129}, "bad node count"),
        *(
            ({window: bad}, "bad window")
            for window in TERMS
            if window.endswith("_s")
            for bad in (0, 30 * DAY + 1, 2**256 - 1)
        ),
        ({"commit_s": UNBONDING - OTHER_WINDOWS + 1}, "windows exceed unbonding"),
    ],
)
def test_create_job__bad_terms__reverts(
    rounds: Any, sponsor: str, changes: dict[str, Any], reason: str
) -> None:
    with refuses(f"rounds: {reason}"):
        rounds.create_job(terms_tuple(**changes), sender=sponsor)
    assert rounds.job_count() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 100_000},
        {"reward_per_round": 2**128 - 1, "challenge_bond": 2**128 - 1},
        {"reward_per_round": 0},
        {"verifier_bps": 5_000, "aggregator_bps": 0},
        {"max_nodes": 1},
        {"commit_s": UNBONDING - OTHER_WINDOWS},
    ],
)
def test_create_job__edge_of_the_bounds(rounds: Any, sponsor: str, changes: dict[str, Any]) -> None:
    assert rounds.create_job(terms_tuple(**changes), sender=sponsor) == 1


def test_create_job__paused__reverts(rounds: Any, owner: str, sponsor: str) -> None:
    rounds.set_paused(1, sender=owner)
    with refuses("pausing: paused"):
        rounds.create_job(terms_tuple(), sender=sponsor)
