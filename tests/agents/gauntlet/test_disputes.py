# SPDX-License-Identifier: Apache-2.0
"""When a committee member says that nobody can have a validator's record."""

from __future__ import annotations

from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.gauntlet import disputes as module
from agents.gauntlet.disputes import LOOK_BLOCKS, WITHHELD_BLOCKS, ScoreDisputes, _Vector
from agents.storage.errors import NotFound

BLOCK, OLD = 10_000, 17_200  # of the reveal, and a day later
VECTOR = _Vector(1, 5, 7, (1, 2), b"\1" * 32, BLOCK)


class Member:
    """One process of a member before one vector; all that its record says is right."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up, self.looks = True, 0
        self.pinned: list[str] = []
        self.overruled: set[int] = set()
        score: Any = Stub(spec=None)
        self.disputes = object.__new__(ScoreDisputes)
        parts: dict[str, Any] = {
            "_store": Stub(
                get_digest=self.get, resolve=lambda digest: digest.hex(), pin=self.pinned.append
            ),
            "_network": None,
            "_found": {},
            "_not_before": {},
            "_absent": set(),
            "_missed": {},
            "_samples": None,
            "_read": lambda _: ([VECTOR], {(1, 5): self.overruled}),
            "_denied": lambda *_: "",
            "_drawn": lambda *_: "",
            "_options": lambda _: score,
            "_rounds": lambda: None,
        }
        vars(self.disputes).update(parts)
        monkeypatch.setattr(module, "observe", lambda *_: None)
        monkeypatch.setattr(module, "Consensus", lambda _: None)
        monkeypatch.setattr(module, "sample_search", lambda *_: None)
        monkeypatch.setattr(module, "errors", lambda *_: iter(()))
        monkeypatch.setattr(module, "lacking", lambda *_: [])
        record = Stub(from_bytes=lambda _: Stub(audit_seed=""))
        monkeypatch.setattr(module, "ScoreRecord", record)

    def get(self, digest: bytes, _: int) -> bytes:
        self.looks += 1
        if not self.up:
            raise NotFound("nobody reachable has it")
        return b"record"

    def says(self, block: int) -> list[str]:
        head: Any = Stub(number=block)
        return [found.why for found in self.disputes.step(head)]


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    return Member(monkeypatch)


def test_a_failed_look_at_an_old_record_convicts_nobody(member: Member) -> None:
    """Such as the first one after a restart, while the validator's store is away for a minute."""
    member.up = False
    assert member.says(OLD) == []
    member.up = True
    for block in range(OLD, OLD + 2 * WITHHELD_BLOCKS, 10):
        assert member.says(block) == []


def test_a_record_that_was_missing_all_the_while_is_withheld(member: Member) -> None:
    member.up = False
    last = OLD + WITHHELD_BLOCKS
    for block in range(OLD, last + 1, 10):
        assert member.says(block) == []
    said = [member.says(block) for block in range(last + 1, last + LOOK_BLOCKS + 2)]
    assert said[-1] == ["nobody can have its record, looked for during 1,800 blocks"]
    assert member.looks <= 2 + WITHHELD_BLOCKS / LOOK_BLOCKS + 8


def test_what_was_said_is_taken_back_soon_once_the_record_is_there(member: Member) -> None:
    member.up = False
    block = OLD
    while not member.says(block):
        block += 10
    member.up = True
    said = [member.says(later) for later in range(block, block + LOOK_BLOCKS + 1)]
    assert said[0] and not said[-1]


def test_days_after_it_was_taken_back_the_count_begins_anew(member: Member) -> None:
    member.up = False
    assert member.says(OLD) == []
    member.up = True
    assert member.says(OLD + LOOK_BLOCKS) == [] and member.looks == 2
    assert not member.disputes._missed


def test_a_record_that_was_read_is_kept(member: Member) -> None:
    assert member.says(BLOCK + 10) == []
    assert member.pinned == [VECTOR.record.hex()]


def test_nobody_looks_for_the_record_of_who_was_overruled(member: Member) -> None:
    member.up = False
    member.overruled = {VECTOR.verifier}
    assert member.says(OLD) == [] and member.looks == 0
