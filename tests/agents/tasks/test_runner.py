# SPDX-License-Identifier: Apache-2.0
"""Which tasks have a process: what nobody waits for never keeps one from what a node was drawn for.

The processes here stand still until a test lets them go on; the last test ends a real one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agents.runtime.background as background
import agents.tasks.runner as runner_module
from agents.protocol.numbers import MAX_OPEN, TaskStatus
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.compute.result import TaskResult
from agents.tasks.process import TaskProcess, TaskProcessError
from agents.tasks.runner import TaskRunner
from tests.stage.memory.task_inputs import TaskInputs

HOUR = 3_600


class Held:
    """A process that is at a task until `let` names the task, or it is ended. `ends`: whether there
    is still something to end."""

    ends = True

    def __init__(self, store: Any, device: str) -> None:
        self._over = threading.Event()
        self._at = b""
        PROCESSES.append(self)

    def label(self) -> str:
        return CPU

    def run(self, spec: bytes, run_s: int, label: str, out: Path) -> TaskResult:
        if spec in MISSING:
            raise NotFound("an input is missing")
        self._at = spec
        self._over.wait()
        self._over.clear()
        if spec not in LET:
            raise TaskProcessError("ended")
        return TaskResult(spec, b"")

    def begin(self) -> None:
        pass

    def end(self) -> bool:
        self._over.set()
        return self.ends

    def close(self) -> None:
        self._over.set()

    def go_on(self) -> None:
        LET.add(self._at)
        self._over.set()


PROCESSES: list[Held] = []
LET: set[bytes] = set()
MISSING: set[bytes] = set()


def task(name: str, status: TaskStatus, run_s: int = HOUR) -> Any:
    return SimpleNamespace(spec=name.encode(), status=status, run_s=run_s)


def expected(*names: str) -> dict[str, Any]:
    return {name: task(name, TaskStatus.DRAWING) for name in names}


def drawn(*names: str) -> dict[str, Any]:
    return {name: task(name, TaskStatus.RUNNING) for name in names}


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def context(folder: Path, store: str = "") -> Any:
    said: list[tuple[str, dict[str, Any]]] = []

    def say(event: str, **fields: Any) -> None:
        said.append((event, fields))

    return SimpleNamespace(
        settings=SimpleNamespace(store=store, device="cpu"),
        feed=SimpleNamespace(wake=lambda: None),
        artefacts=folder,
        metrics=SimpleNamespace(busy=lambda what: nullcontext()),
        log=SimpleNamespace(info=say, warning=say, error=say),
        said=said,
    )


def started(where: Any) -> TaskRunner:
    runner = TaskRunner(where, "cpu")
    while runner.label is None:
        runner.want({})
        runner.take()
        time.sleep(0.005)
    return runner


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TaskRunner]:
    PROCESSES.clear()
    LET.clear()
    MISSING.clear()
    monkeypatch.setattr(runner_module, "TaskProcess", Held)
    runner = started(context(tmp_path))
    yield runner
    runner.close()


def wanted(runner: TaskRunner, runs: dict[str, Any]) -> set[str]:
    """What is run once each run that was ended is over."""
    runner.want(runs)
    until(lambda: runner._at.keys() == runner.running - runner._ended)
    ended = runner._ended & runner.running
    while ended & runner.running:
        runner.take()
        time.sleep(0.005)
    runner.want(runs)
    until(lambda: runner._at.keys() == runner.running)
    return set(runner.running)


def all_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has waited long enough for a further process as soon as it is wanted."""
    monkeypatch.setattr(runner_module, "_WAIT_SHARE", float("inf"))


class Mute(Held):
    """Says its class at the second try; at the first it hangs until it is ended."""

    def label(self) -> str:
        if len(PROCESSES) == 1 and not LET:
            LET.add(b"the next one speaks")
            assert self._over.wait(60)
            raise TaskProcessError("ended")
        return super().label()


def test_a_process_that_does_not_say_its_class_is_ended_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    PROCESSES.clear()
    LET.clear()
    monkeypatch.setattr(runner_module, "TaskProcess", Mute)
    monkeypatch.setattr(runner_module, "_CLASS_S", 0.05)
    monkeypatch.setattr(background, "_PAUSE_S", 0.02)
    where = context(tmp_path)
    runner = started(where)
    ((_, fields),) = [line for line in where.said if line[0] == "cannot_run_yet"]
    assert "said no class within" in fields["why"]
    runner.close()


