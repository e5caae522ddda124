# SPDX-License-Identifier: Apache-2.0
"""Real agents of the pool's executors and verifiers on the attacks' chain, stepped in turn.

Each has its own keystore, journal and data folder; tasks are run by the real process, one for all
of a session. The chain mines a block for each transaction, and `drive` mines one whenever nobody
has anything to do.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agents.executor import Executor
from agents.protocol.network import Network
from agents.protocol.numbers import LaneState, TaskStatus
from agents.runtime.chain import ChainClient
from agents.runtime.context import Context
from agents.runtime.contracts import load_deployment
from agents.runtime.logs import open_log
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.compute.result import TaskResult
from agents.tasks.compute.spec import TaskSpec
from agents.tasks.contract import Task
from agents.tasks.contract import Tasks as Reader
from agents.tasks.process import TaskProcess
from agents.tasks.recheck import Recheck
from agents.tasks.runner import TaskRunner
from tests.stage.chain.agents import RunningAgents
from tests.stage.chain.people import Node, Party
from tests.stage.chain.tasks import FEE, RUN_S, Tasks
from tests.stage.memory.task_inputs import TaskInputs

_FRESH = itertools.count(20)
_PATIENCE_S = 300.0  # of the test, for anything; the machine may be busy with other things


def fake(task: Task, text: str = "invented") -> TaskResult:
    """A result that costs nothing."""
    payload = f"{text} for task {task.task_id}".encode()
    return TaskResult(digest_of(cid_of_bytes(payload)), payload)


class Liar(Executor):
    """Answers with the same invention as every other liar."""

    def outcome(self, task: Task, result: TaskResult) -> TaskResult:
        return fake(task)


class Loner(Executor):
    """Answers with an invention of its own."""

    def outcome(self, task: Task, result: TaskResult) -> TaskResult:
        return fake(task, self.context.wallet.address)


class Silent(Executor):
    """Commits and does not reveal."""

    def reveals(self, task: Task) -> bool:
        return False


class Rechecker:
    """A verifier's part in redundant tasks, alone."""

    def __init__(self, context: Context, node: Node, rate: float) -> None:
        network = Network(context.chain, context.deployment)
        self.context, self.node = context, node
        self.rechecks = Recheck(network, context, "cpu", rate)

    def step(self, head: Any) -> str | None:
        return self.rechecks.step(head, self.node.node_id) or self.rechecks.move_on(head)


