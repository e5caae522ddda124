# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks by real processes: kill -9 at the worst moments, and tasks beside training.

Only two of the pool are drawn for a task, so for a crash point all are armed and tasks are made
until somebody has died there. Two points in one run are tested always, all with `-m chaos`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agents.protocol.numbers import TaskStatus
from agents.storage.content_store import ContentStore
from agents.storage.errors import NotFound
from agents.tasks.compute.make import publish
from agents.tasks.compute.spec import TaskSpec
from agents.tasks.contract import Task, Tasks
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.localnet import LocalnetSettings
from tests.e2e.conftest import AGENTS
from tests.stage.memory.task_inputs import TaskInputs
from tests.stage.network import LocalNetwork

FEE = ZOO
RUN_S = 900
TERMS = TaskTerms(
    max_run_s=900, reveal_s=900, draw_s=5_400, appeal_s=300, verdict_s=900, dispute_s=900
)
POINTS = (
    "executor-before-journal",
    "executor-before-commit",
    "executor-after-commit",
    "executor-before-reveal",
    "executor-after-reveal",
    "executor-before-publish",
)
_FRESH = itertools.count(20)


class TaskNetwork:
    """A local with a pool, and a creator who pays from the faucet."""

    def __init__(self, local: LocalNetwork) -> None:
        self.local, self.net = local, local.net
        self.tasks = Tasks(local.network)
        self.inputs = TaskInputs.build(local.store)
        token = self.net.contract("ZooToken").functions
        batch = self.net.batch()
        spender = self.net.contract("RedundantTasks").address
        batch.add(self.net.faucet, token.transfer(self.net.sponsor.address, 1_000 * ZOO))
        batch.settle()
        batch.add(self.net.sponsor, token.approve(spender, 1_000 * ZOO))
        batch.settle()

    def create(self, spec: TaskSpec | None = None) -> int:
        """Create a task, unlike any before; its id."""
        spec = spec or self.inputs.evaluate(first=next(_FRESH))
        contract = self.net.contract("RedundantTasks").functions
        digest = publish(spec, self.local.store)
        batch = self.net.batch()
        batch.add(self.net.sponsor, contract.create_task(0, digest, FEE, RUN_S))
        batch.settle()
        return self.tasks.count()

    def wait_seated(self, *names: str) -> None:
        """Wait until these seats' nodes may be drawn."""
        nodes = [self.local.node_id(name) for name in names]
        self.local.until(
            lambda: all(self.tasks.seat(node).seated for node in nodes), "all have a seat"
        )

    def agreed(self, task_id: int) -> Task:
        """Wait until two agree and the payload is published."""
        self.local.until(
            lambda: self.tasks.task(task_id).status >= TaskStatus.AGREED,
            f"task {task_id} is agreed",
        )
        task = self.tasks.task(task_id)
        assert task.status == TaskStatus.AGREED, task
        assert task.result is not None
        self.local.until(
            partial(_holds, self.local.store, task.result),
            f"the payload of task {task_id} is published",
        )
        return task

    def slashes(self) -> list[int]:
        chain, registry = self.local.network.chain, self.local.network.registry
        events = chain.events(registry, "NodeSlashed", 0, chain.head().number)
        return [int(event.args["node_id"]) for event in events]


def _holds(store: ContentStore, digest: bytes) -> bool:
    try:
        store.get_digest(digest, 2**30)
    except NotFound:
        return False
    return True


@pytest.fixture(scope="module")
def pool(build: Callable[[LocalnetSettings], LocalNetwork]) -> TaskNetwork:
    settings = LocalnetSettings(
        trainers=0,
        verifiers=0,
        aggregators=0,
        executors=4,
        approve_roles=False,
        unbonding_period=86_400,
        tasks=TERMS,
        agent=AGENTS,
    )
    pool = TaskNetwork(build(settings))
    pool.local.start(*_pool(pool))
    pool.wait_seated(*_pool(pool))
    return pool


def _pool(pool: TaskNetwork) -> list[str]:
    return pool.local.names("executor")


def _dies(pool: TaskNetwork, *points: str) -> None:
    """Every process dies once, at one of these points, and nobody loses anything by it."""
    local, names = pool.local, _pool(pool)
    local.settle(*names)
    local.arm({point: tuple(names[i :: len(points)]) for i, point in enumerate(points)})
    made = []
    while set(local.crashed) != set(names) and len(made) < 12:
        made.append(pool.create())
        pool.agreed(made[-1])
    assert local.crashed, "nobody died"
    assert pool.slashes() == []


def test_executors_die_before_they_commit_and_before_they_reveal(pool: TaskNetwork) -> None:
    _dies(pool, "executor-before-commit", "executor-before-reveal")


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_executors_die_at(pool: TaskNetwork, point: str) -> None:
    _dies(pool, point)


@pytest.mark.chaos
def test_the_process_that_computes_dies_with_its_agent(pool: TaskNetwork) -> None:
    """And a task that was being computed is computed again by the restarted agent."""
    local, names = pool.local, _pool(pool)
    local.settle(*names)
    task_id = pool.create(pool.inputs.train(steps=600, batch_size=16, first=next(_FRESH)))
    local.until(lambda: bool(pool.tasks.expected(task_id)), "the draw is known")
    pids = [local.net.supervisor[name].pid for name in names]

    def computing() -> list[int]:
        return [child for pid in pids for child in _children(pid)]

    # The chain knows the draw before an agent looks at it.
    local.until(lambda: len(computing()) == len(names), "each of them computes")
    children = computing()
    local.stop(*names)
    local.until(lambda: not any(map(_is_running, children)), "the processes are gone")
    local.start(*names)
    pool.agreed(task_id)
    assert pool.slashes() == []


def _children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def _is_running(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_trainers_take_tasks_beside_training(
    build: Callable[[LocalnetSettings], LocalNetwork],
) -> None:
    """A round and tasks at the same time; both come out right."""
    agent = {**AGENTS, "executor": {"with_training": True}}
    settings = LocalnetSettings(
        trainers=3,
        verifiers=2,
        aggregators=1,
        unbonding_period=86_400,
        tasks=TERMS,
        agent=agent,
        benchmark_quorum=1,
    )
    local = build(settings)
    pool = TaskNetwork(local)
    names = local.names("trainer", "verifier", "aggregator")
    local.start(*names)
    local.wait_eligible(names)
    pool.wait_seated(*local.names("trainer"))
    job = local.job()
    made = [pool.create() for _ in range(2)]
    local.finish(job)
    for task_id in made:
        pool.agreed(task_id)
    local.assert_whole(job)
    assert pool.slashes() == []
