# SPDX-License-Identifier: Apache-2.0
"""What an executor does first where its disk refuses every write. Journal and files are real, the
chain is a stub."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.executor import Executor
from agents.runtime.chain import Head
from agents.runtime.commitments import Commitments
from agents.runtime.errors import JournalFull
from agents.runtime.journal import Journal
from agents.tasks.compute.result import TaskResult

NODE = 7
OLD, OPEN, NEW = 1, 2, 3  # tasks: settled long ago, committed to, just run
FIELDS = {"result": "00" * 32, "tag": "00" * 32, "refusal": None}
LONG_AGO = 1
NOW = 500


class Desk:
    """An executor with a commitment to open and an old secret to forget. `sent`: what it sent."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.sent: list[str] = []
        self.said: list[str] = []
        self.ran: list[tuple[str, TaskResult]] = []
        one: Any = object.__new__(Executor)
        one.node_id, one._class = NODE, None
        one.commitments = Commitments(journal, folder / "artefacts", "executor")
        for task in (OLD, OPEN):
            one.commitments.keep(f"task-{task}-{NODE}-ab", FIELDS, {"payload": b"found"})
        one.runner = SimpleNamespace(
            label=None, take=lambda: self.ran.pop() if self.ran else None, running=frozenset()
        )
        one.tasks = SimpleNamespace(
            inputs=lambda task: bytes(32), tag=lambda number, digest: bytes(32)
        )
        one.upkeep = SimpleNamespace(step=lambda *_: None)
        one._watch = SimpleNamespace(look=lambda *_: [], follow=lambda tasks: None)
        one._own = {n: SimpleNamespace(settled=lambda t, n=n: n == OLD) for n in (OLD, OPEN)}
        one._giving_up = SimpleNamespace(found_late=lambda name: False)
        one._asked = {f"task-{NEW}-{NODE}-00": SimpleNamespace(task_id=NEW)}
        one._over, one._published, one._confirmed = {OLD: LONG_AGO}, set(), {}
        one.context = SimpleNamespace(
            log=SimpleNamespace(warning=self._say, info=self._say, error=self._say)
        )
        one._lanes = lambda seen, head: {}
        one._compute = lambda lanes, head: None
        one._publish = lambda: None
        one._reveal = self._reveal
        one._commit = lambda lanes: self._do("commit")
        one._object = lambda head: None
        self.executor, self.due = one, True

    def step(self) -> str | None:
        did: str | None = self.executor._duty(Head(NOW, bytes(32), bytes(32), NOW))
        return did

    def _say(self, event: str, **fields: Any) -> None:
        self.said.append(event)

    def _do(self, what: str) -> None:
        self.sent.append(what)

    def _reveal(self, head: Head) -> str | None:
        if not self.due:
            return None
        self.sent.append("reveal")
        self.due = False
        return "revealed"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal") as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path, journal: Journal) -> Desk:
    return Desk(tmp_path, journal)


def refuse(*_: Any, **__: Any) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def refuse_entry(*_: Any) -> None:
    raise JournalFull("no space left")


@pytest.mark.parametrize(("at", "left"), [("file", {OPEN}), ("entry", {OLD, OPEN})])
def test_what_can_not_be_tidied_up_holds_back_no_reveal(
    desk: Desk, journal: Journal, monkeypatch: pytest.MonkeyPatch, at: str, left: set[int]
) -> None:
    old = desk.executor._own[OLD]
    with monkeypatch.context() as patch:
        if at == "file":
            patch.setattr(Path, "unlink", refuse)
        else:
            patch.setattr(journal, "put", refuse_entry)
        assert desk.step() == "revealed"
        assert desk.step() is None
        assert desk.sent == ["reveal", "commit"], "nor anything else that writes nothing"
        assert desk.executor.commitments.numbers("task-") == left
    # What still has an entry is looked at again, and forgotten when there is room.
    desk.executor._own[OLD], desk.executor._over[OLD] = old, LONG_AGO
    desk.step()
    assert desk.executor.commitments.numbers("task-") == {OPEN}


def test_a_result_that_can_not_be_kept_holds_back_no_reveal(
    desk: Desk, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.ran = [(f"task-{NEW}-{NODE}-00", TaskResult(bytes(32), b"found"))] * 2
    desk.executor._over = {}
    monkeypatch.setattr(journal, "put", refuse_entry)
    assert desk.step() == "revealed"
    with pytest.raises(JournalFull):  # the loop says so, and comes again
        desk.step()
    assert desk.sent == ["reveal", "commit"], "what is on disk may be committed to"


def test_the_node_is_the_one_that_the_key_serves_now(desk: Desk) -> None:
    serves, one = [NODE], desk.executor
    one._said, one.context.wallet = set(), SimpleNamespace(address="0xkey")
    one.network = SimpleNamespace(node_of=lambda address: serves[-1])
    head = Head(NOW, bytes(32), bytes(32), NOW)
    assert one._registered(head) and one.node_id == NODE
    serves.append(NODE + 1)
    assert one._registered(head) and one.node_id == NODE, "a commitment of the former is open"
    del one._own[OPEN]
    assert one._registered(head) and one.node_id == NODE + 1
    assert one._registered(head) and desk.said == ["node"]
    serves.append(0)
    assert one._registered(head) and one.node_id == NODE + 1
