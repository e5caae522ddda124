# SPDX-License-Identifier: Apache-2.0
"""In what order a verifier does what it owes and what anybody may do; what it fails at holds up
nothing else. The chain and the rounds are stubs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents import verifier
from agents.protocol.numbers import TaskStatus
from agents.runtime.errors import JournalError, JournalFull, Reverted
from agents.runtime.logs import open_log
from agents.runtime.metrics import Metrics
from agents.tasks.recheck import Recheck

NODE = 7
HEAD: Any = SimpleNamespace(number=100, timestamp=1_000)
DUE = SimpleNamespace(task_id=1, status=TaskStatus.DRAWING, time=0)


def nothing(*_: Any) -> None:
    return None


class Tasks(Recheck):
    """What it does for redundant tasks, as far as the order goes. `vote`: what it has to attest.
    `moved`: the tasks that it was to move on, at each call."""

    def __init__(self) -> None:
        self.vote: str | None = None
        self.trouble: Exception | None = None
        self.moved: list[list[int]] = []
        self.runner: Any = SimpleNamespace(label="cpu", running=(), take=nothing)
        self._watch: Any = SimpleNamespace(look=self._look)
        self._upkeep: Any = SimpleNamespace(step=self._move)
        self._looked_at = set()
        self._sample, self._asked, self._others, self._results = {}, {}, {}, {}
        self._found, self._lot, self._seen = set(), b"", []

    def _look(self, head: Any) -> list[Any]:
        if self.trouble is not None:
            raise self.trouble
        return [DUE]

    def _move(self, seen: list[Any], head: Any) -> str | None:
        self.moved.append([task.task_id for task in seen])
        return "draw: task 1" if seen else None

    def _attest(self, node_id: int) -> str | None:
        vote, self.vote = self.vote, None
        return vote

    _check = _object = _declare = nothing  # type: ignore[assignment]


class Desk:
    """A verifier. `owed`: what it has to do in its rounds, and `answers` for benchmarks, in order;
    an error is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log_file: Path) -> None:
        self.tasks = Tasks()
        self.owed: list[str] = []
        self.answers: list[str | Exception] = []
        self._log_file = log_file
        swapped: dict[str, Any] = {
            "Network": SimpleNamespace(node_of=lambda address: NODE),
            "Recheck": self.tasks,
            "Serving": SimpleNamespace(step=lambda *_: self._next(self.owed), in_hand=()),
            "BenchmarkChecks": SimpleNamespace(step=lambda *_: self._next(self.answers)),
            "Reserve": SimpleNamespace(look=nothing),
            "Commitments": None,
        }
        for name, one in swapped.items():
            monkeypatch.setattr(verifier, name, lambda *_, one=one: one)
        self.metrics = Metrics("verifier")
        settings = SimpleNamespace(device="cpu", verifier=SimpleNamespace(task_audit_rate=0.0))
        context: Any = SimpleNamespace(
            log=open_log("verifier", path=log_file),
            metrics=self.metrics,
            settings=settings,
            chain=None,
            deployment=None,
            journal=None,
            artefacts=None,
            wallet=SimpleNamespace(address="0xv"),
        )
        self.verifier = verifier.Verifier(context, None)  # type: ignore[arg-type]

    @staticmethod
    def _next(waiting: list[Any]) -> str | None:
        found = waiting.pop(0) if waiting else None
        if isinstance(found, Exception):
            raise found
        return found

    def steps(self, count: int) -> list[str | None]:
        return [self.verifier.step(HEAD) for _ in range(count)]

    def said(self, event: str) -> int:
        return self._log_file.read_text().count(f'"event": "{event}"')


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    return Desk(monkeypatch, tmp_path / "log")


def test_strangers_tasks_come_after_all_that_it_owes(desk: Desk) -> None:
    """As long as they were due it neither attested nor challenged."""
    desk.tasks.vote = "attested: task 3"
    desk.owed = ["attested: round 4", "challenged: round 5"]
    desk.answers = ["checked: node 2"]
    assert desk.steps(5) == [
        "attested: task 3",
        "attested: round 4",
        "challenged: round 5",
        "checked: node 2",
        "draw: task 1",
    ]
    assert desk.tasks.moved == [[1]]


@pytest.mark.parametrize("error", [Reverted("tasks: no"), KeyError("odd"), JournalFull("no room")])
def test_what_its_tasks_fail_at_keeps_it_from_no_round_and_is_said_once(
    desk: Desk, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("agents.runtime.turns.time.monotonic", lambda: now[0])
    desk.tasks.trouble = error
    desk.owed = ["attested: round 4", "challenged: round 5"]
    for expected in [*desk.owed]:
        assert desk.steps(1) == [expected]
        now[0] += 60
    failed = "journal_full" if isinstance(error, JournalFull) else "duty_failed"
    assert desk.said(failed) == 1
    counted = desk.metrics.errors.labels(type(error).__name__)._value.get()
    assert counted == 2
    desk.tasks.trouble, desk.tasks.vote = None, "attested: task 3"
    assert desk.steps(2) == ["attested: task 3", "draw: task 1"]


def test_what_its_tasks_fail_at_is_left_alone_for_a_while(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a search that fails after half a minute comes before each thing that it owes. Meanwhile
    nothing is moved on that was read long ago."""
    now = [1_000.0]
    monkeypatch.setattr("agents.runtime.turns.time.monotonic", lambda: now[0])
    desk.tasks.trouble = Reverted("tasks: no")
    assert desk.steps(1) == [None]
    desk.tasks.trouble, desk.tasks.vote = None, "attested: task 3"
    assert desk.steps(3) == [None] * 3
    assert desk.tasks.moved == [[]] * 4
    now[0] += 1
    assert desk.steps(1) == ["attested: task 3"]


def test_what_waiting_cannot_mend_still_ends_it(desk: Desk) -> None:
    desk.tasks.trouble = JournalError("damaged")
    with pytest.raises(JournalError):
        desk.steps(1)


def test_a_benchmark_that_it_fails_at_keeps_it_from_no_task(desk: Desk) -> None:
    desk.answers = [KeyError("odd")]
    assert desk.steps(1) == ["draw: task 1"]
    assert desk.said("duty_failed") == 1


def test_a_round_that_it_fails_at_is_the_loops_to_report(desk: Desk) -> None:
    failing: list[Any] = [Reverted("rounds: too late")]
    desk.owed = failing
    with pytest.raises(Reverted, match="too late"):
        desk.steps(1)
