# SPDX-License-Identifier: Apache-2.0
"""How many records that nobody has cost a member a search in one step."""

from __future__ import annotations

from contextlib import suppress

import pytest

from agents.gauntlet.earlier_records import MISSING_S, SEARCHES, EarlierRecords, SearchesSpent
from agents.gauntlet.record import OlderRecord, ScoreRecord
from agents.gauntlet.record_chain import LOOK_BACK, breach
from agents.storage.errors import NotFound, StoreUnavailable
from tests.stage.memory.score_records import chain_of

FIRST = chain_of(1)[0]
DIGESTS = [bytes([n]) * 32 for n in range(1, LOOK_BACK + 1)]


class Store:
    """Has no record but those given."""

    def __init__(self, *there: bytes) -> None:
        self.there = set(there)
        self.asked: list[bytes] = []
        self.error: Exception | None = None

    def read(self, digest: bytes) -> ScoreRecord:
        self.asked.append(digest)
        if self.error is not None:
            raise self.error
        if digest in self.there:
            return FIRST
        raise NotFound("nobody has it")


def test_a_record_that_starts_again_after_many_lost_ones_costs_few_searches_a_step() -> None:
    store = Store()
    records = EarlierRecords(store.read)
    again = FIRST.model_copy(update={"round": LOOK_BACK + 1})
    revealed = [(n, DIGESTS[n - 1]) for n in range(LOOK_BACK, 0, -1)]
    said, steps = None, 0
    while said is None:
        steps += 1
        records.begin(steps)
        before = len(store.asked)
        with suppress(SearchesSpent):
            said = breach(again, revealed, records.of)
        assert len(store.asked) - before <= SEARCHES
    assert said == "" and sorted(store.asked) == sorted(DIGESTS), "each is looked for once"
    assert steps == LOOK_BACK // SEARCHES


def test_what_was_missing_is_looked_for_again_later() -> None:
    store = Store()
    records = EarlierRecords(store.read)
    for now in (0, MISSING_S - 1):
        records.begin(now)
        assert records.of(DIGESTS[0]) is None
    assert len(store.asked) == 1
    store.there.add(DIGESTS[0])
    records.begin(MISSING_S)
    assert records.of(DIGESTS[0]) == FIRST


def test_those_that_are_there_are_not_counted() -> None:
    store = Store(*DIGESTS)
    records = EarlierRecords(store.read)
    records.begin(0)
    assert all(records.of(digest) for digest in DIGESTS)


@pytest.mark.parametrize("error", [StoreUnavailable("down"), OlderRecord("version 3")])
def test_a_store_that_is_down_and_an_older_record_are_no_missing_ones(error: Exception) -> None:
    store = Store()
    store.error = error
    records = EarlierRecords(store.read)
    records.begin(0)
    for _ in range(2):
        with pytest.raises(type(error)):
            records.of(DIGESTS[0])
    assert len(store.asked) == 2
