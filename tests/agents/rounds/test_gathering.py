# SPDX-License-Identifier: Apache-2.0
"""Owners of shards that sign statements without files cost a proposer little of its window."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.rounds.gathering import Gathering, _Found


@dataclass(frozen=True)
class Said:
    """A statement; files are there or not by its content."""

    owner: int
    content: bytes


def said(owners: int, each: int, content: bytes = b"nowhere") -> list[Any]:
    return [Said(owner, content + bytes([k])) for owner in range(owners) for k in range(each)]


class Proposer:
    """A proposer that has these statements before it. `search`: what looking for a file does."""

    def __init__(self, search: Callable[[Any], bool]) -> None:
        self.now = 0.0
        self.looked: list[Any] = []
        self.gathering = object.__new__(Gathering)
        parts: dict[str, Any] = {
            "_clock": lambda: self.now,
            "_found": _Found((1, 1, b"")),
            "_operators": {},
            "_where": b"",
            "_has_file": lambda *args: self.look(args[-1]),
        }
        vars(self.gathering).update(parts)
        self.search = search

    def look(self, one: Any) -> bool:
        self.looked.append(one)
        return self.search(one)

    def take(self, statements: list[Any]) -> set[int]:
        """The owners of whom a good statement is known."""
        shares: Any = Stub(sound=lambda _, one, *__: Stub(statements=one))
        nothing: Any = None
        self.gathering._take(nothing, nothing, shares, statements)
        assert self.gathering._found is not None
        return set(self.gathering._found.good)


def test_files_are_looked_for_side_by_side() -> None:
    """Each of eight searches waits until all have begun: one after the other none would end."""
    begun = threading.Barrier(8, timeout=30)
    proposer = Proposer(lambda _: begun.wait() < 0)
    assert proposer.take(said(owners=2, each=4)) == set()
    assert len(proposer.looked) == 8 and not begun.broken


def test_a_file_that_was_missing_is_looked_for_again_after_a_pause() -> None:
    """As long as its search was; what comes meanwhile is found then."""
    there: set[Any] = set()

    def slow(one: Any) -> bool:
        proposer.now += 60.0
        return one in there

    proposer = Proposer(slow)
    mute = said(owners=1, each=1)
    for seconds, looks in ((0.0, 1), (30.0, 1), (31.0, 2)):
        proposer.now += seconds
        assert proposer.take(mute) == set() and len(proposer.looked) == looks
    there.update(mute)
    proposer.now += 61.0
    assert proposer.take(mute) == {0}


@pytest.mark.parametrize("mute", [3, 16])
def test_who_has_its_file_waits_behind_no_other_s_second_statement(mute: int) -> None:
    """The owners of whom nothing is there have four statements each, and come first."""
    proposer = Proposer(lambda one: one.content.startswith(b"here"))
    bad = said(owners=mute, each=4)
    good: list[Any] = [Said(100 + owner, b"here") for owner in range(32)]
    assert proposer.take([*bad, *good]) == {one.owner for one in good}
    assert len(proposer.looked) == mute + len(good)


def test_who_drips_its_file_holds_no_proposer_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it signs besides is not looked for twice, and its file counts once it is there."""
    monkeypatch.setattr("agents.rounds.gathering._WAIT_S", 0.2)
    comes = threading.Event()
    proposer = Proposer(lambda one: one.owner != 0 or comes.wait(60))
    statements = said(owners=3, each=1)
    assert proposer.take(statements) == {1, 2}
    assert proposer.take(statements) == {1, 2}
    assert [one.owner for one in proposer.looked].count(0) == 1
    assert proposer.gathering._found is not None
    begun = proposer.gathering._found.files._begun[statements[0]]
    comes.set()
    assert begun.result(timeout=30)
    assert proposer.take([]) == {0, 1, 2}
