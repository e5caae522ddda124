# SPDX-License-Identifier: Apache-2.0
"""In which order a verifier runs tasks again: a vote that is asked for before its own sample."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.protocol.numbers import TaskStatus
from agents.tasks.compute.budget import SHARES
from agents.tasks.recheck import Recheck
from agents.tasks.runner import _pressing


def task(number: int, status: TaskStatus, time: int, run_s: int = 0) -> Any:
    return SimpleNamespace(task_id=number, status=status, time=time, run_s=run_s, class_id=0)


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
        self._found, self._lot = set(), b""

    def _want(self, runs: dict[str, Any]) -> None:
        self.runs = runs

    def _nothing(self, *_: Any) -> None:
        return None

    _attest = _check = _object = _declare = _nothing  # type: ignore[assignment]

    def wants(self, now: int = 0) -> list[tuple[int, int]]:
        """The tasks that it wants to run, and how each presses."""
        self.step(SimpleNamespace(timestamp=now), 7)  # type: ignore[arg-type]
        return [(one.task_id, _pressing(one)) for one in self.runs.values()]


SAMPLE = [task(1, TaskStatus.AGREED, 100), task(2, TaskStatus.AGREED, 50)]


def test_a_task_of_the_sample_that_is_appealed_presses() -> None:
    """Else a run of the rest of the sample is not ended for it, and the vote may be missed."""
    appealed = task(1, TaskStatus.APPEALED, 200)
    assert Verifier([appealed], SAMPLE, set()).wants() == [(1, 1), (2, 0)]


def test_a_vote_that_is_cast_leaves_the_sample() -> None:
    appealed = task(1, TaskStatus.APPEALED, 200)
    assert Verifier([appealed], SAMPLE, {1}).wants() == [(2, 0), (1, 0)]


def test_votes_come_first_and_of_these_what_is_due_earlier() -> None:
    asked = [task(3, TaskStatus.APPEALED, 900), task(4, TaskStatus.APPEALED, 800)]
    first, second, *sample = Verifier(asked, SAMPLE, set()).wants()
    assert [first, second] == [(4, 1), (3, 1)] and set(sample) == {(1, 0), (2, 0)}


def test_a_vote_on_what_a_verifier_found_comes_before_strangers_appeals() -> None:
    """Else a flood of these is run first, and the appeal against a fake lapses."""
    asked = [task(3, TaskStatus.APPEALED, 800), task(4, TaskStatus.APPEALED, 900)]
    verifier = Verifier(asked, [], set())
    calls = {"operator_of": {7: "0x7", 8: "0x8"}}
    verifier._network = SimpleNamespace(registry=None)  # type: ignore[assignment]
    verifier._context = SimpleNamespace(  # type: ignore[assignment]
        chain=SimpleNamespace(call_many=lambda asked: [calls[f][n] for _, f, (n,) in asked])
    )
    verifier.tasks.appeal = lambda number: SimpleNamespace(appellant={3: "0x1", 4: "0x8"}[number])
    verdict: Any = SimpleNamespace(verifiers=(7, 8))
    verifier._found = {n for n in (3, 4) if verifier._is_found(n, verdict)}
    assert verifier.wants() == [(4, 1), (3, 1)]


def test_each_verifier_has_an_order_of_its_own_for_its_sample() -> None:
    orders = set()
    for lot in (b"one", b"another", b"a third"):
        verifier = Verifier([], [task(n, TaskStatus.AGREED, 100) for n in range(9)], set())
        verifier._lot = lot
        orders.add(tuple(verifier.wants()))
    assert len(orders) == 3


WINDOW_S, RUN_S, EVERY_S = 21_600, 3_600, 600
TAKES_S = RUN_S // SHARES


def test_a_verifier_with_too_much_to_do_still_finds_what_it_can() -> None:
    """A sample of heavy tasks, of which more come than the 96 a day that it can run. By deadline it
    came to each when that was nearly too late, and on the second day found out nothing."""
    verifier, done, day = Verifier([], [], set()), 0, 86_400
    for now in range(TAKES_S, 2 * day, TAKES_S):
        for number in range((now - TAKES_S) // EVERY_S + 1, now // EVERY_S + 1):
            verifier._sample[number] = task(
                number, TaskStatus.AGREED, number * EVERY_S + WINDOW_S, RUN_S
            )
        wanted = verifier.wants(now)
        if not wanted:
            continue
        number = wanted[0][0]
        found = verifier._sample.pop(number)
        done += now + TAKES_S <= found.time and now > day
    assert done > 0.9 * day / TAKES_S


class Appealed(Verifier):
    """A verifier that no appeal concerns. `now`: the tasks as a look reads them. `asked_for`: of
    which it looked for the request for a verdict."""

    def __init__(self) -> None:
        super().__init__([], [], set())
        self.now: list[Any] = []
        self.asked_for: list[int] = []
        self._watch = SimpleNamespace(look=lambda head: self.now)  # type: ignore[assignment]
        self._looked_at, self._rate = set(), 0.0
        self.tasks.decision = self._decision

    def _decision(self, number: int) -> Any:
        self.asked_for.append(number)
        return SimpleNamespace(verifiers=(8, 9))

    def looks(self, *now: Any, at: range) -> list[int]:
        """Of which tasks it asked in looks at these times."""
        self.now, self.asked_for = list(now), []
        for second in at:
            self.wants(second)
        return self.asked_for


def test_an_appeal_that_concerns_others_is_searched_for_once() -> None:
    """After the time to vote it was searched for at each look, back to the appeal, until the
    committee's three days were over."""
    verifier, appealed = Appealed(), task(3, TaskStatus.APPEALED, 100)
    assert verifier.looks(appealed, at=range(0, 300_000, 5_000)) == [3]
    assert verifier.looks(at=range(300_000, 301_000, 100)) == []
    assert verifier.looks(appealed, at=range(301_000, 302_000, 100)) == []


def test_an_appeal_that_is_over_is_forgotten_and_another_one_is_searched_for() -> None:
    verifier, first = Appealed(), task(3, TaskStatus.APPEALED, 100)
    assert verifier.looks(first, at=range(2)) == [3]
    assert verifier.looks(task(3, TaskStatus.CLOSED, 0), at=range(2, 4)) == []
    assert not verifier._others
    assert verifier.looks(first, at=range(4, 6)) == [3]
    assert verifier.looks(task(3, TaskStatus.APPEALED, 900), at=range(6, 8)) == [3]


def test_a_search_that_fails_hides_no_appeal_that_is_over() -> None:
    """It is read once more, in the look in which the search for another one's request fails."""
    verifier = Appealed()
    assert verifier.looks(task(4, TaskStatus.APPEALED, 100), at=range(2)) == [4]
    verifier.tasks.decision = lambda number: {}[number]
    with pytest.raises(KeyError):
        verifier.looks(
            task(3, TaskStatus.APPEALED, 100), task(4, TaskStatus.CLOSED, 0), at=range(1)
        )
    assert not verifier._others
