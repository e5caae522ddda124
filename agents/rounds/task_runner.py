# SPDX-License-Identifier: Apache-2.0
"""Tasks that an agent runs beside its loop: one at a time, in the process of `task_process`.

Rule: only tasks of the class that this machine computes in are ever run; which class that is, the
process says. An input that the store does not give is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from agents.rounds.task_process import TaskProcess
from agents.rounds.tasks import Task
from agents.runtime.background import Background
from agents.runtime.context import Context
from agents.storage.errors import StoreError
from agents.tasks.result import TaskResult

_CLASS = "class"


class TaskRunner:
    """One agent's. `label` is None until the process has said its class."""

    def __init__(self, context: Context, device: str) -> None:
        self.label: str | None = None
        self._context = context
        self._process = TaskProcess(context.settings.store, device)
        self._jobs = Background(context.feed.wake, self._failed)
        self._said: set[str] = set()
        self._lacking: set[str] = set()

    def lacks(self, name: str) -> bool:
        """Whether the store did not give an input of a task when it was last tried."""
        return name in self._lacking

    @property
    def running(self) -> str | None:
        """What is being run, or has ended and was not taken yet."""
        return self._jobs.running

    def want(self, runs: Mapping[str, Task]) -> None:
        """What should be run, most urgent first; a name stands for one task with one spec.

        Starts the first, unless something is being run.
        """
        if self.label is None:
            self._jobs.want({_CLASS: self._process.label})
            return
        label = self.label
        self._lacking &= runs.keys()
        self._jobs.want(
            {name: partial(self._run, name, task, label) for name, task in runs.items()}
        )

    def take(self) -> tuple[str, TaskResult] | None:
        """Name and result of a run that ended since the last call."""
        ended = self._jobs.take()
        if ended is not None and ended[0] == _CLASS:
            self.label = str(ended[1])
            self._context.log.info("determinism_class", label=self.label)
            return None
        return ended

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _run(self, name: str, task: Task, label: str) -> TaskResult:
        out = self._context.artefacts / f"{name}.run"
        try:
            with self._context.metrics.busy("task"):
                return self._process.run(task.spec, task.run_s, label, out)
        finally:
            out.unlink(missing_ok=True)

    def _failed(self, name: str, error: Exception) -> None:
        """Said once for each cause; what can't be run now is tried again."""
        if isinstance(error, StoreError):
            self._lacking.add(name)
        text = f"{name} {type(error).__name__} {error}"
        if text not in self._said:
            self._said.add(text)
            log = self._context.log
            write = log.warning if isinstance(error, StoreError) else log.error
            write("cannot_run_yet", job=name, why=f"{type(error).__name__}: {error}")
