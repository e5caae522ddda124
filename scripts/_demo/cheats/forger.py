# SPDX-License-Identifier: Apache-2.0
"""Runs no task: commits to a fake of each, and reveals it whatever the others reveal."""

from __future__ import annotations

from agents.executor import Executor
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.tasks.compute.result import TaskResult
from agents.tasks.contract import Task
from scripts._demo.cheats.fakes import fake

_MAX_SPEC_BYTES = 16 * 1024


class Forger(Executor):
    """Hopes that the other executor is one of its kind."""

    def outcome(self, task: Task, result: TaskResult) -> TaskResult:
        """The fake."""
        return fake(self.store.get_digest(task.spec, _MAX_SPEC_BYTES), self.store)


def build(context: Context) -> Forger:
    """The cheat of a started agent."""
    return Forger(context, open_stores(context.settings.store))
