# SPDX-License-Identifier: Apache-2.0
"""What a stranger's job is read from comes beside a member's other work."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from agents.jobs import specs_beside
from agents.jobs.specs_beside import SpecComing, SpecsBeside
from agents.storage.errors import NotFound

SLOW, NOWHERE = 1, 2  # jobs; all others' files are there at once


class Shelf:
    """Where specs are: the job's number is all that theirs say."""

    def __init__(self) -> None:
        self.comes = threading.Event()
        self.asked: list[int] = []

    def fetch(self, spec: bytes) -> None:
        self.asked.append(spec[0])
        if spec[0] == SLOW:
            self.comes.wait()
        if spec[0] == NOWHERE:
            raise NotFound("nobody has it")

    def specs(self) -> SpecsBeside:
        network: Any = SimpleNamespace(
            job=lambda job: SimpleNamespace(terms=SimpleNamespace(spec=bytes([job])))
        )
        return SpecsBeside(network, self.fetch)


def came(specs: SpecsBeside, shelf: Shelf) -> None:
    """What is slow has come."""
    shelf.comes.set()
    until = time.monotonic() + 60
    while not specs._coming.ended(bytes([SLOW])):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr(specs_beside, "_WAIT_S", 0.05)
    return Shelf()


def test_one_that_comes_slowly_holds_up_no_other(shelf: Shelf) -> None:
    specs = shelf.specs()
    with pytest.raises(SpecComing, match="job 1 is read from is still coming"):
        specs.need(SLOW)
    specs.need(3)
    came(specs, shelf)
    for _ in range(3):
        specs.need(SLOW)
        specs.need(3)
    assert sorted(shelf.asked) == [SLOW, 3], "each was got once"


def test_what_nobody_has_is_said_and_looked_for_again(shelf: Shelf) -> None:
    specs = shelf.specs()
    for _ in range(2):
        with pytest.raises(NotFound, match="nobody has it"):
            specs.need(NOWHERE)
    assert shelf.asked == [NOWHERE, NOWHERE]


def test_no_more_than_so_many_come_at_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs_beside, "_MOST", 1)
    specs = shelf.specs()
    for job in (SLOW, 3):
        with pytest.raises(SpecComing):
            specs.need(job)
    assert shelf.asked == [SLOW]
    came(specs, shelf)
    specs.need(3)  # though nobody has asked for the other one since
