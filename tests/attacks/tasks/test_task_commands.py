# SPDX-License-Identifier: Apache-2.0
"""A creator of redundant tasks at a terminal: audits, results that are none, and what is due."""

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
from tests.stage.chain.tasks import (
    AGREED,
    CLOSED,
    DRAWING,
    FAKE,
    FEE,
    RIGHT,
    RUN_S,
    RUNNING,
    UNDECIDED,
    Tasks,
)
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
    early = creator.sends("advance", task, fails=True)
    assert "Nothing is due" in early and "appeals: verdict pending" in early
    people.wait_until(int(tasks.chain.call(people.appeals, "appeal_of", task).deadline))
    assert f"Task {task} is CLOSED now" in creator.sends("advance", task)
    told = " ".join(creator.reads("status", task).split())
    assert "did not decide on that in time, so nobody is slashed" in told


def test_advance__sends_what_is_due_at_each_stage(creator: Creator) -> None:
    """With no agent about there was no command for it, and a fee came back only by that."""
    tasks, people = creator.tasks, creator.tasks.people
    task = tasks.create()
    assert "Nothing is due" in creator.sends("advance", task, fails=True)
    tasks.chain.mine(300)
    first = int(tasks.state(task).seed_block)
    assert f"Task {task} is DRAWING now" in creator.sends("advance", task), "it is forgotten"
    assert int(tasks.state(task).seed_block) > first
    tasks.await_seed(task)
    tasks.chain.mine()
    assert f"Task {task} is RUNNING now" in creator.sends("advance", task)
    assert "tasks: not over" in creator.sends("advance", task, fails=True)
    assert tasks.status(task) == RUNNING
    people.wait_until(int(tasks.state(task).time))
    assert f"Task {task} is DRAWING now" in creator.sends("advance", task), "both were silent"
    assert tasks.status(task) == DRAWING
    credit = tasks.chain.call(people.tasks, "bond_credit", tasks.creator.address)
    people.wait_until(int(tasks.state(task).draw_until))
    assert f"Task {task} is UNDECIDED now" in creator.sends("advance", task)
    assert tasks.status(task) == UNDECIDED
    after = tasks.chain.call(people.tasks, "bond_credit", tasks.creator.address)
    assert after == credit + FEE, "the fee is back"
    assert "there is nothing to send" in creator.sends("advance", task, fails=True)


def test_advance__carries_out_a_decision_and_a_verdict(creator: Creator) -> None:
    tasks, people = creator.tasks, creator.tasks.people
    decided, _, _ = tasks.outvoted()
    assert "appeal window open" in creator.sends("advance", decided, fails=True)
    people.wait_until(int(tasks.state(decided).time))
    assert f"Task {decided} is CLOSED now" in creator.sends("advance", decided)
    judged, *_ = tasks.played(FAKE, FAKE)
    tasks.appeal(judged, tasks.creator)
    for name in ("vic", "vera"):
        tasks.attest(judged, people.nodes[name], RIGHT)
    people.wait_until(int(tasks.chain.call(people.appeals, "appeal_of", judged).deadline))
    assert f"Task {judged} is CLOSED now" in creator.sends("advance", judged)
    assert tasks.status(judged) == CLOSED
    assert tasks.chain.call(people.appeals, "appeal_of", judged).overturned
