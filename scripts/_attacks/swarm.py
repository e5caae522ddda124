# SPDX-License-Identifier: Apache-2.0
"""A job's nodes in memory, some of them dishonest: real training, payloads, merges and scores.

Rule: what pays a round is the job's own functions. Nodes train the job's model on its batches,
payloads are encoded, decoded and remembered by its codec, the merged update goes into the next
model. Only chain and store traffic are left out. A strategy sees all that is public before the
round's commitments: the model, the payloads and merged updates of all earlier rounds, the plan,
every node's data.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import torch

from agents.jobs.job import JobContext
from agents.jobs.outer_step import stepped
from agents.jobs.publish import publish_job
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Ranges, assign, next_carry, unassigned, work_order
from agents.training.data import DataSource
from agents.training.documents import stdlib_corpus
from agents.training.norms import norm
from agents.training.replay import run_task
from agents.training.state import State, load_state, model_hash

DEVICE = "cpu"
_CORPUS_BYTES = 1 << 18
_STATE_BYTES = 1 << 22


@dataclass
class Swarm(ABC):
    """A job, its nodes, and what happened so far.

    Attributes:
        history: merged updates, newest first.
        payloads: of each round by node, decoded, newest first.
        pay: of each node, in rounds' pots.
    """

    job: JobContext
    strategies: Mapping[int, Strategy]
    seed: int
    state: State
    number: int = 0
    carry: Ranges = ()
    cursor: int = 0
    memories: dict[int, State | None] = field(default_factory=dict)
    history: list[State] = field(default_factory=list)
    payloads: list[Mapping[int, State]] = field(default_factory=list)
    pay: dict[int, float] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        store: EmbeddedStore,
        strategies: Mapping[int, Strategy],
        seed: int = 0,
        **fields: Any,
    ) -> Self:
        """Before the first round. `fields`: of the spec."""
        published = publish_job(store, _corpus(), fields)
        job = JobContext(published.spec, store)
        state = load_state(store.get(published.checkpoint_cid, _STATE_BYTES), job.kept_shapes())
        return cls(job, strategies, seed, state, pay=dict.fromkeys(strategies, 0.0))

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted(self.strategies))

    def word(self, what: str) -> bytes:
        """A seed of this round for something, 32 bytes."""
        return hashlib.sha256(f"{what} {self.seed} {self.number}".encode()).digest()

    def plan(self) -> Plan:
        """The round's plan; all nodes weigh alike."""
        weights = (10,) * len(self.nodes)
        manifest = assign(
            self.word("round"), self.nodes, weights, self.job.spec, self.carry, self.cursor
        )
        return Plan(manifest, self.number, self.carry, self.cursor)

    def sent(self, plan: Plan) -> dict[int, State]:
        """The decoded payloads of the round."""
        turn = Turn(self, plan)
        found = {}
        for node in self.nodes:
            update = self.strategies[node](turn, node)
            seed, memory = plan.codec_seed(self.job.codec, node), self.memories.get(node)
            payload = self.job.codec.encode(update, memory, seed)
            found[node] = self.job.codec.decode(payload, self.job.shapes, seed)
            self.memories[node] = self.job.codec.remember(update, memory, found[node])
        return found

    def round(self) -> None:
        """Train, score, pay, merge."""
        plan = self.plan()
        sent = self.sent(plan)
        shares, merged = self.settled(plan, sent)
        total = sum(shares.values())
        for node in self.nodes:
            self.pay[node] += shares.get(node, 0) / total if total else 0.0
        self.history.insert(0, merged)
        self.payloads.insert(0, sent)
        rate = self.job.spec.outer_lr_at(self.number)
        self.state = stepped(self.job.spec, self.state, merged, rate)
        self.carry, self.cursor = next_carry(plan.manifest, self.nodes)
        self.number += 1

    @abstractmethod
    def settled(self, plan: Plan, sent: Mapping[int, State]) -> tuple[Mapping[int, int], State]:
        """Who shares the round's pot in which proportion, and the merged update."""


def seeded(fields: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The fields of a spec whose first model is drawn, and whose text is ordered, by a seed."""
    model = {**fields.get("model", {}), "init_seed": seed}
    return {**fields, "model": model, "data_seed": seed}


@cache
def _corpus() -> tuple[bytes, ...]:
    """The text that every swarm trains on. Finding it takes as long as a round of training."""
    return tuple(stdlib_corpus(_CORPUS_BYTES))


@dataclass
class Turn:
    """What a strategy may use: all that is public, and training for as long as it likes."""

    swarm: Swarm
    plan: Plan
    trained: dict[tuple[int, float], State] = field(default_factory=dict)

    def gradient(self, node: int, work: float = 1.0) -> State:
        """The update of training on `work` of the node's batches; above 1 on its extra ones too."""
        if (node, work) not in self.trained:
            swarm, job = self.swarm, self.swarm.job
            manifest = self.plan.manifest
            model = model_hash(swarm.state)
            task = work_order(manifest, node, job.spec, 1, swarm.number, model)
            batches = task.batches()
            count = round(work * len(batches))
            if count <= len(batches):
                ranges: Ranges = tuple((index, index + 1) for index in batches[:count])
            else:
                more = unassigned(manifest, node, count - len(batches))
                ranges = (*more, *task.batch_ranges)
            order = replace(task, batch_ranges=ranges)
            result = run_task(job.net(DEVICE), order, swarm.state, job.data)
            self.trained[node, work] = result.pseudo_gradient
        return self.trained[node, work]

    def skimmed(self, node: int, part: float, apart: bool = False) -> State:
        """The update of training on a `part` of every sequence of the node's batches: the first,
        or with `apart` another one of each sequence."""
        swarm = self.swarm
        model = model_hash(swarm.state)
        task = work_order(self.plan.manifest, node, swarm.job.spec, 1, swarm.number, model)
        data = Skimmed(swarm.job.data, part, apart)
        return run_task(swarm.job.net(DEVICE), task, swarm.state, data).pseudo_gradient

    def past(self, decay: float = 0.8, rounds: int = 8, skip: int = 0) -> State | None:
        """The decayed mean of the published updates; None before the first."""
        return combined(
            [(decay**i, update) for i, update in enumerate(self.swarm.history[skip:][:rounds])]
        )


@dataclass(frozen=True)
class Skimmed:
    """The batches of `data`, of every sequence the first part only; with `apart` another part of
    each, one after the other."""

    data: DataSource
    part: float
    apart: bool = False

    def batch(self, index: int) -> torch.Tensor:
        whole = self.data.batch(index)
        rows, tokens = len(whole), whole.shape[1] - 1
        length = max(1, round(self.part * tokens))
        places = tokens // length if self.apart else 1
        first = [(rows * index + row) % places * length for row in range(rows)]
        return torch.stack(
            [row[at : at + length + 1] for row, at in zip(whole, first, strict=True)]
        )


# What a node sends in a round.
Strategy = Callable[[Turn, int], State]


def combined(parts: Sequence[tuple[float, State]]) -> State | None:
    """The sum of weighted states, None of none."""
    if not parts:
        return None
    return {name: sum(w * s[name] for w, s in parts) for name in sorted(parts[0][1])}


def unit(update: State) -> State:
    """`update` at an L2 norm of 1."""
    length = norm(update) or 1.0
    return {name: tensor / length for name, tensor in update.items()}
