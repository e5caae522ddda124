# SPDX-License-Identifier: Apache-2.0
"""What an executor's commitments hide, on disk before a commitment is sent.

Rule: there is one secret for a node and a task, with all that its result and tag depend on (spec,
time, class, chain, contract), and it is written once. Neither lane nor draw is among that, so a
reorg that moves the node to another lane of the same task changes nothing; one that puts another
task under the same number makes another secret. Which one to open, the commitment on chain says.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.runtime.faults import crashpoint
from agents.runtime.journal import Journal
from agents.storage.durable import write_atomic
from agents.tasks.compute.result import TaskResult
from agents.tasks.contract import Task, Tasks

_PREFIX = "task-"


@dataclass(frozen=True)
class Secret:
    """One journal entry. `name` is its key."""

    name: str
    result: bytes
    tag: bytes
    salt: bytes
    refusal: str | None


class TaskSecrets:
    """The secrets of one operator key; payloads lie beside the journal, as artefacts."""

    def __init__(self, tasks: Tasks, journal: Journal, artefacts: Path, operator: str) -> None:
        self._tasks = tasks
        self._journal = journal
        self._artefacts = artefacts
        self._operator = operator

    def get(self, task: Task, node_id: int) -> Secret | None:
        """The secret of a task as it stands, None if it has not been computed."""
        return self._read(self.name(task, node_id))

    def name(self, task: Task, node_id: int) -> str:
        """The journal key of a node's secret of a task."""
        return f"{_PREFIX}{task.task_id}-{node_id}-{self._tasks.inputs(task).hex()[:16]}"

    def keep(self, task: Task, node_id: int, result: TaskResult) -> Secret:
        """Write payload and secret down, for good; what was written before stays as it is."""
        name = self.name(task, node_id)
        if name not in self._journal:
            write_atomic(self.payload(name), result.payload)
            crashpoint("executor-before-journal")
            value = {
                "result": result.digest.hex(),
                "tag": self._tasks.tag(task.task_id, result.digest).hex(),
                "salt": secrets.token_hex(32),
                "refusal": result.refusal,
            }
            self._journal.put(name, value)
        found = self._read(name)
        assert found is not None
        return found

    def commitment(self, task: Task, node_id: int, secret: Secret) -> bytes:
        """What to send."""
        return self._tasks.commitment(task, node_id, self._operator, secret.tag, secret.salt)

    def behind(self, task: Task, node_id: int, commitment: bytes) -> Secret | None:
        """The secret that a commitment on chain was made from."""
        for name in self._journal.keys(f"{_PREFIX}{task.task_id}-{node_id}-"):
            secret = self._read(name)
            if secret is not None and self.commitment(task, node_id, secret) == commitment:
                return secret
        return None

    def task_ids(self) -> set[int]:
        """The tasks that there are secrets of."""
        return {int(name.split("-")[1]) for name in self._journal.keys(_PREFIX)}

    def payload(self, name: str) -> Path:
        """Where the payload of a secret lies."""
        return self._artefacts / f"{name}.payload"

    def forget(self, task_id: int) -> None:
        """Drop a task's secrets and payloads."""
        for name in self._journal.keys(f"{_PREFIX}{task_id}-"):
            self.payload(name).unlink(missing_ok=True)
            self._journal.delete(name)

    def _read(self, name: str) -> Secret | None:
        value: dict[str, Any] | None = self._journal.get(name)
        if value is None:
            return None
        result, tag, salt = (bytes.fromhex(value[key]) for key in ("result", "tag", "salt"))
        return Secret(name, result, tag, salt, value["refusal"])
