# SPDX-License-Identifier: Apache-2.0
"""A creator of redundant tasks at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.tasks import AGREED, RIGHT, Tasks
from tests.stage.terminal import Terminal


class Creator:
    """The tasks' creator at a terminal."""

    def __init__(self, tasks: Tasks, folder: Path, stack: ExitStack) -> None:
        self.tasks = tasks
        self.terminal = Terminal(folder)
        self.terminal.has("me", bytes(tasks.creator.key))
        deployment = RunningAgents(tasks.people, folder, stack).deployment
        self.net = f"--network {tasks.chain._url} --deployment {deployment}"

    def sends(self, command: str, *rest: object, fails: bool = False) -> str:
        words = " ".join(map(str, rest))
        said = self.terminal.here(
            f"task {command} {self.net} --account me --yes {words}", "", fails
        )
        self.tasks.chain._nonces.clear()
        return said


@pytest.fixture
def creator(tasks: Tasks, tmp_path: Path) -> Iterator[Creator]:
    with ExitStack() as stack:
        yield Creator(tasks, tmp_path, stack)


def test_audit__draws_no_lot_of_a_task_that_is_not_over(creator: Creator) -> None:
    """It drew first, and said of a task that ran that there was no time left, or that it was not
    drawn: whoever typed what `create` prints never audited."""
    tasks = creator.tasks
    agreed, *_ = tasks.played(RIGHT, RIGHT)
    assert tasks.status(agreed) == AGREED
    task = tasks.create()
    for share in (0, 1):
        refused = creator.sends("audit", agreed, task, "--share", share, fails=True)
        assert f"Task {task} is DRAWING, and not over yet; ask again when it is." in refused
    tasks.draw(task)
    assert "is RUNNING, and not over yet" in creator.sends("audit", task, fails=True)
    assert tasks.status(agreed) == AGREED, "nothing was appealed beside a refusal"
    assert "is not drawn" in creator.sends("audit", agreed, "--share", 0)
    assert f"Task {agreed} is appealed" in creator.sends("audit", agreed, "--share", 1)
    assert "appealed already" in creator.sends("audit", agreed, "--share", 1)
