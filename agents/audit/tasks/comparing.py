# SPDX-License-Identifier: Apache-2.0
"""How the books of tasks and of appeals hold an event against what it must say."""

from __future__ import annotations

from typing import Any

from agents.audit.sources.findings import Part
from agents.audit.tasks.course import Course
from agents.runtime.contracts import Event


class Comparing:
    """Findings on tasks, each under the task's name."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def _same(self, course: Course, event: Event, **wanted: Any) -> None:
        """Compare fields of an event."""
        for name, value in wanted.items():
            what = f"{name} of {event.name}"
            self._part.same("tasks", course.name, what, event.args[name], value)

    def _hold(self, course: Course, ok: bool, sentence: str) -> bool:
        return self._part.hold("tasks", ok, course.name, sentence)
