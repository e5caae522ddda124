# SPDX-License-Identifier: Apache-2.0
"""Whom a validator waits for before it evaluates a round, and how long."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace as Stub
from typing import Any

import pytest

from agents.gauntlet.fast_evaluation import NO_SAMPLE
from agents.gauntlet.sample_search import SampleSearch
from agents.gauntlet.validator import Validator
from agents.storage.errors import NotFound

NODES = (3, 5, 8, 9)
AGGREGATE, COMMIT = 300, 600  # seconds of both windows
DEADLINE = AGGREGATE + COMMIT  # seconds from the end of the reveals
AT_ONCE, SOON, HALF = 0, 31, 151  # seconds from there: within a tenth, after it, after half


def record(*silent: int) -> Any:
    """A record in which the samples of some nodes were missing."""
    return Stub(scores=[Stub(node=n, failure=NO_SAMPLE if n in silent else "") for n in NODES])


class Evaluating:
    """A validator between the chain and its measurements."""

    def __init__(self) -> None:
        self.posted = {node: bytes([node]) for node in NODES}
        self.previous: Any = None
        self.nowhere: set[bytes] = set()
        self.asked: list[bytes] = []
        reader = Stub(
            plans=Stub(of=lambda _: object()),
            submissions=lambda _: [Stub(reveal=Stub(node=n), unavailable=False) for n in NODES],
            models=Stub(job=lambda _: Stub(shapes={})),
        )
        parts: dict[str, Any] = {
            "_reader": reader,
            "_store": Stub(get_digest=self.get),
            "_consensus": Stub(windows=lambda _: (COMMIT, COMMIT)),
            "_context": Stub(
                log=Stub(debug=lambda *_, **__: None),
                metrics=Stub(busy=lambda _: nullcontext()),
            ),
            "_samples": None,
            "_previous": lambda *_: self.previous,
            "_options": lambda _: Stub(samples=2),
            "_kept": lambda submission: submission,
            "_measure": lambda *args: self.measured(args[-1]),
        }
        self.validator = object.__new__(Validator)
        vars(self.validator).update(parts)

    def get(self, digest: bytes, _: int) -> bytes:
        self.asked.append(digest)
        if digest in self.nowhere:
            raise NotFound("nobody serves it")
        return b"sample"

    def measured(self, search: SampleSearch) -> Any:
        """A record that says which samples the checks did not have."""
        silent = {n for n in NODES if n not in self.posted}
        for node, digest in self.posted.items():
            try:
                search.get_digest(digest, 10)
            except NotFound:
                silent.add(node)
        return record(*silent)

    def at(self, seconds: int, number: int = 2) -> Any:
        """The record that is made so long after the reveals, in a round of this number; None while
        something is waited for."""
        terms = Stub(aggregate_s=AGGREGATE)
        view: Any = Stub(
            job_id=1,
            round_id=number,
            round=Stub(opened_block=1),
            now=seconds,
            job=Stub(terms=terms),
        )
        facts: Any = Stub(samples=dict(self.posted))
        return self.validator._evaluate(view, 21, b"", Stub(commit_deadline=DEADLINE), facts)  # type: ignore[arg-type]


@pytest.fixture
def evaluating() -> Evaluating:
    return Evaluating()


def test_a_missing_sample_is_waited_for_until_half_of_the_window(evaluating: Evaluating) -> None:
    del evaluating.posted[5]
    assert evaluating.at(AT_ONCE) is None
    assert evaluating.at(SOON) is None
    assert evaluating.at(HALF) is not None


def test_who_kept_it_back_before_is_waited_for_shortly(evaluating: Evaluating) -> None:
    """Not at all, and who was late once would be left out one round after the other."""
    evaluating.previous = record(5)
    del evaluating.posted[5]
    assert evaluating.at(AT_ONCE) is None
    assert evaluating.at(SOON) is not None


def test_who_was_late_once_is_back_a_round_later(evaluating: Evaluating) -> None:
    evaluating.previous = record(5)
    sample = evaluating.posted.pop(5)
    assert evaluating.at(AT_ONCE) is None
    evaluating.posted[5] = sample  # a block later than the others
    assert not any(line.failure for line in evaluating.at(AT_ONCE).scores)


def test_who_was_late_once_and_is_slower_than_the_others_is_back_two_rounds_later(
    evaluating: Evaluating,
) -> None:
    """It posts after a tenth of the window. Were it excused in each round, it would never be rated
    again."""
    evaluating.previous = record(5)
    sample = evaluating.posted.pop(5)
    assert [line.node for line in evaluating.at(SOON, 2).scores if line.failure] == [5]
    assert evaluating.at(SOON, 3) is None
    evaluating.posted[5] = sample
    assert not any(line.failure for line in evaluating.at(SOON, 3).scores)


def test_a_validator_that_could_read_nothing_excuses_nobody(evaluating: Evaluating) -> None:
    """Else its next record would miss everybody again."""
    evaluating.previous = record(*NODES)
    posted = evaluating.posted
    evaluating.posted = {}
    assert evaluating.at(AT_ONCE) is None
    assert evaluating.at(SOON) is None
    evaluating.posted = posted
    assert not any(line.failure for line in evaluating.at(SOON).scores)


def test_a_sample_that_nobody_serves_is_waited_for_until_half_of_the_window(
    evaluating: Evaluating,
) -> None:
    """And then it is missing: the checks search for nothing."""
    evaluating.nowhere = {evaluating.posted[5]}
    assert evaluating.at(AT_ONCE) is None
    assert evaluating.at(SOON) is None
    found = evaluating.at(HALF)
    assert [line.node for line in found.scores if line.failure] == [5]
    asked = len(evaluating.asked)
    evaluating.nowhere = set()
    found = evaluating.at(HALF)  # once more, such as after a crash of what came next
    assert [line.node for line in found.scores if line.failure] == [5]
    assert len(evaluating.asked) == asked


def test_a_sample_that_is_served_late_is_had(evaluating: Evaluating) -> None:
    evaluating.nowhere = {evaluating.posted[5]}
    assert evaluating.at(AT_ONCE) is None
    evaluating.nowhere = set()
    # It rests as long as its search took, which a busy machine may draw out.
    until = time.monotonic() + 30
    while (found := evaluating.at(SOON)) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(line.failure for line in found.scores)
