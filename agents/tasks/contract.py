# SPDX-License-Identifier: Apache-2.0
"""RedundantTasks and TaskAppeals as Python sees them, and the digests that executors send.

Rule: everything is read from the chain when it is asked for; only the terms, which are fixed for
good, and the classes, which are only ever added to, are kept. Tags and commitments are computed
here and not by the contract's views, because the operator of the RPC node would otherwise learn a
result before it is revealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from agents.protocol import formulas
from agents.protocol.network import ChainMoved, Network
from agents.protocol.numbers import (
    MAX_NODES,
    MIN_VOICES,
    ZERO_DIGEST,
    LaneState,
    Role,
    TaskStatus,
)
from agents.protocol.structs import read
from agents.tasks.compute.classes import class_label

_EVER = 2**256 - 1
_BATCH = 128  # calls in one request
_EVENT_BLOCKS = 2_000  # looked through at a time


@dataclass(frozen=True)
class TaskTerms:
    """What holds for all tasks, fixed at the deployment.

    Attributes:
        task_stake: stake at risk that an executor needs; like all amounts, in 1e-18 ZOO.
        max_fee: of a task. `fee_per_s`: least fee for each second of run_s, and what is kept of it
            when two executors agree that the inputs can't be had.
        max_run_s, reveal_s, appeal_s, verdict_s: windows, in seconds.
        appeal_bond: what an appeal costs if it fails.
        draw_s: from its creation on, in which a task finds its executors.
        dispute_s: what the committee has to decide on an objection to a verdict.
    """

    task_stake: int
    max_fee: int
    fee_per_s: int
    max_run_s: int
    reveal_s: int
    appeal_s: int
    verdict_s: int
    appeal_bond: int
    draw_s: int
    dispute_s: int


@dataclass(frozen=True)
class Seat:
    """A node's place in a pool. `open`: lanes it answers for. `left`: block at which it left its
    last seat. `at_risk`: its pay that may still turn out to be for a fake, 1e-18 ZOO."""

    seated: bool
    class_id: int
    seat: int
    open: int
    left: int
    at_risk: int


@dataclass(frozen=True)
class Appeal:
    """The appeal against a task. `status`: of the task before. `deadline`: 0 once it is over.

    `result`: the verdict, then the last word; zero without one. `objector`: who contested the
    verdict, zero when nobody did.
    """

    appellant: str
    status: TaskStatus
    decided_at: int
    deadline: int
    result: bytes
    overturned: bool
    objector: str

    @property
    def voting(self) -> bool:
        """Whether verifiers are still asked."""
        return self.deadline != 0 and self.result == ZERO_DIGEST

    @property
    def contested(self) -> bool:
        """Whether the committee is asked."""
        return self.deadline != 0 and int(self.objector, 16) != 0

    @property
    def standing(self) -> bool:
        """Whether there is a verdict that nobody has contested and nobody carried out."""
        return self.deadline != 0 and not self.voting and not self.contested


@dataclass(frozen=True)
class Task:
    """A task as the chain has it.

    Attributes:
        spec: digest of the spec's CID.
        fee: in 1e-18 ZOO.
        run_s: seconds from the draw until an executor must have committed.
        time: when the draw was requested while DRAWING, else the stage's deadline; chain seconds.
        seed_block: block that the newest draw is pinned to.
        draw_until: when the task ends unless enough executors are free; 0 unless DRAWING.
        nodes, states, answers: by lane. An answer is the commitment, then the tag, and the result
            itself in the lane that is OPENED.
        wanted: executors to be drawn while DRAWING.
    """

    task_id: int
    status: TaskStatus
    creator: str
    class_id: int
    spec: bytes
    fee: int
    run_s: int
    time: int
    seed_block: int
    draw_until: int
    nodes: tuple[int, ...]
    states: tuple[LaneState, ...]
    answers: tuple[bytes, ...]
    wanted: int

    def lane_of(self, node_id: int) -> int | None:
        """The lane of a node, None if it has none."""
        return self.nodes.index(node_id) if node_id in self.nodes else None

    def state_of(self, node_id: int) -> LaneState:
        """The state of a node's lane, NONE if it has none."""
        lane = self.lane_of(node_id)
        return LaneState.NONE if lane is None else self.states[lane]

    @property
    def result(self) -> bytes | None:
        """The result that two executors agreed on, if two did."""
        for state, answer in zip(self.states, self.answers, strict=True):
            if state == LaneState.OPENED:
                return answer
        return None

    def revealed(self) -> list[bytes]:
        """The tags of the lanes that revealed and agreed with nobody."""
        pairs = zip(self.states, self.answers, strict=True)
        return [answer for state, answer in pairs if state == LaneState.REVEALED]

    def appealable(self, now: int) -> bool:
        """Whether RedundantTasks takes an appeal at chain time `now`."""
        return now <= self.time and open_to_appeal(self.status, self.states)

    def settled(self, now: int) -> bool:
        """Whether no transaction can change the task any more, at chain time `now`."""
        if self.status in (TaskStatus.AGREED, TaskStatus.UNDECIDED):
            return now > self.time
        return self.status in (TaskStatus.NONE, TaskStatus.CLOSED)


