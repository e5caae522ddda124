# SPDX-License-Identifier: Apache-2.0
"""Tasks that an agent runs beside its loop, each in a process of `agents.tasks.process`.

Rule: only tasks of the class that this machine computes in are ever run; which class that is, the
process says. An input that the store does not give is waited for. One task is run at a time, but a
long one must not make a short one miss its deadline: what has waited for an eighth of its time gets
a further process, up to as many as a node can be drawn for at once. A task that the node was drawn
for, and that lacks an input, keeps that process from what it was not drawn for. A run that takes
longer than its task's whole time is ended, and goes on after what waits. While one task has a
process for a vote on its appeal, further votes wait for the other one behind what nobody has
appealed: whoever appeals much must not keep a verifier from finding what nobody knows of.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from agents.protocol.numbers import MAX_OPEN, TaskStatus
from agents.runtime.background import Background
from agents.runtime.context import Context
from agents.storage.errors import StoreError
from agents.tasks.compute.result import TaskResult
from agents.tasks.contract import Task
from agents.tasks.process import TaskProcess, TaskProcessError

_CLASS = "class"
_WAIT_SHARE = 8  # of its time, that a task waits for another at most
_PAUSE_SHARE = 16  # of its time, between two tries at a task that the node was drawn for
_PRESSING = {TaskStatus.RUNNING: 2, TaskStatus.APPEALED: 1}  # what the chain waits for; else 0
_CLASS_S = 180.0  # that a process may take to say its class: a broken driver hangs for ever
_LEAST_S = 600.0  # that a run may take in any case: its process may have to be started
_SPARED_S = 30.0  # that a run goes on whose task is wanted no more: a reorg may bring it back


class TaskRunner:
    """One agent's. `label` is None until a process has said its class."""

    def __init__(self, context: Context, device: str) -> None:
        self.label: str | None = None
        self._context = context
        self._device = device
        self._processes: list[TaskProcess] = []
        self._idle: list[TaskProcess] = []
        self._jobs = Background(context.feed.wake, self._failed)
        self._since: dict[str, float] = {}  # when a task was first wanted
        self._unwanted: dict[str, float] = {}  # since when the task of a run is wanted no more
        self._guard = threading.Lock()
        self._at: dict[str, TaskProcess] = {}  # what runs a task; under the guard
        self._began: dict[str, float] = {}  # since when; under the guard
        self._overrun: set[str] = set()  # what was ended because it took too long
        self._ended: set[str] = set()  # runs that were ended here, and not taken yet
        self._said: set[str] = set()
        self._lacking: set[str] = set()  # the store did not give an input when last tried
        self._failing: set[str] = set()  # what is wrong with the others
        self._tries: Counter[str] = Counter()  # tries of these that brought nothing

    def fails(self, name: str) -> bool:
        """Whether a task brought nothing when it was last tried: the store did not give an input,
        or the process failed."""
        return name in self._lacking or name in self._failing

    def failed(self, name: str) -> int:
        """How many tries at a task brought nothing."""
        return self._tries[name]

    @property
    def running(self) -> frozenset[str]:
        """What is being run, or has ended and was not taken yet."""
        return self._jobs.running

    def want(self, runs: Mapping[str, Task]) -> None:
        """What should be run, most urgent first; a name stands for one task with one spec.

        Starts what there is room for.
        """
        if self.label is None:
            self._jobs.want({_CLASS: self._find_class})
            return
        label, now = self.label, time.monotonic()
        self._lacking &= runs.keys()
        self._failing &= runs.keys()
        self._tries = Counter({name: n for name, n in self._tries.items() if name in runs})
        self._ended &= self.running
        self._since = {name: self._since.get(name, now) for name in runs}
        self._end_unwanted(runs, now)
        self._end_overrun(runs, now)
        waited = [
            name
            for name, task in runs.items()
            if name not in self.running | self._overrun
            and now - self._since[name] >= task.run_s / _WAIT_SHARE
        ]
        late = [name for name in waited if name not in self._lacking]
        # An input that was missing may have come: what the node was drawn for is tried again.
        again = [name for name in waited if name in self._lacking and _is_drawn(runs[name])]
        if len(self.running) >= MAX_OPEN and (late or again):
            self._make_room(runs, max(_pressing(runs[name]) for name in [*late, *again]))
        # What is late has a process before what is more urgent and has only just come.
        order = dict.fromkeys([*late, *again, *runs] if self.running else runs)
        if again and self.running:
            order = dict.fromkeys(name for name in order if _is_drawn(runs[name]))
        width = min(len(self.running) + 1, MAX_OPEN) if late or again else 1
        voting = self._voting(runs)
        ranked = sorted(order, key=lambda n: (n in self._overrun, voting and _is_vote(runs[n])))
        jobs = {name: partial(self._run, name, runs[name], label) for name in ranked}
        soon = {name: runs[name].run_s / _PAUSE_SHARE for name in ranked if _is_drawn(runs[name])}
        self._jobs.want(jobs, width, soon)

    def _end_unwanted(self, runs: Mapping[str, Task], now: float) -> None:
        gone = self.running - runs.keys()
        self._unwanted = {name: self._unwanted.get(name, now) for name in gone}
        for name, since in self._unwanted.items():
            if now - since >= _SPARED_S:
                self._end(name)

    def _end_overrun(self, runs: Mapping[str, Task], now: float) -> None:
        """End what must have ended long ago: a stranger's input may make it last for ever."""
        self._overrun &= runs.keys()
        with self._guard:
            began = dict(self._began)
        for name, since in began.items():
            if name in runs and now - since >= max(runs[name].run_s, _LEAST_S):
                self._overrun.add(name)
                self._end(name)

    def _voting(self, runs: Mapping[str, Task]) -> bool:
        """Whether a run is for a vote."""
        return any(name in self.running and _is_vote(task) for name, task in runs.items())

    def _make_room(self, runs: Mapping[str, Task], pressing: int) -> None:
        """End the least urgent run that is less pressing than this, if there is one."""
        if self._ended:
            return  # its process is on its way
        for_vote = pressing == _PRESSING[TaskStatus.APPEALED]
        wanted = [] if for_vote and self._voting(runs) else reversed(list(runs))
        order = [*self._unwanted, *wanted]
        for name in order:
            if name not in self.running:
                continue
            if (_pressing(runs[name]) if name in runs else 0) < pressing:
                self._end(name)
                return

    def _end(self, name: str) -> None:
        with self._guard:
            process = self._at.get(name)
            if process is not None and name not in self._ended and process.end():
                self._ended.add(name)
                self._context.log.info("run_ended", job=name)

    def take(self) -> tuple[str, TaskResult] | None:
        """Name and result of a run that ended and was not taken yet."""
        ended = self._jobs.take()
        if ended is not None and ended[0] == _CLASS:
            self.label = str(ended[1])
            self._context.log.info("determinism_class", label=self.label)
            return None
        return ended

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()

    @contextmanager
    def _process(self) -> Iterator[TaskProcess]:
        """A process that does nothing else meanwhile."""
        if self._idle:
            process = self._idle.pop()
        else:
            process = TaskProcess(self._context.settings.store, self._device)
            self._processes.append(process)
        try:
            yield process
        finally:
            self._idle.append(process)

    @contextmanager
    def _listed(self, name: str, process: TaskProcess) -> Iterator[None]:
        """Where the process is at this task and at no other, so that it may be ended."""
        with self._guard:
            process.begin()
            self._at[name] = process
            self._began[name] = time.monotonic()
        try:
            yield
        finally:
            with self._guard:
                del self._at[name], self._began[name]

    def _find_class(self) -> str:
        with self._process() as process:
            process.begin()
            late = threading.Event()

            def end() -> None:
                late.set()
                process.end()

            timer = threading.Timer(_CLASS_S, end)
            timer.daemon = True  # the system may not end a process that hangs in a driver
            timer.start()
            try:
                return process.label()
            except TaskProcessError as error:
                if not late.is_set():
                    raise
                why = f"the task process said no class within {_CLASS_S:g} s"
                raise TaskProcessError(why) from error
            finally:
                timer.cancel()

    def _run(self, name: str, task: Task, label: str) -> TaskResult:
        out = self._context.artefacts / f"{name}.run"
        try:
            with (
                self._process() as process,
                self._listed(name, process),
                self._context.metrics.busy("task"),
            ):
                return process.run(task.spec, task.run_s, label, out)
        finally:
            out.unlink(missing_ok=True)

    def _failed(self, name: str, error: Exception) -> None:
        """Said once for each cause; what can't be run now is tried again."""
        if name in self._ended:
            return
        lacking = isinstance(error, StoreError)
        (self._lacking if lacking else self._failing).add(name)
        self._tries[name] += 1
        text = f"{name} {type(error).__name__} {error}"
        if text not in self._said:
            self._said.add(text)
            log = self._context.log
            write = log.warning if lacking else log.error
            write("cannot_run_yet", job=name, why=f"{type(error).__name__}: {error}")


def _is_drawn(task: Task) -> bool:
    """Whether the chain waits for it, until a deadline that costs stake."""
    return task.status == TaskStatus.RUNNING


def _is_vote(task: Task) -> bool:
    return task.status == TaskStatus.APPEALED


def _pressing(task: Task) -> int:
    return _PRESSING.get(task.status, 0)
