# SPDX-License-Identifier: Apache-2.0
"""Slow work beside the loop: order, width, failures, and that nothing waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agents.runtime import background
from agents.runtime.background import Background

PATIENCE_S = 10.0


class Bench:
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
def bench() -> Bench:
    return Bench()


def test_the_first_wanted_is_done_and_the_loop_is_woken(bench: Bench) -> None:
    jobs = {name: bench.job(name, name.upper()) for name in ("urgent", "other")}
    bench.work.want(jobs)
    bench.wait_begun()
    bench.work.want(jobs)
    assert bench.begun == ["urgent"] and bench.work.running == {"urgent"}
    assert bench.work.take() is None
    bench.finish("urgent")
    assert bench.work.take() == ("urgent", "URGENT")
    assert bench.work.take() is None and bench.work.running == frozenset()
    bench.work.want({"other": jobs["other"]})
    bench.wait_begun()
    bench.finish("other")
    assert bench.work.take() == ("other", "OTHER")


def test_width_is_how_many_run_at_once_and_none_twice(bench: Bench) -> None:
    jobs = {name: bench.job(name, name) for name in ("a", "b", "c")}
    bench.work.want(jobs)
    bench.work.want(jobs, width=2)
    for _ in range(2):
        bench.wait_begun()
    bench.work.want(jobs, width=2)
    assert sorted(bench.begun) == ["a", "b"]
    bench.finish("b")
    assert bench.work.running == {"a", "b"}, "it counts until it is taken"
    assert bench.work.take() == ("b", "b")
    bench.finish("a")
    assert bench.work.take() == ("a", "a")


def test_a_failure_is_reported_once_and_tried_again_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(background.time, "monotonic", lambda: now[0])
    job = {"flaky": bench.job("flaky", ValueError("not yet"))}
    for tries, pause in enumerate((2, 4, 8), start=1):
        bench.work.want(job)
        bench.wait_begun()
        bench.finish("flaky")
        assert bench.work.take() is None
        assert bench.errors == [("flaky", "not yet")] * tries
        now[0] += pause - 0.1
        bench.work.want(job)
        assert bench.work.running == frozenset(), "still paused"
        now[0] += 0.2
    good = {"good": bench.job("good", 1), **job}
    bench.work.want(good)
    bench.wait_begun()
    bench.finish("good")
    assert bench.work.take() == ("good", 1), "the pause of one holds up no other"


def test_what_is_not_wanted_any_more_loses_its_pause(bench: Bench) -> None:
    job = {"flaky": bench.job("flaky", ValueError("not yet"))}
    bench.work.want(job)
    bench.wait_begun()
    bench.finish("flaky")
    assert bench.work.take() is None
    bench.work.want({})
    bench.work.want(job)
    assert bench.work.running == {"flaky"}