def open_to_appeal(status: TaskStatus, lanes: Iterable[LaneState]) -> bool:
    """Whether a task's outcome may be appealed until its deadline: somebody revealed a result."""
    if status == TaskStatus.UNDECIDED:
        return LaneState.REVEALED in lanes
    return status in (TaskStatus.AGREED, TaskStatus.DECIDED)


@dataclass(frozen=True)
class Decision:
    """The verifiers asked about an appealed task, with their stakes, in the snapshot's order."""

    verifiers: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Recheckers:
    """Who could find a fake among the tasks of one class, and have it slashed.

    Attributes:
        able: verifiers that may work, have a voice, and declare the class.
        voters: verifiers with a voice, whatever their class.
        weight, total: what the two weigh in a verdict, in 1e-18 ZOO.
    """

    able: tuple[int, ...]
    voters: int
    weight: int
    total: int

    @property
    def can_judge(self) -> bool:
        """Whether those who are able give a verdict on their own, as `TaskAppeals.attest` counts:
        an appeal without a verdict slashes nobody, however many know the right result."""
        return len(self.able) >= MIN_VOICES and 3 * self.weight >= 2 * self.total

    @property
    def count(self) -> int:
        """How many samples of the class's tasks end in a penalty: none without a verdict."""
        return len(self.able) if self.can_judge else 0


