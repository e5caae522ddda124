# SPDX-License-Identifier: Apache-2.0
"""A record follows the newest one that its validator revealed, and starts again once in a while."""

from __future__ import annotations

import pytest

from agents.gauntlet.record import OlderRecord, ScoreRecord
from agents.gauntlet.record_chain import LOOK_BACK, breach, within_reach
from agents.gauntlet.replay import digest_of_record
from tests.stage.memory.score_records import chain_of

LIKE = chain_of(1)[0]


def record(number: int, previous: ScoreRecord | None, model: str = LIKE.model) -> ScoreRecord:
    changes = {
        "round": number,
        "position": 0 if previous is None else previous.position + 1,
        "previous": None if previous is None else name(previous).hex(),
        "model": model,
    }
    return LIKE.model_copy(update=changes)


def name(of: ScoreRecord) -> bytes:
    return digest_of_record(of.to_bytes())


def judged(
    new: ScoreRecord,
    *before: ScoreRecord,
    lost: tuple[ScoreRecord, ...] = (),
    older: tuple[ScoreRecord, ...] = (),
) -> str:
    """What is said of a record after these, oldest first; nobody has the `lost` ones any more, and
    the `older` ones are of an older version."""
    had = {name(old): old for old in before if old not in lost}
    revealed = [(old.round, name(old)) for old in reversed(before)]

    def read(digest: bytes) -> ScoreRecord | None:
        if digest in {name(old) for old in older}:
            raise OlderRecord("it is of version 3")
        return had.get(digest)

    return breach(new, revealed, read)


FIRST = record(1, None)
SECOND = record(2, FIRST)


def test_each_names_the_newest_before_it__is_no_breach() -> None:
    assert judged(FIRST) == "" == judged(SECOND, FIRST) == judged(record(4, SECOND), FIRST, SECOND)


@pytest.mark.parametrize("named", [FIRST, record(2, FIRST, model="07" * 32)])
def test_another_than_the_newest__is_a_breach(named: ScoreRecord) -> None:
    """An older one of its own, or one that was never revealed: nobody could replay its ratings."""
    assert "that of round 2" in judged(record(3, named), FIRST, SECOND)


def test_one_before_it_that_was_never_revealed__is_a_breach() -> None:
    assert "none" in judged(record(3, SECOND))


def test_fresh_ratings_once__are_no_breach() -> None:
    assert judged(record(3, None), FIRST, SECOND) == ""


def test_a_second_start_within_reach__is_a_breach() -> None:
    """Else a validator would choose each time whether it goes on from its ratings."""
    again = record(3, None)
    next_one, last = record(4, again), record(5, None)
    assert "that of round 3" in judged(last, FIRST, SECOND, again, next_one)
    assert judged(last, FIRST, SECOND, again, next_one, lost=(again,)) == ""


def test_a_second_start_long_after__is_no_breach() -> None:
    again = record(3, None)
    late = record(3 + LOOK_BACK, again)
    assert judged(record(4 + LOOK_BACK, None), FIRST, SECOND, again, late) == ""


def test_a_start_after_an_older_version_is_none_of_its_own_choice() -> None:
    """Else who lost its disk after an upgrade would have started twice."""
    upgraded, old = record(3, None), (FIRST, SECOND)
    assert judged(upgraded, *old, older=old) == ""
    next_one = record(4, upgraded)
    lost_its_disk = record(5, None)
    assert judged(lost_its_disk, *old, upgraded, next_one, older=old) == ""
    again = record(6, None)
    assert "that of round 5" in judged(again, *old, upgraded, next_one, lost_its_disk, older=old)


def test_only_the_last_rounds_can_be_named() -> None:
    revealed = [(number, b"%d" % number) for number in range(LOOK_BACK + 2, 0, -1)]
    reach = within_reach(revealed, LOOK_BACK + 3)
    assert [number for number, _ in reach] == list(range(LOOK_BACK + 2, 2, -1))
