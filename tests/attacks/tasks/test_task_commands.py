# SPDX-License-Identifier: Apache-2.0
"""A creator of redundant tasks at a terminal: audits, and results that are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.tasks.compute.make import publish
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import Node
from tests.stage.chain.tasks import AGREED, FAKE, FEE, RIGHT, RUN_S, Tasks
from tests.stage.memory.task_inputs import TaskInputs
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

    def reads(self, command: str, *rest: object, fails: bool = False) -> str:
        words = " ".join(map(str, rest))
        return self.terminal.here(f"task {command} {self.net} {words}", "", fails)


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


@pytest.mark.parametrize("kind", ["evaluate", "train_steps"])
def test_result__two_friends_invention_is_called_none(
    creator: Creator, tmp_path: Path, kind: str
) -> None:
    """A traceback, or "a new checkpoint", in the hours in which the creator should appeal."""
    tasks, store = creator.tasks, EmbeddedStore(tmp_path / "store")
    inputs = TaskInputs.build(store)
    spec = publish(inputs.evaluate() if kind == "evaluate" else inputs.train(), store)
    creating = (tasks.people.tasks, "create_task", 0, spec, FEE, RUN_S)
    tasks.chain.send(tasks.creator, *creating)
    task = int(tasks.chain.call(tasks.people.tasks, "task_count"))
    invented = b"invented by two friends"
    result = digest_of(store.put_bytes(invented))
    friends = tasks.draw(task)
    for node in friends:
        _commit(tasks, task, node, result, spec)
    for node in friends:
        tasks.reveal(task, node, result)
    assert tasks.status(task) == AGREED
    out = tmp_path / "result"
    where = ("--store", store.root, "--out", out)
    refused = creator.reads("result", task, *where, fails=True)
    assert "This is no answer to a task of this kind" in refused
    assert f"`ape run task appeal {task}` has verifiers run the task again" in refused
    assert out.read_bytes() == invented


def _commit(tasks: Tasks, task: int, node: Node, result: bytes, spec: bytes) -> None:
    digest = tasks.digest(task, node, tasks.tag(task, result), spec=spec)
    tasks.commit(task, node, result, digest)


def test_status__an_objection_that_nobody_decided_slashes_nobody(creator: Creator) -> None:
    tasks, people = creator.tasks, creator.tasks.people
    task, *_ = tasks.played(FAKE, FAKE)
    tasks.appeal(task, tasks.creator)
    for name in ("vic", "vera"):
        tasks.attest(task, people.nodes[name], RIGHT)
    tasks.chain.send(tasks.creator, people.appeals, "contest", task)
    people.wait_until(int(tasks.chain.call(people.appeals, "appeal_of", task).deadline))
    tasks.chain.send(tasks.creator, people.appeals, "lapse", task)
    told = " ".join(creator.reads("status", task).split())
    assert "did not decide on that in time, so nobody is slashed" in told
