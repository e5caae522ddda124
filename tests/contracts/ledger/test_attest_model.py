# SPDX-License-Identifier: Apache-2.0
"""`attest_model`: anyone, about recorded models only, once each; the Coordinator's word apart."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import event, logged
from tests.stage.contracts.system import System

JOB = 1
GOVERNANCE_DELAY = 3_600  # of the system's Coordinator
GENESIS, MODEL, CHECKPOINT, STATEMENT = (keccak(bytes([i])) for i in range(4))


@pytest.fixture
def recorded(ledger: Any, results: str) -> Any:
    roots = (keccak(b"c"), keccak(b"s"), keccak(b"r"))
    ledger.record_round(JOB, 1, GENESIS, MODEL, *roots, sender=results)
    return ledger


def test_attest_model__recorded_model__is_kept_and_logged(recorded: Any, attester: str) -> None:
    recorded.attest_model(JOB, MODEL, CHECKPOINT, STATEMENT, sender=attester)
    assert logged(recorded) == [
        event(
            "ModelAttested",
            job_id=JOB,
            model=MODEL,
            attester=attester,
            checkpoint=CHECKPOINT,
            statement=STATEMENT,
        )
    ]
    assert recorded.attested_checkpoint(JOB, MODEL, attester) == CHECKPOINT
    stated = (CHECKPOINT, STATEMENT, boa.env.timestamp)
    assert tuple(recorded.attestation_of(JOB, MODEL, attester)) == stated


def test_attest_model__anyone_but_the_coordinator__is_not_the_coordinators_word(
    recorded: Any, attester: str, deployer: str, results: str
) -> None:
    for sender in (attester, deployer, results):
        recorded.attest_model(JOB, MODEL, CHECKPOINT, STATEMENT, sender=sender)
    assert not recorded.is_attested(JOB, MODEL)
    assert recorded.checkpoint_of(JOB, MODEL) == bytes(32)


def test_attest_model__coordinator__is_told_from_others(
    recorded: Any, attester: str, coordinator: str
) -> None:
    other = keccak(b"other checkpoint")
    recorded.attest_model(JOB, MODEL, other, STATEMENT, sender=attester)
    wait(60)
    recorded.attest_model(JOB, MODEL, CHECKPOINT, bytes(32), sender=coordinator)
    assert recorded.is_attested(JOB, MODEL)
    assert recorded.checkpoint_of(JOB, MODEL) == CHECKPOINT
    stated = (CHECKPOINT, bytes(32), boa.env.timestamp)
    assert tuple(recorded.attestation_of(JOB, MODEL, coordinator)) == stated
    assert recorded.attested_checkpoint(JOB, MODEL, attester) == other
    assert not recorded.is_attested(JOB + 1, MODEL)
    with boa.reverts("ledger: already attested"):
        recorded.attest_model(JOB, MODEL, other, STATEMENT, sender=coordinator)


def test_attest_model__vote_of_the_committee__is_the_coordinators_word(
    system: System, recorded: Any
) -> None:
    """Through the real Coordinator: three of five members, then the delay."""
    members = system.coordinator.members()
    data = recorded.attest_model.prepare_calldata(JOB, MODEL, CHECKPOINT, STATEMENT)
    to = recorded.address
    op_id = system.coordinator.propose(to, data, bytes(32), sender=members[0])
    for member in members[1:3]:
        assert not recorded.is_attested(JOB, MODEL)
        system.coordinator.approve(op_id, sender=member)
    wait(GOVERNANCE_DELAY)
    system.coordinator.execute(op_id)
    assert recorded.checkpoint_of(JOB, MODEL) == CHECKPOINT


def test_attest_model__hash_recorded_again__attestation_stays(
    recorded: Any, results: str, coordinator: str
) -> None:
    """A hash names weights: what was stated about them holds wherever they turn up again."""
    recorded.attest_model(JOB, MODEL, CHECKPOINT, STATEMENT, sender=coordinator)
    roots = (keccak(b"c"), keccak(b"s"), keccak(b"r"))
    recorded.record_round(JOB, 2, MODEL, MODEL, *roots, sender=results)
    assert recorded.checkpoint_of(JOB, MODEL) == CHECKPOINT
    with boa.reverts("ledger: already attested"):
        recorded.attest_model(JOB, MODEL, STATEMENT, STATEMENT, sender=coordinator)


def test_attest_model__two_attesters__may_disagree(
    recorded: Any, attester: str, deployer: str
) -> None:
    recorded.attest_model(JOB, MODEL, CHECKPOINT, bytes(32), sender=attester)
    recorded.attest_model(JOB, MODEL, STATEMENT, bytes(32), sender=deployer)
    assert recorded.attested_checkpoint(JOB, MODEL, attester) == CHECKPOINT
    assert recorded.attested_checkpoint(JOB, MODEL, deployer) == STATEMENT


def test_attest_model__again__reverts(recorded: Any, attester: str) -> None:
    recorded.attest_model(JOB, MODEL, CHECKPOINT, STATEMENT, sender=attester)
    for checkpoint in (CHECKPOINT, STATEMENT):
        with boa.reverts("ledger: already attested"):
            recorded.attest_model(JOB, MODEL, checkpoint, STATEMENT, sender=attester)


@pytest.mark.parametrize(
    ("job", "model"), [(JOB, GENESIS), (JOB, CHECKPOINT), (JOB + 1, MODEL), (JOB, bytes(32))]
)
def test_attest_model__not_the_result_of_a_round__reverts(
    recorded: Any, attester: str, job: int, model: bytes
) -> None:
    with boa.reverts("ledger: unknown model"):
        recorded.attest_model(job, model, CHECKPOINT, STATEMENT, sender=attester)


def test_attest_model__empty_checkpoint__reverts(recorded: Any, attester: str) -> None:
    with boa.reverts("ledger: empty checkpoint"):
        recorded.attest_model(JOB, MODEL, bytes(32), STATEMENT, sender=attester)
