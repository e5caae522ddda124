# SPDX-License-Identifier: Apache-2.0
"""`record_round` appends, for TrainingResults only, to an unbroken chain of models, with the
reward that the pool keeps for the round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import wait
from tests.stage.contracts.events import event, logged
from tests.stage.contracts.system import EMPTY, Codes, System

JOB = 1
ROUND_LIMIT = 2**64
REWARD_LIMIT = 2**128


def _model(number: int) -> bytes:
    return keccak(text=f"model {number}")


def _roots(round_id: int) -> tuple[bytes, bytes, bytes]:
    names = ("contributors", "scores", "report")
    return tuple(keccak(text=f"{name} {round_id}") for name in names)  # type: ignore[return-value]


def _record(ledger: Any, results: str, round_id: int, prev: int, new: int, job: int = JOB) -> None:
    ledger.record_round(job, round_id, _model(prev), _model(new), *_roots(round_id), sender=results)


def _head(before: bytes, job: int, round_id: int, prev: int, new: int, reward: int = 0) -> bytes:
    """The hash chain of the interface, computed apart from the contract."""
    fields = ["bytes32", "uint256", "uint256"] + ["bytes32"] * 5 + ["uint256", "uint256"]
    models = (_model(prev), _model(new))
    values = [before, job, round_id, *models, *_roots(round_id), reward, boa.env.timestamp]
    return keccak(encode(fields, values))


def test_record_round__history_of_three__is_chained_and_readable(
    ledger: Any, results: str, reserve: Callable[[int, int], None]
) -> None:
    head = EMPTY
    assert ledger.head(JOB) == EMPTY
    for index, round_id in enumerate((1, 2, 5)):
        wait(100)
        reward = 10**18 + index
        reserve(round_id, reward)
        _record(ledger, results, round_id, index, index + 1)
        head = _head(head, JOB, round_id, index, index + 1, reward)
        contributors_root, scores_root, report = _roots(round_id)
        assert logged(ledger) == [
            event(
                "RoundRecorded",
                job_id=JOB,
                round_id=round_id,
                index=index,
                prev_model=_model(index),
                new_model=_model(index + 1),
                contributors_root=contributors_root,
                scores_root=scores_root,
                report=report,
                reward=reward,
                timestamp=boa.env.timestamp,
                head=head,
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
            reward,
            index,
        )
        assert ledger.head(JOB) == head
        assert ledger.length(JOB) == index + 1
        assert ledger.is_recorded(JOB, _model(index + 1))
        assert ledger.index_of(JOB, _model(index + 1)) == index
    assert not ledger.is_recorded(JOB, _model(0))
    first = ledger.entry(JOB, 0)
    assert (first.prev_model, first.new_model) == (_model(0), _model(1))


def test_record_round__pool_closed_since__reward_stays(
    system: System, results: str, reserve: Callable[[int, int], None]
) -> None:
    """The reward is what was set aside: what becomes of the pool later changes no entry."""
    reserve(1, 7 * 10**18)
    _record(system.ledger, results, 1, 0, 1)
    system.pool.close(JOB, 1, True, sender=results)
    assert system.ledger.entry(JOB, 0).reward == 7 * 10**18
    assert system.ledger.head(JOB) == _head(EMPTY, JOB, 1, 0, 1, 7 * 10**18)


def test_record_round__no_pool__reward_is_zero(ledger: Any, results: str) -> None:
    _record(ledger, results, 1, 0, 1)
    assert ledger.entry(JOB, 0).reward == 0


def test_record_round__largest_figures__are_kept_apart(
    codes: Codes, system: System, results: str
) -> None:
    """Reward, round and time share a word of storage: the largest of each touches no other. A
    token with a supply far above ZOO's is needed to come near."""
    sponsor = system.person("sponsor")
    job_id = system.job(sponsor, escrow=0)
    token = codes.token.deploy(sponsor, 2**200)
    pool = codes.pool.deploy(
        token.address,
        system.registry.address,
        system.jobs.address,
        results,
        system.scores.address,
        system.reports.address,
    )
    ledger = codes.ledger.deploy(results, pool.address, system.coordinator.address)
    token.approve(pool.address, 2**200, sender=sponsor)
    pool.fund(job_id, *system.jobs.origin_of(job_id), 2**200, sender=sponsor)
    last = ROUND_LIMIT - 1
    pool.reserve(job_id, last, REWARD_LIMIT - 1, sender=results)
    _record(ledger, results, last, 0, 1, job=job_id)
    entry = ledger.entry(job_id, 0)
    assert (entry.round_id, entry.reward, entry.timestamp) == (
        last,
        REWARD_LIMIT - 1,
        boa.env.timestamp,
    )
    pool.reserve(job_id, 1, REWARD_LIMIT, sender=results)
    with boa.reverts("ledger: out of range"):
        _record(ledger, results, 1, 1, 2, job=job_id)


def test_record_round__round_of_more_than_64_bits__reverts(ledger: Any, results: str) -> None:
    with boa.reverts("ledger: out of range"):
        _record(ledger, results, ROUND_LIMIT, 0, 1)


def test_record_round__jobs__do_not_touch_each_other(ledger: Any, results: str) -> None:
    _record(ledger, results, 1, 0, 1)
    head = ledger.head(JOB)
    _record(ledger, results, 1, 7, 8, job=JOB + 1)
    assert ledger.head(JOB) == head
    assert ledger.head(JOB + 1) == _head(EMPTY, JOB + 1, 1, 7, 8)
    assert not ledger.is_recorded(JOB, _model(8))


def test_record_round__model_that_did_not_move__is_fine(ledger: Any, results: str) -> None:
    _record(ledger, results, 1, 0, 0)
    _record(ledger, results, 2, 0, 0)
    assert ledger.length(JOB) == 2


def test_record_round__anyone_else__reverts(
    ledger: Any, deployer: str, attester: str, coordinator: str
) -> None:
    for sender in (deployer, attester, coordinator, str(ledger.address)):
        with boa.reverts("ledger: not results"):
            _record(ledger, sender, 1, 0, 1)
    assert ledger.length(JOB) == 0


@pytest.mark.parametrize("models", [(EMPTY, _model(1)), (_model(0), EMPTY), (EMPTY, EMPTY)])
def test_record_round__empty_model__reverts(
    ledger: Any, results: str, models: tuple[bytes, bytes]
) -> None:
    with boa.reverts("ledger: empty model"):
        ledger.record_round(JOB, 1, *models, *_roots(1), sender=results)


def test_record_round__gap_in_the_chain__reverts(ledger: Any, results: str) -> None:
    _record(ledger, results, 1, 0, 1)
    for wrong in (0, 2):
        with boa.reverts("ledger: broken chain"):
            _record(ledger, results, 2, wrong, 3)


@pytest.mark.parametrize("round_id", [0, 3, 4])
def test_record_round__same_or_earlier_round__reverts(
    ledger: Any, results: str, round_id: int
) -> None:
    _record(ledger, results, 4, 0, 1)
    with boa.reverts("ledger: round order"):
        _record(ledger, results, round_id, 1, 2)


def test_entry__past_the_end__reverts(ledger: Any, results: str) -> None:
    with boa.reverts("ledger: no entry"):
        ledger.entry(JOB, 0)
    _record(ledger, results, 1, 0, 1)
    with boa.reverts("ledger: no entry"):
        ledger.entry(JOB, 1)