class Executors(RunningAgents):
    """Agents by their nodes' names. `done`: what each said it did."""

    def __init__(
        self, tasks: Tasks, inputs: TaskInputs, process: TaskProcess, folder: Path, stack: ExitStack
    ) -> None:
        super().__init__(tasks.people, folder, stack)
        self.tasks, self.inputs, self.process = tasks, inputs, process
        assert isinstance(inputs.store, EmbeddedStore)
        self.store = inputs.store
        self.agents: dict[str, Executor | Rechecker] = {}
        self.done: list[tuple[str, str]] = []
        client = ChainClient(tasks.chain._url, open_log("test", path=folder / "test.log"))
        self.network = Network(client, load_deployment(self.deployment))
        self.reader = Reader(self.network)

    # -- agents --------------------------------------------------------------------------------

    def start_one(
        self, node: Node, kind: type[Executor] = Executor, role: str = "executor", **options: Any
    ) -> Executor:
        """Start, or restart, a node's executor."""
        context = self._begin(node, role, **options)
        agent = kind(context, self.store)
        self._share(agent.runner)
        self.agents[node.name] = agent
        return agent

    def start(self, *nodes: Node, kind: type[Executor] = Executor) -> None:
        for node in nodes:
            self.start_one(node, kind)

    def recheck(self, name: str, rate: float = 0.0) -> Rechecker:
        """Start, or restart, a verifier."""
        node = self.tasks.people.nodes[name]
        agent = Rechecker(self._begin(node, "verifier"), node, rate)
        self._share(agent.rechecks.runner)
        self.agents[name] = agent
        return agent

    def all_recheck(self) -> None:
        """Start all three verifiers."""
        for name in ("vic", "vera", "vito"):
            self.recheck(name)

    def _begin(self, node: Node, role: str, **options: Any) -> Context:
        store = self.store.location
        return self.begin(
            node, role, store=store, device="cpu", jitter_s=0.0, log_level="debug", **options
        )

    def _share(self, runner: TaskRunner) -> None:
        runner._idle.append(self.process)

    @contextmanager
    def held_process(self) -> Iterator[None]:
        """The shared process stands still while the block runs: a task given to it does not end."""
        running = self.process._process
        assert running is not None and running.poll() is None, "the task process should be running"
        os.kill(running.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(running.pid, signal.SIGCONT)

    # -- tasks ---------------------------------------------------------------------------------

    def create(self, spec: TaskSpec | bytes, run_s: int = RUN_S, fee: int = FEE) -> int:
        """Create a task by its spec, published here, or by a digest; its id."""
        digest = spec if isinstance(spec, bytes) else publish(spec, self.store)
        tasks = self.tasks
        tasks.chain.send(tasks.creator, tasks.people.tasks, "create_task", 0, digest, fee, run_s)
        return self.reader.count()

    def drawn(self, task_id: int) -> list[Node]:
        """Whom a draw would take now, when that is known."""
        return [self.tasks.node(node_id) for node_id in self.reader.expected(task_id)]

    def task(self, task_id: int) -> Task:
        return self.reader.task(task_id)

    def status(self, task_id: int) -> TaskStatus:
        return self.task(task_id).status

    def state(self, task_id: int, node: Node) -> LaneState:
        return self.task(task_id).state_of(node.node_id)

    def gain(self, *parties: Party) -> int:
        return self.tasks.people.gain(*parties)

    def fresh(self) -> TaskSpec:
        """A task unlike any before."""
        return self.inputs.evaluate(first=next(_FRESH))

    def requested(self) -> tuple[int, Node, Node]:
        """A new task, unlike any before, and the two whom its draw will take."""
        task_id = self.create(self.fresh())
        self.tasks.chain.mine(2)
        first, second = self.drawn(task_id)
        return task_id, first, second

    def at_work(self) -> tuple[int, Node, Node]:
        """A new task, and the two whom its draw will take, who run."""
        task_id, first, second = self.requested()
        self.start(first, second)
        return task_id, first, second

    def everybody(
        self, one: type[Executor], others: type[Executor], **options: Any
    ) -> tuple[int, Node, Node]:
        """A new task, and the two whom its draw will take. The first is of one kind (started with
        `options`), the whole rest of the pool of another."""
        task_id, first, second = self.requested()
        self.start_one(first, one, **options)
        self.start(second, *self.others(first, second), kind=others)
        return task_id, first, second

    def others(self, *nodes: Node) -> list[Node]:
        return [node for node in self.tasks.executors if node not in nodes]

    def right(self, task_id: int) -> bytes:
        """What running the task gives, found apart from everybody."""
        task = self.task(task_id)
        return self.process.run(task.spec, task.run_s, CPU, self.folder / "right").digest

    def has(self, digest: bytes) -> bool:
        """Whether the store has a payload."""
        try:
            self.store.get_digest(digest, 2**30)
        except NotFound:
            return False
        return True

    def published(self, task_id: int) -> None:
        """Drive until a task's result is in the store."""
        self.drive(lambda: self.has(self.task(task_id).result or b""), "the result is published")

    # -- time ----------------------------------------------------------------------------------

    def step(self, name: str) -> str | None:
        agent = self.agents[name]
        did = agent.step(agent.context.chain.head())
        if did is not None:
            self.done.append((name, did))
        return did

    def pass_blocks(self, blocks: int, *names: str) -> list[str]:
        """Step these agents, once a block; what they did meanwhile."""
        did: list[str | None] = []
        for _ in range(blocks):
            did += [self.step(name) for name in names]
            self.tasks.chain.mine()
        return [what for what in did if what is not None]

    def drive(self, until: Callable[[], bool], what: str = "", blocks: bool = True) -> None:
        """Step all agents until something holds. Without `blocks` the chain's time stands still but
        for what they send."""
        end = time.monotonic() + _PATIENCE_S
        while not until():
            assert time.monotonic() < end, f"not reached: {what}\n{self.tails()}"
            did = [self.step(name) for name in list(self.agents)]
            if not any(did):
                if blocks:
                    self.tasks.chain.mine()
                time.sleep(0.02)

    def until(self, task_id: int, *statuses: TaskStatus) -> None:
        """Drive until a task is in one of these statuses."""
        names = " or ".join(status.name for status in statuses)
        if TaskStatus.CLOSED in statuses:
            # A verdict is carried out when nobody has objected to it for a while.
            self.drive(
                lambda: self.status(task_id) in statuses or self.reader.appeal(task_id).standing,
                f"task {task_id} is {names}, or has a verdict",
            )
            appeal = self.reader.appeal(task_id)
            if appeal.standing:
                self.tasks.people.wait_until(appeal.deadline)
        self.drive(lambda: self.status(task_id) in statuses, f"task {task_id} is {names}")

    def pass_deadline(self, task_id: int) -> None:
        self.tasks.people.wait_until(self.task(task_id).time)

    # -- logs ----------------------------------------------------------------------------------

    def said(self, node: Node, event: str) -> int:
        """How often a node's log says so."""
        path = self.folder / f"{node.name}.log"
        return path.read_text().count(f'"event": "{event}"') if path.exists() else 0

    def tails(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {p.stem}\n{''.join(p.read_text()[-1500:])}" for p in logs)
