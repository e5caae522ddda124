# SPDX-License-Identifier: Apache-2.0
"""`lineage` and `entries`: newest first, bounded, whole, also when a model hash turns up again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import boa
import pytest
from eth_utils import keccak

JOB = 1
MOST = 64
ROOTS = (keccak(b"c"), keccak(b"s"), keccak(b"r"))


def _model(label: object) -> bytes:
    return keccak(text=f"model {label}")


def _record(ledger: Any, results: str, *path: object) -> None:
    """One entry per step of the path."""
    for step, (prev, new) in enumerate(pairwise(path)):
        ledger.record_round(JOB, step + 1, _model(prev), _model(new), *ROOTS, sender=results)


def _indexes(found: Any) -> list[int]:
    return [entry.index for entry in found]


def test_lineage__each_model__is_all_before_it(ledger: Any, results: str) -> None:
    _record(ledger, results, *range(5))
    for number in range(1, 5):
        found = ledger.lineage(JOB, _model(number), MOST)
        assert _indexes(found) == list(range(number - 1, -1, -1))
        assert found == [ledger.entry(JOB, index) for index in _indexes(found)]
        assert found[0].new_model == _model(number)
        for newer, older in pairwise(found):
            assert newer.prev_model == older.new_model
        assert found[-1].prev_model == _model(0)


def test_lineage__limit__is_kept(ledger: Any, results: str) -> None:
    _record(ledger, results, *range(5))
    assert _indexes(ledger.lineage(JOB, _model(4), 1)) == [3]
    assert _indexes(ledger.lineage(JOB, _model(4), 2)) == [3, 2]
    assert _indexes(ledger.lineage(JOB, _model(2), 3)) == [1, 0]


def test_lineage__longer_than_a_call_gives__is_read_in_pages(ledger: Any, results: str) -> None:
    _record(ledger, results, *range(MOST + 7))
    page = ledger.lineage(JOB, _model(MOST + 6), MOST)
    assert _indexes(page) == list(range(MOST + 5, 5, -1))
    rest = ledger.entries(JOB, page[-1].index - 1, MOST)
    assert _indexes(rest) == list(range(5, -1, -1))


def test_lineage__model_that_did_not_move__keeps_every_round(ledger: Any, results: str) -> None:
    """Rounds with a zero update: the hash stands for the newest of them, so none is left out."""
    _record(ledger, results, "a", "b", "b", "b", "c")
    assert ledger.index_of(JOB, _model("b")) == 2
    assert _indexes(ledger.lineage(JOB, _model("b"), MOST)) == [2, 1, 0]
    assert _indexes(ledger.lineage(JOB, _model("c"), MOST)) == [3, 2, 1, 0]


def test_lineage__first_model_comes_back__ends_at_the_first_entry(
    ledger: Any, results: str
) -> None:
    _record(ledger, results, "a", "b", "a", "b", "a")
    assert ledger.index_of(JOB, _model("a")) == 3
    assert ledger.index_of(JOB, _model("b")) == 2
    assert _indexes(ledger.lineage(JOB, _model("a"), MOST)) == [3, 2, 1, 0]
    assert _indexes(ledger.lineage(JOB, _model("b"), MOST)) == [2, 1, 0]


def test_lineage__zero_update_in_the_first_round__is_one_entry(ledger: Any, results: str) -> None:
    _record(ledger, results, "a", "a")
    (only,) = ledger.lineage(JOB, _model("a"), MOST)
    assert (only.index, only.prev_model, only.new_model) == (0, _model("a"), _model("a"))


@pytest.mark.parametrize(("job", "label"), [(JOB, "a"), (JOB, "x"), (JOB + 1, "b")])
def test_lineage__not_the_result_of_a_round__reverts(
    ledger: Any, results: str, job: int, label: str
) -> None:
    _record(ledger, results, "a", "b")
    for call in (lambda: ledger.lineage(job, _model(label), 1), lambda: _index(ledger, job, label)):
        with boa.reverts("ledger: unknown model"):
            call()
    assert not ledger.is_recorded(job, _model(label))


def _index(ledger: Any, job: int, label: str) -> int:
    return int(ledger.index_of(job, _model(label)))


@pytest.mark.parametrize("limit", [0, MOST + 1, 2**256 - 1])
def test_lineage__bad_limit__reverts(ledger: Any, results: str, limit: int) -> None:
    _record(ledger, results, "a", "b")
    with boa.reverts("ledger: bad limit"):
        ledger.lineage(JOB, _model("b"), limit)
    with boa.reverts("ledger: bad limit"):
        ledger.entries(JOB, 0, limit)


def test_entries__past_the_end__reverts(ledger: Any, results: str) -> None:
    with boa.reverts("ledger: no entry"):
        ledger.entries(JOB, 0, 1)
    _record(ledger, results, "a", "b")
    for index in (1, 2**256 - 1):
        with boa.reverts("ledger: no entry"):
            ledger.entries(JOB, index, 1)
    assert _indexes(ledger.entries(JOB, 0, MOST)) == [0]
