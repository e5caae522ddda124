# SPDX-License-Identifier: Apache-2.0
"""`attest_model`: anyone, about recorded models only, once each."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_utils import keccak

from tests.contracts.event_log import logged

JOB = 1
GENESIS, MODEL, CHECKPOINT, STATEMENT = (keccak(bytes([i])) for i in range(4))


@pytest.fixture
def recorded(ledger: Any, rounds: str) -> Any:
    roots = (keccak(b"c"), keccak(b"s"), keccak(b"r"))
    ledger.record_round(JOB, 1, GENESIS, MODEL, *roots, sender=rounds)
    return ledger


def test_attest_model__recorded_model__is_kept_and_logged(recorded: Any, attester: str) -> None:
    recorded.attest_model(JOB, MODEL, CHECKPOINT, STATEMENT, sender=attester)
    assert logged(recorded) == [
        (
            "ModelAttested",
            {
                "job_id": JOB,
                "model": MODEL,
                "attester": attester,
                "checkpoint": CHECKPOINT,
                "statement": STATEMENT,
            },
        )
    ]
    assert recorded.attested_checkpoint(JOB, MODEL, attester) == CHECKPOINT


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
