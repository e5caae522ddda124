# SPDX-License-Identifier: Apache-2.0
"""Slow work beside the loop: order, width, failures, and that nothing waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agents.runtime import background
from agents.runtime.background import Background

PATIENCE_S = 60.0


class HeldJobs:
    """Jobs that end when they are told to."""

    def __init__(self) -> None:
        self.woken = threading.Semaphore(0)
        self.errors: list[tuple[str, str]] = []
        self.begun: list[str] = []
        self._begun = threading.Semaphore(0)
        self.gates: dict[str, threading.Event] = {}
        self.work = Background(
            self.woken.release, lambda name, error: self.errors.append((name, str(error)))
        )

    def job(self, name: str, outcome: Any = None) -> Callable[[], Any]:
        gate = self.gates.setdefault(name, threading.Event())

        def run() -> Any:
            self.begun.append(name)
            self._begun.release()
            assert gate.wait(PATIENCE_S)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return run

    def wait_begun(self) -> None:
        assert self._begun.acquire(timeout=PATIENCE_S)

    def finish(self, name: str) -> None:
        self.gates[name].set()
        assert self.woken.acquire(timeout=PATIENCE_S)


@pytest.fixture
def held() -> HeldJobs:
    return HeldJobs()


def test_the_first_wanted_is_done_and_the_loop_is_woken(held: HeldJobs) -> None:
    jobs = {name: held.job(name, name.upper()) for name in ("urgent", "other")}
    held.work.want(jobs)
    held.wait_begun()
    held.work.want(jobs)
    assert held.begun == ["urgent"] and held.work.running == {"urgent"}
    assert held.work.take() is None
    held.finish("urgent")
    assert held.work.take() == ("urgent", "URGENT")
    assert held.work.take() is None and held.work.running == frozenset()
    held.work.want({"other": jobs["other"]})
    held.wait_begun()
    held.finish("other")
    assert held.work.take() == ("other", "OTHER")


def test_width_is_how_many_run_at_once_and_none_twice(held: HeldJobs) -> None:
    jobs = {name: held.job(name, name) for name in ("a", "b", "c")}
    held.work.want(jobs)
    held.work.want(jobs, width=2)
    for _ in range(2):
        held.wait_begun()
    held.work.want(jobs, width=2)
    assert sorted(held.begun) == ["a", "b"]
    held.finish("b")
    assert held.work.running == {"a", "b"}, "it counts until it is taken"
    assert held.work.take() == ("b", "b")
    held.finish("a")
    assert held.work.take() == ("a", "a")


def test_a_failure_is_reported_once_and_tried_again_later(
    held: HeldJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(background.time, "monotonic", lambda: now[0])
    job = {"flaky": held.job("flaky", ValueError("not yet"))}
    for tries, pause in enumerate((2, 4, 8), start=1):
        held.work.want(job)
        held.wait_begun()
        held.finish("flaky")
        assert held.work.take() is None
        assert held.errors == [("flaky", "not yet")] * tries
        now[0] += pause - 0.1
        held.work.want(job)
        assert held.work.running == frozenset(), "still paused"
        now[0] += 0.2
    held.work.want({"good": held.job("good", 1), **job})
    held.wait_begun()
    held.finish("good")
    assert held.work.take() == ("good", 1), "the pause of one holds up no other"


def test_a_pause_is_no_longer_than_a_job_can_wait(
    held: HeldJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(background.time, "monotonic", lambda: now[0])
    job = {"flaky": held.job("flaky", ValueError("not yet"))}
    for pause in (2, 4, 5, 5):
        held.work.want(job, longest={"flaky": 5.0, "other": 1.0})
        held.wait_begun()
        held.finish("flaky")
        assert held.work.take() is None
        now[0] += pause - 0.1
        held.work.want(job, longest={"flaky": 5.0, "other": 1.0})
        assert held.work.running == frozenset(), "still paused"
        now[0] += 0.2


def test_what_is_not_wanted_any_more_loses_its_pause(held: HeldJobs) -> None:
    job = {"flaky": held.job("flaky", ValueError("not yet"))}
    held.work.want(job)
    held.wait_begun()
    held.finish("flaky")
    assert held.work.take() is None
    held.work.want({})
    held.work.want(job)
    assert held.work.running == {"flaky"}
