# SPDX-License-Identifier: Apache-2.0
"""A pool of executors, verifiers, a creator, and what they do with redundant tasks.

Tags, commitments, seeds and draws are computed from their definition, never by asking the contract.
`moves` compares every book of the system before and after a call: whoever is not named in what it
gives has neither won nor lost a unit, and nothing was made or lost in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boa
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import block, hash_of, mine
from tests.stage.contracts.events import Event
from tests.stage.contracts.system import (
    EMPTY,
    STAKE,
    TASK_TERMS,
    TRAINER,
    VERIFIER,
    ZOO,
    Player,
    System,
    events_of,
)

COMMIT_DOMAIN = keccak(text="menagerie.RedundantTasks.commit.v1")
TAG_DOMAIN = keccak(text="menagerie.RedundantTasks.tag.v1")

# Status of a task.
NONE, DRAWING, RUNNING, REVEALING, AGREED, DECIDED, UNDECIDED, APPEALED, CLOSED = range(9)
# States of a lane.
LANE_RUNNING, LANE_COMMITTED, LANE_REVEALED, LANE_ABORTED, LANE_AGREED, LANE_OPENED = range(1, 7)
# Rows of the slashing table.
REDUNDANCY_MISMATCH, ABORT, COLLUSION = 7, 8, 9

MAX_TRIES, MAX_OPEN, MAX_LANES, COOLDOWN = 64, 2, 5, 260
# Stake that a draw asks for, in multiples of the pay at risk, and how often appealed pay counts.
COVER, APPEAL_WEIGHT = 2, 10
LIFETIME = 256

RUN_S = 600
# Odd, so that halves differ by one unit.
FEE = 2 * ZOO + 1
HALF, REST = FEE // 2, FEE - FEE // 2
BOND = TASK_TERMS["appeal_bond"]
# What the lanes of a task cost whose inputs nobody could get.
RENT = RUN_S * TASK_TERMS["fee_per_s"]
DRAW_S, REVEAL_S, APPEAL_S, VERDICT_S, DISPUTE_S = (
    TASK_TERMS[f"{name}_s"] for name in ("draw", "reveal", "appeal", "verdict", "dispute")
)
# What a verifier of STAKE weighs: twice the minimum.
VOICE = 200 * ZOO
# What an objection to a verdict has.
OBJECTION_S = APPEAL_S
FUNDS = 1_000 * ZOO

CPU, CUDA = 0, 1
SPEC = keccak(text="spec")
RIGHT, WRONG, OTHER = (keccak(text=f"result {name}") for name in ("right", "wrong", "other"))


@dataclass(frozen=True)
class Silent:
    """What an executor does that does not answer: never commits, or commits and never reveals."""

    result: bytes | None


NO_COMMIT = Silent(None)
NO_REVEAL = Silent(RIGHT)
Answer = bytes | Silent
# (book, whose) to units: "wallet", "tasks" and "appeals" (credits), "bounty", "stake", and "open"
# for what RedundantTasks and TaskAppeals hold for nobody yet.
Books = dict[tuple[str, str], int]


def slashed(bps: int, stake: int = STAKE) -> int:
    """What a row takes of a stake, rounded up."""
    return -(-stake * bps // 10_000)


def lot(seed: bytes, seats: Sequence[tuple[int, str] | None], barred: set[str], wanted: int) -> Any:
    """The node ids that a seed draws from seats of (node id, owner), None for one not in the draw.
    Owners in `barred` are passed over, and whoever was picked bars its owner."""
    picked: list[int] = []
    gone = set(barred)
    for attempt in range(MAX_TRIES):
        number = int.from_bytes(keccak(encode(["bytes32", "uint256"], [seed, attempt])), "big")
        seat = seats[number % len(seats)]
        if seat is None or seat[1] in gone:
            continue
        picked.append(seat[0])
        if len(picked) == wanted:
            break
        gone.add(seat[1])
    return picked


@dataclass
class TaskStage:
    """Executors seated in the CPU class, verifiers, and money for all."""

    system: System
    nodes: list[Player]
    verifiers: list[Player]
    creator: str
    appellant: str
    stranger: str
    snapshots: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    @property
    def tasks(self) -> Any:
        return self.system.tasks

    @property
    def appeals(self) -> Any:
        return self.system.appeals

    @property
    def registry(self) -> Any:
        return self.system.registry

    @property
    def owner(self) -> str:
        """The Coordinator, which owns the contracts and is the treasury."""
        return str(self.system.coordinator.address)

    # Definitions

    def tag(self, task_id: int, result: bytes) -> bytes:
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "bytes32"],
                [TAG_DOMAIN, boa.env.evm.patch.chain_id, self.tasks.address, task_id, result],
            )
        )

    def digest(
        self,
        task_id: int,
        player: Player,
        tag: bytes,
        salt: bytes,
        spec: bytes = SPEC,
        operator: str | None = None,
    ) -> bytes:
        """The commitment."""
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "uint256", "address"]
                + ["bytes32"] * 3,
                [
                    COMMIT_DOMAIN,
                    boa.env.evm.patch.chain_id,
                    self.tasks.address,
                    task_id,
                    player.node_id,
                    operator or player.operator,
                    spec,
                    tag,
                    salt,
                ],
            )
        )

    def seed(self, task_id: int, target: int) -> bytes:
        """The seed of a task's draw that is pinned to block `target`."""
        return keccak(
            encode(
                ["bytes32", "uint256", "uint256", "address"],
                [hash_of(target), task_id, boa.env.evm.patch.chain_id, self.tasks.address],
            )
        )

    @staticmethod
    def salt(task_id: int, lane: int) -> bytes:
        return keccak(text=f"salt {task_id} {lane}")

    # Reading

    def state(self, task_id: int) -> Any:
        return self.tasks.task(task_id)

    def status(self, task_id: int) -> int:
        return int(self.state(task_id).status)

    def player(self, node_id: int) -> Player:
        return next(p for p in (*self.nodes, *self.verifiers) if p.node_id == node_id)

    def runners(self, task_id: int) -> list[Player]:
        """The executors by lane."""
        return [self.player(node_id) for node_id in self.state(task_id).nodes]

    def open_lanes(self, player: Player) -> int:
        return int(self.tasks.executor(player.node_id).open)

    # Executors' pools

    def seat(self, name: str, stake: int = STAKE, owner: str | None = None) -> Player:
        """Another node, registered and seated in the CPU class."""
        player = self.system.join(name, TRAINER, stake, owner)
        self.tasks.join(player.node_id, CPU, sender=player.operator)
        self.nodes.append(player)
        return player

    # A task

    def create(
        self,
        fee: int = FEE,
        run_s: int = RUN_S,
        class_id: int = CPU,
        spec: bytes = SPEC,
        creator: str | None = None,
    ) -> int:
        return int(
            self.tasks.create_task(class_id, spec, fee, run_s, sender=creator or self.creator)
        )

    def to_draw(self, task_id: int, late: int = 0) -> None:
        """To the first block in which the draw may be captured, or `late` blocks after it."""
        mine(max(0, self.state(task_id).seed_block + 1 + late - block()))

    def draw(self, task_id: int, sender: str | None = None) -> list[Player]:
        """As soon as it is due; returns all executors by lane."""
        self.to_draw(task_id)
        self.tasks.draw(task_id, sender=sender or self.stranger)
        return self.runners(task_id)

    def started(self, **terms: Any) -> int:
        """A new task whose two executors are drawn."""
        task_id = self.create(**terms)
        self.draw(task_id)
        return task_id

    def commit(self, task_id: int, lane: int, result: bytes, spec: bytes = SPEC) -> None:
        player = self.runners(task_id)[lane]
        tag, salt = self.tag(task_id, result), self.salt(task_id, lane)
        self.tasks.commit(
            task_id, lane, self.digest(task_id, player, tag, salt, spec), sender=player.operator
        )

    def reveal(self, task_id: int, lane: int, result: bytes, sender: str | None = None) -> None:
        """Shows the result only where another lane revealed the same tag."""
        state = self.state(task_id)
        tag = self.tag(task_id, result)
        shown = (LANE_REVEALED, tag) in zip(state.states, state.answers, strict=True)
        self.tasks.reveal(
            task_id,
            lane,
            tag,
            result if shown else EMPTY,
            self.salt(task_id, lane),
            sender=sender or self.player(state.nodes[lane]).operator,
        )

    def commit_all(self, task_id: int, results: Mapping[int, bytes]) -> None:
        for lane, result in results.items():
            self.commit(task_id, lane, result)

    def reveal_all(self, task_id: int, results: Mapping[int, bytes]) -> None:
        for lane, result in results.items():
            self.reveal(task_id, lane, result)

    def wait_out(self, task_id: int) -> None:
        """One second past the task's deadline."""
        mine(1, max(0, self.state(task_id).time + 1 - boa.env.timestamp))

    def step(self, task_id: int, answers: Sequence[Answer]) -> None:
        """Takes a task through the stage it is in: lane i answers `answers[i]`."""
        state = self.state(task_id)
        if state.status == DRAWING:
            self.draw(task_id)
            return
        committing = state.status == RUNNING
        for lane, at in enumerate(state.states):
            answer = answers[lane]
            if committing and at == LANE_RUNNING:
                result = answer.result if isinstance(answer, Silent) else answer
                if result is not None:
                    self.commit(task_id, lane, result)
            if not committing and at == LANE_COMMITTED and isinstance(answer, bytes):
                self.reveal(task_id, lane, answer)
        if self.status(task_id) == state.status:
            self.wait_out(task_id)
            self.tasks.advance(task_id, sender=self.stranger)

    def play(self, *answers: Answer, task_id: int | None = None) -> int:
        """Takes a task, a new one unless given, as far as executors can: to AGREED, DECIDED or
        UNDECIDED. Lane i answers `answers[i]`."""
        number = self.create() if task_id is None else task_id
        while self.status(number) in (DRAWING, RUNNING, REVEALING):
            self.step(number, answers)
        return number

    def finalize(self, task_id: int) -> None:
        """When the appeal window is over."""
        self.wait_out(task_id)
        self.tasks.finalize(task_id, sender=self.stranger)

    # An appeal

    def appeal(self, task_id: int, sender: str | None = None) -> None:
        """Keeps the snapshot that the event told."""
        self.appeals.appeal(task_id, sender=sender or self.appellant)
        (asked,) = (f for name, f in events_of(self.appeals) if name == "VerdictRequested")
        self.snapshots[task_id] = list(asked["verifiers"]), list(asked["weights"])

    def attest(
        self, task_id: int, verifier: Player, result: bytes, sender: str | None = None
    ) -> None:
        verifiers, weights = self.snapshots[task_id]
        self.appeals.attest(
            task_id,
            verifiers.index(verifier.node_id),
            verifiers,
            weights,
            result,
            sender=sender or verifier.operator,
        )

    def vote(self, task_id: int, result: bytes) -> None:
        """Verifiers attest in order until there is a verdict."""
        for verifier in self.verifiers:
            self.attest(task_id, verifier, result)
            if self.appeals.appeal_of(task_id).result == result:
                return
        raise AssertionError("no verdict")

    def expire(self, task_id: int) -> None:
        """One second past the deadline of the appeal's stage."""
        mine(1, max(0, self.appeals.appeal_of(task_id).deadline + 1 - boa.env.timestamp))

    def carry_out(self, task_id: int) -> None:
        """Nobody objects to the verdict, and it is carried out."""
        self.expire(task_id)
        self.appeals.finalize(task_id, sender=self.stranger)

    def judge(self, task_id: int, result: bytes) -> None:
        """Verifiers agree, nobody objects, and the appeal is over."""
        self.vote(task_id, result)
        self.carry_out(task_id)

    # Money

    def books(self) -> Books:
        """Every book that a task may change."""
        token, tasks, appeals = self.system.token, self.tasks, self.appeals
        accounts = {
            "creator": self.creator,
            "appellant": self.appellant,
            "stranger": self.stranger,
            "treasury": self.owner,
        } | {p.name: p.payout for p in (*self.nodes, *self.verifiers)}
        books: Books = {}
        for name, account in accounts.items():
            books["wallet", name] = token.balanceOf(account)
            books["tasks", name] = tasks.bond_credit(account)
            books["appeals", name] = appeals.bond_credit(account)
            books["bounty", name] = self.registry.bounty(account)
        for player in (*self.nodes, *self.verifiers):
            books["stake", player.name] = self.registry.bonded(player.node_id)
        for name, contract in (("tasks", tasks), ("appeals", appeals)):
            held = contract.bonds_held()
            assert token.balanceOf(contract.address) == held, f"{name} holds what it does not owe"
            credits = sum(units for (book, _), units in books.items() if book == name)
            books["open", name] = held - credits
        registry = self.registry
        assert (
            token.balanceOf(registry.address) == registry.total_stake() + registry.total_bounties()
        )
        return books

    @contextmanager
    def moves(self) -> Iterator[Books]:
        """What changed in every book, once the block is over; all of it sums to zero."""
        changes: Books = {}
        before = self.books()
        yield changes
        after = self.books()
        changes |= {key: after[key] - before[key] for key in after if after[key] != before[key]}
        assert sum(changes.values()) == 0, changes

    def effects(self, contract: Any, act: Callable[[], Any]) -> tuple[Books, list[Event]]:
        """What `act` moves, as `moves` says it, and the events that `contract` emits meanwhile."""
        with self.moves() as moved:
            act()
            events = events_of(contract)
        return moved, events


def make_tasks(
    system: System, nodes: int = 5, stakes: Sequence[int] = (STAKE,) * 3, stake: int = STAKE
) -> TaskStage:
    """`nodes` executors of equal stake with different owners in the CPU class, from before this
    block on, and verifiers of these stakes."""
    stage = TaskStage(
        system=system,
        nodes=[],
        verifiers=[system.join(f"verifier {i}", VERIFIER, s) for i, s in enumerate(stakes)],
        creator=system.person("creator", FUNDS),
        appellant=system.person("appellant", FUNDS),
        stranger=system.person("stranger"),
    )
    for i in range(nodes):
        stage.seat(f"node {i}", stake)
    # From now on the verifiers' stake is old enough to vote on a new task.
    mine(1, int(system.registry.maturity()) + 8)
    return stage