def test_what_is_late_has_the_next_process_and_not_what_pays_more(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = expected("long", "longer")
    assert wanted(runner, long) == {"long"}
    monkeypatch.setattr(runner_module, "_WAIT_SHARE", HOUR * 10**9)
    short = {"short": task("short", TaskStatus.DRAWING, run_s=1)}
    runner._since["longer"] = time.monotonic() + HOUR  # only the short one has waited
    assert wanted(runner, long | short) == {"long", "short"}


def test_a_task_that_the_node_was_drawn_for_takes_a_process_from_one_that_is_only_expected(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_late(monkeypatch)
    both = expected("first", "second")
    assert wanted(runner, both) == set(both)
    assert wanted(runner, drawn("short") | both) == {"short", "first"}
    assert wanted(runner, drawn("short", "other") | both) == {"short", "other"}
    assert wanted(runner, drawn("short", "other", "third") | both) == {"short", "other"}
    assert len(PROCESSES) <= MAX_OPEN, "a process that was ended is used again"
    assert [event for event, _ in runner._context.said] == ["determinism_class", *["run_ended"] * 2]


def test_a_vote_on_an_appeal_takes_a_process_from_a_sample_and_from_no_draw(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_late(monkeypatch)
    sample = {name: task(name, TaskStatus.AGREED) for name in ("one", "two")}
    assert wanted(runner, sample) == set(sample)
    asked = {name: task(name, TaskStatus.APPEALED) for name in ("appeal", "another")}
    assert wanted(runner, asked | sample) == {"appeal", "one"}
    assert wanted(runner, drawn("mine") | asked | sample) == {"mine", "appeal"}
    assert wanted(runner, asked | drawn("mine") | sample) == {"mine", "appeal"}


def test_many_votes_keep_a_verifier_from_no_sample(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever appealed eight tasks of an hour in each hour, at 5 ZOO each, had both processes of a
    verifier as slow as its class allows: it ran no sample, and no fake was found."""
    all_late(monkeypatch)
    asked = {f"appeal {n}": task(f"appeal {n}", TaskStatus.APPEALED) for n in range(9)}
    sample = {f"sample {n}": task(f"sample {n}", TaskStatus.AGREED) for n in range(3)}
    runs, order = asked | sample, []
    while runs:
        now = wanted(runner, runs)
        assert len(now) <= MAX_OPEN
        done = max(now)  # the sample's
        order.append(done)
        runner._at[done].go_on()  # type: ignore[attr-defined]
        until(lambda done=done: runner.take() == (done, TaskResult(done.encode(), b"")))
        runs = {name: one for name, one in runs.items() if name != done}
    assert order[:3] == list(sample)


def test_votes_have_both_processes_where_there_is_no_sample(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_late(monkeypatch)
    asked = {name: task(name, TaskStatus.APPEALED) for name in ("appeal", "another", "third")}
    assert wanted(runner, asked) == {"appeal", "another"}


def test_nothing_is_ended_while_there_is_room_or_nobody_is_late(runner: TaskRunner) -> None:
    assert wanted(runner, expected("first")) == {"first"}
    assert wanted(runner, drawn("short") | expected("first")) == {"first"}


def missing(runner: TaskRunner, runs: dict[str, Any], name: str) -> None:
    """Have the store fail once for a task."""
    MISSING.add(name.encode())

    def failed() -> bool:
        runner.want(runs)
        runner.take()
        return runner.fails(name)

    until(failed)


def test_an_input_that_was_missing_is_looked_for_again_beside_a_long_run(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A creator that serves a short task's inputs a little late, to nodes that it gave a long one:
    they looked once, said that the inputs can't be had, and were outvoted (20 ZOO)."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    all_late(monkeypatch)
    both = drawn("long", "short")
    assert wanted(runner, drawn("long")) == {"long"}
    missing(runner, both, "short")
    MISSING.clear()

    def found() -> bool:
        runner.want(both)
        return runner._at.keys() == {"long", "short"}

    until(found)


def test_a_task_that_the_node_was_drawn_for_is_tried_often_enough(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries were 30 seconds apart when half of a minute was over, and the next one came too late
    for inputs that another executor had by then (20 ZOO)."""
    asked: list[dict[str, float]] = []
    want = runner._jobs.want

    def noted(jobs: Any, width: int = 1, longest: Any = None) -> None:
        asked.append(dict(longest))
        want(jobs, width, longest)

    monkeypatch.setattr(runner._jobs, "want", noted)
    runs = {"short": task("short", TaskStatus.RUNNING, run_s=64)} | expected("other")
    missing(runner, runs, "short")
    assert asked[-1] == {"short": 4.0} and runner.failed("short") == 1
    runner.want({})
    assert runner.failed("short") == 0


def test_what_lacks_an_input_keeps_the_second_process_from_what_is_only_expected(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room is made once, and not for each look; and nothing is kept for what nobody waits for."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    all_late(monkeypatch)
    both = expected("first", "second")
    runs = drawn("short") | both
    assert wanted(runner, both) == set(both)
    missing(runner, runs, "short")
    for _ in range(50):
        assert runner.running <= {"first", "short"}
        runner.want(runs)
        runner.take()
        time.sleep(0.005)
    said = [event for event, _ in runner._context.said]
    assert said.count("run_ended") == 1
    MISSING.clear()
    until(lambda: runner.want(runs) or runner.take() or runner._at.keys() == {"first", "short"})

    MISSING.add(b"appeal")
    asked = {"appeal": task("appeal", TaskStatus.APPEALED)} | both
    monkeypatch.setattr(runner_module, "_SPARED_S", 0.0)
    until(lambda: runner.want(asked) or runner.take() or runner._at.keys() == set(both))


def test_two_draws__may_keep_a_node_from_running_again_what_it_lost(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One runs and one lacks an input: each costs as much as the comparison that the node lost. So
    an executor does not wait for that run for ever (`agents.executor`)."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    all_late(monkeypatch)
    lost = {"confirm": task("confirm", TaskStatus.DECIDED)}
    runs = drawn("long", "short") | lost
    assert wanted(runner, drawn("long") | lost) == {"long", "confirm"}
    missing(runner, runs, "short")
    for _ in range(50):
        runner.want(runs)
        runner.take()
        time.sleep(0.005)
    assert runner._at.keys() == {"long"} and not runner.fails("confirm")


def test_a_run_that_is_wanted_no_more_ends_after_a_while(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wanted(runner, drawn("over")) == {"over"}
    assert wanted(runner, drawn("next")) == {"over"}
    assert wanted(runner, drawn("over", "next")) == {"over"}, "a reorg brought it back"
    assert wanted(runner, drawn("next")) == {"over"}
    monkeypatch.setattr(runner_module, "_SPARED_S", 0.0)
    assert wanted(runner, drawn("next")) == {"next"}
    assert len(PROCESSES) == 1
    PROCESSES[0].go_on()
    until(lambda: not runner._at)
    assert runner.take() == ("next", TaskResult(b"next", b""))


def test_a_run_that_takes_longer_than_its_whole_time_makes_room(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks that a verifier can't finish, because of what a stranger put into them, kept its
    two processes for six hours, in which it found no fake; appealed ones for twelve."""
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    monkeypatch.setattr(runner_module, "_LEAST_S", 0.0)
    all_late(monkeypatch)
    for status in (TaskStatus.AGREED, TaskStatus.APPEALED):
        hung = {f"{n} {status}": task(f"{n} {status}", status, run_s=0) for n in ("one", "two")}
        right = f"right {status}"
        runs = hung | {right: task(right, TaskStatus.AGREED)}
        until(lambda runs=runs, right=right: looked(runner, runs) and right in runner._at)
        for _ in range(50):
            assert looked(runner, runs) and right in runner._at, "and keeps its process"
            time.sleep(0.005)
        runner._at[right].go_on()  # type: ignore[attr-defined]
        until(lambda right=right: runner.take() == (right, TaskResult(right.encode(), b"")))


def looked(runner: TaskRunner, runs: dict[str, Any]) -> bool:
    """Look once, and take what has ended."""
    runner.want(runs)
    runner.take()
    return True


def test_a_run_has_ten_minutes_in_any_case(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_late(monkeypatch)
    one = {"short": task("short", TaskStatus.AGREED, run_s=0)}
    assert wanted(runner, one) == {"short"} == wanted(runner, one)
    assert "run_ended" not in dict(runner._context.said)


def test_a_run_that_was_over_keeps_no_later_one_from_making_room(
    runner: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not ended is not on its way to its end."""
    all_late(monkeypatch)
    both = expected("first", "second")
    assert wanted(runner, both) == set(both)
    monkeypatch.setattr(Held, "ends", False)
    runner.want(drawn("short") | both)
    assert not runner._ended and "run_ended" not in dict(runner._context.said)


def test_a_real_process_ends_whatever_it_does_and_another_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = TaskInputs.build(EmbeddedStore(tmp_path / "store"))
    specs = [publish(inputs.evaluate(first=n), inputs.store) for n in range(2)]
    over, after = (
        SimpleNamespace(spec=spec, status=TaskStatus.RUNNING, run_s=HOUR) for spec in specs
    )
    where = context(tmp_path, str(tmp_path / "store"))
    runner = started(where)
    try:
        process: TaskProcess = runner._idle[0]
        before = process._process
        assert before is not None
        os.kill(before.pid, signal.SIGSTOP)
        runner.want({"over": over})
        until(lambda: "over" in runner._at)
        monkeypatch.setattr(runner_module, "_SPARED_S", 0.0)
        found = []
        while not found:
            runner.want({"after": after})
            found = [one for one in [runner.take()] if one is not None]
            time.sleep(0.005)
        assert (found[0][0], found[0][1].refusal) == ("after", None)
        assert before.poll() == -signal.SIGKILL
        assert [event for event, _ in where.said] == ["determinism_class", "run_ended"]
    finally:
        runner.close()
