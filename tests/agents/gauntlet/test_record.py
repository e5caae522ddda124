# SPDX-License-Identifier: Apache-2.0
"""A record has one spelling, bounded fields, and nothing that contradicts itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.gauntlet.record import (
    MAX_NODES,
    MAX_RECORD_BYTES,
    OlderRecord,
    RecordError,
    ScoreRecord,
)
from agents.storage.canonical import dumps, loads
from tests.stage.memory.score_records import LOSSES, chain_of, honest_record

RECORD = chain_of(2)[1]
RAW = RECORD.to_bytes()


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    """The record's bytes after an edit."""
    fields = loads(RAW)
    change(fields)
    return dumps(fields)


def test_it_reads_back_what_was_written() -> None:
    assert ScoreRecord.from_bytes(RAW) == RECORD
    assert ScoreRecord.from_bytes(RAW).to_bytes() == RAW
    assert RECORD.vector() == [line.score for line in RECORD.scores]


def test_the_largest_record_fits() -> None:
    """128 nodes, all with the longest of everything, and 512 ratings."""
    nodes = tuple(range(10**18, 10**18 + MAX_NODES))
    record = honest_record(None, 1, LOSSES, dict.fromkeys(nodes, "x" * 160), nodes)
    losses = dict.fromkeys(("assigned", "random", "expected"), -(2 * 10**15)) | {
        "shown": -1_000_000,
        "extra": -1_000_000,
    }
    longest = {"usable": True, "evaluated": True, "sync": 10**12, **losses}
    widest = {
        "skill": -500_000_000,
        "sigma": 500_000_000,
        "mu": -1_000_000,
        "value": -1_000_000,
        "extra": -1_000_000,
        "unseen": 1_000,
    }
    lines = [record.scores[0].model_copy(update={**longest, "node": node}) for node in nodes]
    ratings = [
        record.ratings[0].model_copy(update={**widest, "node": 10**18 + n}) for n in range(512)
    ]
    full = record.model_copy(update={"scores": lines, "ratings": ratings})
    assert len(full.to_bytes()) < MAX_RECORD_BYTES
    assert ScoreRecord.from_bytes(full.to_bytes()) == full


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.update(extra=1), "not a known key"),
        (lambda f: f.pop("audit_seed"), "audit_seed"),
        (lambda f: f.update(audit_seed="AB" * 32), "audit_seed"),
        (lambda f: f.update(round="2"), "another type"),
        (lambda f: f.update(secret="00" * 32), "not a known key"),
        (lambda f: f.update(version=6), "version"),
        (lambda f: f.update(version=0), "version"),
        (lambda f: f.update(version=True), "version|another type"),
        (lambda f: f.update(previous=None), "none before it"),
        (lambda f: f.update(position=0), "none before it"),
        (lambda f: f.update(scores=[]), "scores"),
        (lambda f: f["scores"].append(f["scores"][0]), "twice"),
        (lambda f: f["ratings"].append(f["ratings"][0]), "twice"),
        (lambda f: f["ratings"].reverse(), "ascending"),
        (lambda f: f["scores"][0].update(score=65_536), "score"),
        (lambda f: f["scores"][0].update(score=-1), "score"),
        (lambda f: f["scores"][0].update(score=1.0), "another type"),
        (lambda f: f["scores"][0].update(usable=False), "needs a failure|not evaluated"),
        (lambda f: f["scores"][0].update(failure="unavailable: gone"), "is called usable"),
        (lambda f: f["scores"][0].update(failure="x" * 161), "failure"),
        (lambda f: f["ratings"][0].update(sigma=0), "sigma"),
        (lambda f: f["ratings"][0].update(mu=1_000_001), "mu"),
        (lambda f: f["ratings"][0].update(skill=10**10), "skill"),
        (lambda f: f["ratings"][0].update(unseen=-1), "unseen"),
    ],
)
def test_an_edit_that_breaks_a_field_is_refused(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    with pytest.raises(RecordError, match=says):
        ScoreRecord.from_bytes(changed(change))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_record_of_an_older_version_says_so_whatever_else_it_holds(version: int) -> None:
    with pytest.raises(OlderRecord, match=f"of version {version}, scored by an older rule"):
        ScoreRecord.from_bytes(changed(lambda f: f.update(version=version, secret="00" * 32)))


def test_what_has_no_such_version_is_not_called_older() -> None:
    for version in (0, 6, True, "3", None):
        with pytest.raises(RecordError) as refused:
            ScoreRecord.from_bytes(changed(lambda f, v=version: f.update(version=v)))  # type: ignore[misc]
        assert not isinstance(refused.value, OlderRecord)


@pytest.mark.parametrize("field", ["assigned", "random", "expected"])
def test_losses_are_stated_together_and_of_the_evaluated(field: str) -> None:
    seen = next(i for i, line in enumerate(RECORD.scores) if line.assigned is not None)
    with pytest.raises(RecordError, match="together"):
        ScoreRecord.from_bytes(changed(lambda f: f["scores"][seen].update({field: None})))
    with pytest.raises(RecordError, match="not evaluated"):
        ScoreRecord.from_bytes(changed(lambda f: f["scores"][seen].update(evaluated=False)))


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"[]", b"null", b'{"version":1}', b"\xff\xfe", b'{"a":NaN}', b"[" * 100_000),
        *(RAW + b" ", RAW.replace(b'{"', b'{ "', 1), b"x" * (MAX_RECORD_BYTES + 1)),
    ],
)
def test_garbage_is_an_error_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(RecordError, match="record"):
        ScoreRecord.from_bytes(raw)
