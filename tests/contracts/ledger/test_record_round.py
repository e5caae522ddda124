# SPDX-License-Identifier: Apache-2.0
"""`record_round` appends, for the rounds contract only, to an unbroken chain of models."""

from __future__ import annotations

from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.contracts.event_log import logged

ZERO = "0x" + "00" * 20
EMPTY = bytes(32)
JOB = 3


def _model(number: int) -> bytes:
    return keccak(text=f"model {number}")


def _roots(round_id: int) -> tuple[bytes, bytes, bytes]:
    names = ("contributors", "scores", "report")
    return tuple(keccak(text=f"{name} {round_id}") for name in names)  # type: ignore[return-value]


def _record(ledger: Any, rounds: str, round_id: int, prev: int, new: int, job: int = JOB) -> None:
    ledger.record_round(job, round_id, _model(prev), _model(new), *_roots(round_id), sender=rounds)


def _head(before: bytes, job: int, round_id: int, prev: int, new: int) -> bytes:
    """The hash chain of the interface, computed apart from the contract."""
    fields = ["bytes32", "uint256", "uint256"] + ["bytes32"] * 5
    values = [before, job, round_id, _model(prev), _model(new), *_roots(round_id)]
    return keccak(encode(fields, values))


def test_constructor__zero_rounds__reverts(ledger_blueprint: Any) -> None:
    with boa.reverts("ledger: zero address"):
        ledger_blueprint.deploy(ZERO)


def test_constructor__rounds__is_public(ledger: Any, rounds: str) -> None:
    assert ledger.rounds() == rounds


def test_record_round__history_of_three__is_chained_and_readable(ledger: Any, rounds: str) -> None:
    head = EMPTY
    assert ledger.head(JOB) == EMPTY
    for index, round_id in enumerate((1, 2, 5)):
        _record(ledger, rounds, round_id, index, index + 1)
        head = _head(head, JOB, round_id, index, index + 1)
        contributors_root, scores_root, report = _roots(round_id)
        assert logged(ledger) == [
            (
                "RoundRecorded",
                {
                    "job_id": JOB,
                    "round_id": round_id,
                    "index": index,
                    "prev_model": _model(index),
                    "new_model": _model(index + 1),
                    "contributors_root": contributors_root,
                    "scores_root": scores_root,
                    "report": report,
                    "head": head,
                },
            )
        ]
        assert tuple(ledger.entry(JOB, index)) == (
            round_id,
            _model(index),
            _model(index + 1),
            contributors_root,
            scores_root,
            report,
            head,
            boa.env.timestamp,
        )
        assert ledger.head(JOB) == head
        assert ledger.length(JOB) == index + 1
        assert ledger.is_recorded(JOB, _model(index + 1))
    assert not ledger.is_recorded(JOB, _model(0))
    first = ledger.entry(JOB, 0)
    assert (first.prev_model, first.new_model) == (_model(0), _model(1))


def test_record_round__jobs__do_not_touch_each_other(ledger: Any, rounds: str) -> None:
    _record(ledger, rounds, 1, 0, 1)
    head = ledger.head(JOB)
    _record(ledger, rounds, 1, 7, 8, job=JOB + 1)
    assert ledger.head(JOB) == head
    assert ledger.head(JOB + 1) == _head(EMPTY, JOB + 1, 1, 7, 8)
    assert not ledger.is_recorded(JOB, _model(8))


def test_record_round__model_that_did_not_move__is_fine(ledger: Any, rounds: str) -> None:
    _record(ledger, rounds, 1, 0, 0)
    _record(ledger, rounds, 2, 0, 0)
    assert ledger.length(JOB) == 2


def test_record_round__anyone_else__reverts(ledger: Any, deployer: str, attester: str) -> None:
    for sender in (deployer, attester, str(ledger.address)):
        with boa.reverts("ledger: not rounds"):
            _record(ledger, sender, 1, 0, 1)
    assert ledger.length(JOB) == 0


@pytest.mark.parametrize("models", [(EMPTY, _model(1)), (_model(0), EMPTY), (EMPTY, EMPTY)])
def test_record_round__empty_model__reverts(
    ledger: Any, rounds: str, models: tuple[bytes, bytes]
) -> None:
    with boa.reverts("ledger: empty model"):
        ledger.record_round(JOB, 1, *models, *_roots(1), sender=rounds)


def test_record_round__gap_in_the_chain__reverts(ledger: Any, rounds: str) -> None:
    _record(ledger, rounds, 1, 0, 1)
    for wrong in (0, 2):
        with boa.reverts("ledger: broken chain"):
            _record(ledger, rounds, 2, wrong, 3)


@pytest.mark.parametrize("round_id", [0, 3, 4])
def test_record_round__same_or_earlier_round__reverts(
    ledger: Any, rounds: str, round_id: int
) -> None:
    _record(ledger, rounds, 4, 0, 1)
    with boa.reverts("ledger: round order"):
        _record(ledger, rounds, round_id, 1, 2)


def test_entry__past_the_end__reverts(ledger: Any, rounds: str) -> None:
    with boa.reverts("ledger: no entry"):
        ledger.entry(JOB, 0)
    _record(ledger, rounds, 1, 0, 1)
    with boa.reverts("ledger: no entry"):
        ledger.entry(JOB, 1)