class Tasks:
    """Typed reads of both contracts."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._chain = network.chain
        self._contract = network.tasks
        self._terms: TaskTerms | None = None
        self._classes: dict[str, int] = {}

    # -- tasks ---------------------------------------------------------------------------------

    def count(self) -> int:
        """Number of tasks; ids run from 1 to this."""
        return read(int, self._call("task_count"))

    def task(self, task_id: int) -> Task:
        """A task; its status is NONE if there is no such task."""
        return self.many([task_id])[0]

    def many(self, task_ids: Sequence[int]) -> list[Task]:
        """Several tasks, in order."""
        found = self._each("task", task_ids)
        return [read(Task, raw, task_id=n) for n, raw in zip(task_ids, found, strict=True)]

    def expected(self, task_id: int) -> list[int]:
        """The executors that a draw would take in the next block, by ascending lane from the first
        empty one; [] while that is unknown."""
        return self.expected_many([task_id])[task_id]

    def expected_many(self, task_ids: Sequence[int]) -> dict[int, list[int]]:
        """`expected` of several tasks, by id."""
        found = self._each("expected", task_ids, block="pending")
        return dict(zip(task_ids, found, strict=True))

    def terms(self) -> TaskTerms:
        """Stakes, fees and windows."""
        if self._terms is None:
            self._terms = read(TaskTerms, self._call("terms"))
        return self._terms

    # -- executors -----------------------------------------------------------------------------

    def class_ids(self) -> dict[str, int]:
        """Id of each determinism class by its label; names that are no label are left out."""
        names = self._call("classes")
        labels = {}
        for number, name in enumerate(names):
            try:
                labels[class_label(name)] = number
            except ValueError:
                continue
        self._classes = labels
        return dict(labels)

    def class_id(self, label: str) -> int | None:
        """The id of a class by its label, None if it has no pool."""
        known = self._classes if label in self._classes else self.class_ids()
        return known.get(label)

    def label(self, class_id: int) -> str | None:
        """The label of a class, None if its name is none."""
        if class_id not in self._classes.values():
            self.class_ids()
        return next((label for label, n in self._classes.items() if n == class_id), None)

    def seat(self, node_id: int) -> Seat:
        """The seat of a node, or its last one."""
        return read(Seat, self._call("executor", node_id))

    def has_seats(self) -> bool:
        """Whether any pool has a seat."""
        classes = len(self._call("classes"))
        calls = [(self._contract, "pool_size", (n,)) for n in range(classes)]
        return any(self._chain.call_many(calls))

    def stakes(self, nodes: Sequence[int], now: int) -> list[int]:
        """What each node has at stake at chain time `now`, 1e-18 ZOO; 0 for one that is suspended
        or on its way out of the registry."""
        registry = self._network.registry
        calls = [(registry, "stake_at_risk", (node, now, _EVER)) for node in nodes]
        return self._chain.call_many(calls)

    def stay(self, nodes: Sequence[int], now: int) -> list[bool]:
        """Whether each node has the stake that a seat needs at chain time `now`."""
        return [stake >= self.terms().task_stake for stake in self.stakes(nodes, now)]

    # -- digests -------------------------------------------------------------------------------

    def tag(self, task_id: int, result: bytes) -> bytes:
        """What is committed to and revealed instead of the result."""
        return formulas.task_tag(*self._where, task_id, result)

    def inputs(self, task: Task) -> bytes:
        """Digest of all that a task's tag depends on besides the result, and that the result
        depends on: 32 bytes that tell tasks of one number apart, on forks and in deployments."""
        kinds = ["uint256", "address", "uint256", "bytes32", "uint256", "uint256"]
        values = [*self._where, task.task_id, task.spec, task.run_s, task.class_id]
        return keccak(encode(kinds, values))

    def commitment(self, task: Task, node_id: int, operator: str, tag: bytes, salt: bytes) -> bytes:
        """The commitment of an executor to the result behind `tag`."""
        place, parts = (task.task_id, node_id), (task.spec, tag, salt)
        return formulas.task_commitment(*self._where, place, operator, parts)

    @property
    def _where(self) -> tuple[int, str]:
        return self._network.deployment.chain_id, self._contract.address

    # -- appeals -------------------------------------------------------------------------------

    def appeal(self, task_id: int) -> Appeal:
        """The appeal against a task; all zero when there was none."""
        return read(Appeal, self._chain.call(self._network.appeals, "appeal_of", task_id))

    def has_attested(self, task_id: int, place: int) -> bool:
        """Whether the verifier at a place of the snapshot has spoken."""
        return read(bool, self._chain.call(self._network.appeals, "has_attested", task_id, place))

    def decision(self, task_id: int) -> Decision:
        """Who was asked about an appealed task. Raises ChainMoved if the request is gone."""
        last, first = self._chain.head().number, self._network.deployment.block
        while last >= first:
            begin = max(first, last - _EVENT_BLOCKS + 1)
            events = self._chain.events(
                self._network.appeals, "VerdictRequested", begin, last, {"task_id": task_id}
            )
            if events:
                args = events[-1].args
                return Decision(tuple(args["verifiers"]), tuple(args["weights"]))
            last = begin - 1
        raise ChainMoved(f"The request for a verdict on task {task_id} is gone.")

    def appealed(self, first: int, last: int) -> set[int]:
        """Ids of the tasks that were appealed in a range of blocks."""
        events = self._chain.events(self._network.appeals, "TaskAppealed", first, last)
        return {event.args["task_id"] for event in events}

    def drawn(self, node_id: int, first: int, last: int) -> set[int]:
        """Ids of the tasks that a node was drawn for in a range of blocks."""
        where = {"node_id": node_id}
        events = self._chain.events(self._contract, "ExecutorDrawn", first, last, where)
        return {event.args["task_id"] for event in events}

    # -- verifiers -----------------------------------------------------------------------------

    def declared(self, node_id: int) -> int:
        """The classes that a node says it runs again, one bit each, the lowest for class 0."""
        return read(int, self._chain.call(self._network.appeals, "declared_classes", node_id))

    def recheckers(self) -> list[Recheckers]:
        """By class id: who could find a fake in a task that is created now.

        A declaration is its node's word (`TaskAppeals.declare_classes`).
        """
        registry, appeals, now = self._network.registry, self._network.appeals, self._chain.head()
        maturity = self._chain.call(registry, "maturity")
        (voters, weights), (working, _), names = self._chain.call_many(
            [
                (registry, "voters", (max(0, now.timestamp - maturity),)),
                (registry, "eligible_nodes", (int(Role.VERIFIER), 0, MAX_NODES)),
                (self._contract, "classes", ()),
            ]
        )
        said = self._chain.call_many([(appeals, "declared_classes", (n,)) for n in voters])
        asked = [
            (node, weight, classes)
            for node, weight, classes in zip(voters, weights, said, strict=True)
            if node in working
        ]
        found = []
        for class_id in range(len(names)):
            able = {node: weight for node, weight, bits in asked if bits >> class_id & 1}
            voice = Recheckers(tuple(able), len(voters), sum(able.values()), sum(weights))
            found.append(voice)
        return found

    # -- inside --------------------------------------------------------------------------------

    def _call(self, function: str, *args: Any) -> Any:
        return self._chain.call(self._contract, function, *args)

    def _each(self, function: str, task_ids: Sequence[int], block: str = "latest") -> list[Any]:
        answers: list[Any] = []
        for first in range(0, len(task_ids), _BATCH):
            calls = [(self._contract, function, (n,)) for n in task_ids[first : first + _BATCH]]
            answers += self._chain.call_many(calls, block=block)
        return answers
