# SPDX-License-Identifier: Apache-2.0
"""What an audit says of a record that was made by the rules of an older version."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.audit.chain.scores import Scored, Vector
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.work.ratings import Ratings
from agents.gauntlet.record import ScoreRecord
from agents.gauntlet.replay import digest_of_record
from agents.storage.embedded import EmbeddedStore
from tests.stage.memory.score_records import LOSSES, NODES, OPTIONS, chain_of, honest_record, older

VERIFIER = 21
SCORED_BEFORE = chain_of(2)


def audited(folder: Path, record: ScoreRecord, raw: bytes, *before: bytes) -> Part:
    """The part of a record's round. `before`: what its validator revealed before, oldest first."""
    store = EmbeddedStore(folder)
    for one in (*before, raw):
        store.put_bytes(one)
    events = [
        SimpleNamespace(
            args={"round_id": number, "record": digest_of_record(one)}, block=number, log_index=0
        )
        for number, one in enumerate(before, start=1)
    ]
    happened = {"ScoresRevealed": events}
    chain: Any = SimpleNamespace(job_id=1, of=lambda name, *_, **__: happened.get(name, []))
    opened: Any = SimpleNamespace(nodes=NODES, prev_model=bytes.fromhex(record.model))
    vector = Vector(tuple(record.vector()), digest_of_record(raw))
    part = Part(record.round)
    scored = Scored({}, 0, {}, {VERIFIER: vector})
    seed = bytes.fromhex(record.audit_seed)
    Ratings(chain, Artefacts(store), OPTIONS).check(part, opened, scored, seed, None)
    return part


def test_it_is_not_replayed_and_a_sentence_says_so(tmp_path: Path) -> None:
    part = audited(tmp_path, SCORED_BEFORE[0], older(SCORED_BEFORE[0]))
    assert part.holds
    assert part.remarks == [
        "record of verifier 21: the record is of version 4, scored by an older rule, "
        "so it is not replayed."
    ]


def test_fresh_ratings_after_it_hold(tmp_path: Path) -> None:
    after = honest_record(None, 3, LOSSES)
    part = audited(tmp_path, after, after.to_bytes(), *map(older, SCORED_BEFORE))
    assert part.holds and part.counts["ratings"] > 1
    assert part.remarks == [
        "verifier 21 started from fresh ratings, although it revealed a record in round 2."
    ]


def test_to_go_on_from_it_is_a_difference(tmp_path: Path) -> None:
    before = [older(record) for record in SCORED_BEFORE]
    named = {"previous": digest_of_record(before[1]).hex()}
    after = honest_record(SCORED_BEFORE[1], 3, LOSSES).model_copy(update=named)
    part = audited(tmp_path, after, after.to_bytes(), *before)
    assert [d.sentence for d in part.differences] == ["its record follows one of an older version."]
