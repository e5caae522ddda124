# SPDX-License-Identifier: Apache-2.0
"""In which order a verifier runs tasks again: a vote that is asked for before its own sample."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agents.protocol.numbers import TaskStatus
from agents.tasks.recheck import Recheck
from agents.tasks.runner import _pressing


def task(number: int, status: TaskStatus, time: int) -> Any:
    return SimpleNamespace(task_id=number, status=status, time=time, class_id=0)


class Verifier(Recheck):
    """A verifier as far as what it runs goes. `runs`: what its last step wanted."""

    def __init__(self, asked: list[Any], sample: list[Any], attested: set[int]) -> None:
        self.runs: dict[str, Any] = {}
        self.runner: Any = SimpleNamespace(
            label="cpu", running=frozenset(), take=lambda: None, want=self._want
        )
        self.tasks: Any = SimpleNamespace(
            has_attested=lambda number, place: number in attested,
            inputs=lambda task: bytes(32),
            class_id=lambda label: 0,
        )
        nothing = SimpleNamespace(look=lambda head: [], step=lambda seen, head: None)
        self._watch = self._upkeep = nothing  # type: ignore[assignment]
        self._asked = {one.task_id: (one, None, 0) for one in asked}  # type: ignore[misc]
        self._sample = {one.task_id: one for one in sample}
        self._others, self._results = {}, {}

    def _want(self, runs: dict[str, Any]) -> None:
        self.runs = runs

    def _nothing(self, *_: Any) -> None:
        return None

    _attest = _check = _object = _declare = _nothing  # type: ignore[assignment]

    def wants(self) -> list[tuple[int, int]]:
        """The tasks that it wants to run, and how each presses."""
        self.step(SimpleNamespace(timestamp=0), 7)  # type: ignore[arg-type]
        return [(one.task_id, _pressing(one)) for one in self.runs.values()]


SAMPLE = [task(1, TaskStatus.AGREED, 100), task(2, TaskStatus.AGREED, 50)]


def test_a_task_of_the_sample_that_is_appealed_presses() -> None:
    """Else a run of the rest of the sample is not ended for it, and the vote may be missed."""
    appealed = task(1, TaskStatus.APPEALED, 200)
    assert Verifier([appealed], SAMPLE, set()).wants() == [(1, 1), (2, 0)]


def test_a_vote_that_is_cast_leaves_the_sample() -> None:
    appealed = task(1, TaskStatus.APPEALED, 200)
    assert Verifier([appealed], SAMPLE, {1}).wants() == [(2, 0), (1, 0)]


def test_votes_come_first_then_what_is_due_earlier() -> None:
    asked = [task(3, TaskStatus.APPEALED, 900), task(4, TaskStatus.APPEALED, 800)]
    assert Verifier(asked, SAMPLE, set()).wants() == [(4, 1), (3, 1), (2, 0), (1, 0)]
