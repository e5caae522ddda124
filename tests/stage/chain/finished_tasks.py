# SPDX-License-Identifier: Apache-2.0
"""Redundant tasks and benchmarks that took every course there is, on a chain with one finished job.

Rule: as in finished_job.py. Every task is a real one: its spec, its inputs and what running it
gives are in the store. The courses:

1. two right results; 2. a fake is outvoted and slashed; 3. an honest executor is outvoted by two
who collude, and an appeal puts it right; 4. the same course, and the appeal is frivolous; 5. two
right results, an appeal, a false verdict, an objection that the committee upholds; 6. an appeal
that no verifier answers; 7. an objection that the committee does not decide; 8. three different
results; 9. two who can't have the inputs; 10. silence before committing, and after it;
11. a draw that nobody captures for 257 blocks.

Of the benchmarks one more passes, one fails rightly, one is never answered, and one passes
falsely, which the committee overrules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount

from agents.protocol.formulas import UNAVAILABLE
from agents.storage.cid import digest_of
from agents.tasks.compute.classes import CPU
from agents.tasks.compute.make import publish
from agents.tasks.process import TaskProcess
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from tests.stage.chain.benchmarks import FEW, answer, judge, measure
from tests.stage.chain.finished_job import SPEC, FinishedJob, make_job
from tests.stage.chain.people import TRAINERS, Node
from tests.stage.chain.tasks import (
    DRAWING,
    EMPTY,
    FEE,
    LANE_COMMITTED,
    LANE_RUNNING,
    REVEALING,
    RUN_S,
    RUNNING,
    Tasks,
)
from tests.stage.memory.honest_round import DEVICE
from tests.stage.memory.task_inputs import TaskInputs

TERMS = TaskTerms(max_fee=10 * ZOO, fee_per_s=ZOO // 1_000)
ONE_ROUND: dict[str, Any] = {**SPEC, "rounds": 1, "checkpoint_every": 1}
VERIFIERS = ("vic", "vera", "vito")


@dataclass
class RealTasks(Tasks):
    """Tasks with a spec in the store each. `spec`: of the next task; `specs`: by task."""

    spec: bytes = b""
    specs: dict[int, bytes] = field(default_factory=dict)

    def create(
        self, creator: LocalAccount | None = None, fee: int = FEE, run_s: int = RUN_S
    ) -> int:
        args = (0, self.spec, fee, run_s)
        self.chain.send(creator or self.creator, self.people.tasks, "create_task", *args)
        task = int(self.chain.call(self.people.tasks, "task_count"))
        self.specs[task] = self.spec
        return task

    def digest(self, task: int, node: Node, tag: bytes, /, **changes: Any) -> bytes:
        return super().digest(task, node, tag, **{"spec": self.specs[task], **changes})


@dataclass
class FinishedTasks(FinishedJob):
    """The finished tasks. `courses`: name -> task; `right`: what running any of them gives."""

    courses: dict[str, int] = field(default_factory=dict)
    right: bytes = b""
    spec_cid: str = ""

    @cached_property
    def tasks(self) -> RealTasks:
        people = self.people
        for name in ("dee", "fay", "gus"):
            people.enlist(name, spare=100 * ZOO)
        executors = [people.nodes[name] for name in (*TRAINERS[:3], "dee", "fay", "gus")]
        tasks = RealTasks(people, people.person("creator", 200 * FEE), executors)
        for node in executors:
            tasks.join(node)
        return tasks

    @cached_property
    def inputs(self) -> TaskInputs:
        return TaskInputs.build(self.store)

    def play(self) -> None:
        self.round_(TRAINERS)
        self._publish()
        self._benchmarks()
        self._seats()
        for name in (
            *("agreed", "outvoted", "framed", "frivolous", "objected", "unanswered", "undecided"),
            *("three", "unavailable", "silent", "lost"),
        ):
            self.courses[name] = getattr(self, f"_{name}")()
            self._rest()
        creator = self.tasks.creator
        self.people.chain.send(creator, self.people.tasks, "withdraw_bond")

    def _publish(self) -> None:
        """The task's spec, its inputs and its result."""
        spec = self.inputs.evaluate()
        self.tasks.spec = publish(spec, self.store)
        self.spec_cid = self.store.resolve(self.tasks.spec)
        process = TaskProcess(str(self.store.root), DEVICE)
        try:
            result = process.run(self.tasks.spec, RUN_S, CPU, Path(self.store.root) / "result")
        finally:
            process.close()
        self.right = digest_of(self.store.put_bytes(result.payload))
        assert self.right == result.digest

    def _benchmarks(self) -> None:
        people, eve = self.people, self.people.nodes["eve"]
        measure(people, eve, self.store)
        answer(people, eve, self.store, lambda index: index % 2 == 0, FEW)
        judge(people, eve, False, "vic", "vera")
        people.decide((people.benchmarks, "condemn", (eve.node_id, self._attempt(eve))))
        answer(people, eve, self.store, lambda index: True, FEW)
        judge(people, eve, True, "vito", "vera")
        liars = sorted(people.nodes[name].node_id for name in ("vito", "vera"))
        people.decide(
            (people.benchmarks, "overrule", (eve.node_id, self._attempt(eve), True, liars))
        )
        people.request_benchmark(eve)
        people.chain.warp(8 * 86_400)  # nobody answers; suspensions pass

    def _attempt(self, node: Node) -> int:
        people = self.people
        return int(people.chain.call(people.benchmarks, "benchmark", node.node_id).attempt)

    def _seats(self) -> None:
        """A seat is given up, and another node takes the last one."""
        tasks, dee = self.tasks, self.people.nodes["dee"]
        tasks.leave(dee)
        self.people.chain.mine(261)
        tasks.join(dee)
        vic = self.people.nodes["vic"].operator
        self.people.chain.send(
            vic, self.people.appeals, "declare_classes", self.people.nodes["vic"].node_id, 1
        )

    def _rest(self) -> None:
        """Suspensions pass, who lost stake adds some, and who was found wrong twice makes room."""
        people, tasks = self.people, self.tasks
        people.chain.warp(32 * 86_400)
        for node in list(tasks.executors):
            if people.chain.call(people.registry, "node", node.node_id).strikes > 1:
                tasks.leave(node)  # a third strike would ban it
                fresh = people.enlist(f"after {node.name}", spare=100 * ZOO)
                tasks.executors[tasks.executors.index(node)] = fresh
                tasks.join(fresh)
        for name in (*(node.name for node in self.tasks.executors), *VERIFIERS):
            node = people.nodes[name]
            least = node.stake + 100 * ZOO
            now = int(people.chain.call(people.registry, "bonded", node.node_id))
            if now < least:
                people.give(node.owner, least - now)
                call = ("add_stake", node.node_id, least - now)
                people.chain.send(node.owner, people.registry, *call)
        people.chain.warp(86_400)

    # -- the courses ---------------------------------------------------------------------------

    def fake(self, text: str = "fake") -> bytes:
        """The digest of an invention."""
        return digest_of(self.store.put_bytes(text.encode()))

    def played(self, *answers: bytes) -> tuple[int, list[Node]]:
        """A task whose executors answer so, one by one."""
        task, *nodes = self.tasks.started()
        self._answer(task, {node: answers[lane] for lane, node in enumerate(nodes)})
        for answered in answers[2:]:
            [node] = self.tasks.draw(task)
            nodes.append(node)
            self._answer(task, {node: answered})
        return task, nodes

    def _answer(self, task: int, answers: Mapping[Node, bytes]) -> None:
        self.tasks.answer(task, answers)

    def _agreed(self) -> int:
        return self.played(self.right, self.right)[0]

    def _outvoted(self) -> int:
        task, _ = self.played(self.fake(), self.right, self.right)
        self.tasks.finalize(task)
        return task

    def _framed(self) -> int:
        task, nodes = self.played(self.fake(), self.right, self.fake())
        self.tasks.appeal(task, nodes[1].operator)
        self.tasks.judge(task, self.right, VERIFIERS[:2])
        return task

    def _frivolous(self) -> int:
        task, nodes = self.played(self.fake(), self.right, self.right)
        self.tasks.appeal(task, nodes[0].operator)
        self.tasks.judge(task, self.right, VERIFIERS)
        return task

    def _objected(self) -> int:
        task, nodes = self.played(self.right, self.right)
        self.tasks.appeal(task, self.people.nodes["eve"].operator)
        for name in VERIFIERS[:2]:
            self.tasks.attest(task, self.people.nodes[name], self.fake())
        people = self.people
        people.chain.send(nodes[0].operator, people.appeals, "contest", task)
        people.decide((people.appeals, "resolve", (task, self.right)))
        return task

    def _unanswered(self) -> int:
        task, nodes = self.played(self.fake(), self.right, self.right)
        self.tasks.appeal(task, nodes[0].operator)
        self.tasks.attest(task, self.people.nodes["vic"], self.right)
        return self._lapsed(task)

    def _undecided(self) -> int:
        task, nodes = self.played(self.right, self.right)
        self.tasks.appeal(task, self.people.nodes["eve"].operator)
        for name in VERIFIERS[:2]:
            self.tasks.attest(task, self.people.nodes[name], self.fake())
        self.people.chain.send(nodes[0].operator, self.people.appeals, "contest", task)
        return self._lapsed(task)

    def _lapsed(self, task: int) -> int:
        people = self.people
        people.wait_until(int(people.chain.call(people.appeals, "appeal_of", task).deadline))
        people.chain.send(people.faucet, people.appeals, "lapse", task)
        return task

    def _three(self) -> int:
        return self.played(self.fake(), self.right, self.fake("another"))[0]

    def _unavailable(self) -> int:
        return self.played(UNAVAILABLE, UNAVAILABLE)[0]

    def _silent(self) -> int:
        """One never commits; of the next two one never reveals."""
        tasks = self.tasks
        task, first, _ = tasks.started()
        tasks.commit(task, first, self.right)
        tasks.advance(task)
        [third] = tasks.draw(task)
        tasks.commit(task, third, self.right)
        tasks.reveal(task, first, self.right)
        tasks.advance(task)
        while tasks.status(task) in (DRAWING, RUNNING, REVEALING):
            if tasks.status(task) == DRAWING:
                tasks.draw(task)
            for node, lane in zip(tasks.nodes(task), tasks.state(task).states, strict=True):
                if lane == LANE_RUNNING:
                    tasks.commit(task, node, self.right)
            for node, lane in zip(tasks.nodes(task), tasks.state(task).states, strict=True):
                if lane == LANE_COMMITTED:
                    tasks.reveal(task, node, self.right)
        return task

    def _lost(self) -> int:
        tasks = self.tasks
        task = tasks.create()
        self.people.chain.mine(258)
        self.people.chain.send(self.people.faucet, self.people.tasks, "draw", task)
        self._answer(task, dict.fromkeys(tasks.draw(task), self.right))
        return task


def make_finished_tasks(directory: Path, supervisor: Supervisor) -> FinishedTasks:
    """A chain with the whole system, the job and the tasks played to their ends."""
    finished = make_job(FinishedTasks, directory, supervisor, ONE_ROUND, TERMS)
    finished.play()
    return finished


__all__ = ["EMPTY", "FinishedTasks", "make_finished_tasks"]
