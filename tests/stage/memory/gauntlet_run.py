# SPDX-License-Identifier: Apache-2.0
"""Rounds of a free job in memory: real trainers, some of them dishonest, and one validator.

Rule: payloads are encoded and decoded as on the wire, error feedback included; the merge is the
job's over whoever may be merged. Only chain and store traffic are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch

from agents.gauntlet.draw import round_seed
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import follow, scores_of
from agents.jobs.combinations import pay
from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Ranges, assign, next_carry, work_order
from agents.training.documents import stdlib_corpus
from agents.training.replay import run_task
from agents.training.state import State, apply_outer, load_state, model_hash
from tests.stage.memory.tiny_specs import GAUNTLET, tiny_model

DEVICE = "cpu"
# Agents refuse this one: see `allowed`.
LOCAL_STEPS: dict[str, Any] = {
    "codec": "sparse",
    "merge": "norm_clip",
    "optimizer": {"batch_size": 4, "seq_len": 32, "lr": 4e-3},
}
SPEC: dict[str, Any] = {
    "model": tiny_model(32, 64, 32),
    **GAUNTLET,
    "codec_options": {},
    "score_options": {"evaluated": 16, "eval_batches": 6, "runs": 1},
    "optimizer": {"batch_size": 4, "seq_len": 32, "inner": "gradient", "outer_lr": 2e-3},
    "batches_per_round": 36,
    "eval_batches": 4,
    "rounds": 40,
    "audit_sample": 0,
}


@contextmanager
def allowed() -> Iterator[None]:
    """Jobs made in here may be scored by the gauntlet whatever their payloads show and whatever
    they pay by: what the refused ones would pay is measured here, and everything that reads a
    payload works on them."""
    with (
        patch.object(pay, "showing", lambda *_: []),
        patch.object(pay, "saying_little", lambda *_: []),
        patch.object(pay, "paying", lambda *_: []),
    ):
        yield


# What a node sends in place of its update: (round, everybody's honest updates by node) -> update.
Cheat = Callable[[int, Mapping[int, State]], State]


@dataclass
class FreeRun:
    """A job after some rounds. `honest` nodes train on their data; `cheats` send something else."""

    job: JobContext
    honest: tuple[int, ...]
    cheats: Mapping[int, Cheat]
    state: State
    number: int = 0
    carry: Ranges = ()
    cursor: int = 0
    record: ScoreRecord | None = None
    memories: dict[int, State | None] = field(default_factory=dict)
    history: list[State] = field(default_factory=list)  # merged updates, newest first
    measured: list[dict[int, Measured]] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        store: EmbeddedStore,
        honest: tuple[int, ...],
        cheats: Mapping[int, Cheat],
        **changes: Any,
    ) -> FreeRun:
        """Before the first round. `changes`: fields of the spec."""
        with allowed():
            published = publish_job(store, stdlib_corpus(1 << 18), {**SPEC, **changes})
            job = JobContext(published.spec, store)
        state = load_state(store.get(published.checkpoint_cid, 1 << 22), job.shapes)
        return cls(job, honest, cheats, state)

    @property
    def options(self) -> Gauntlet:
        assert isinstance(self.job.score, Gauntlet)
        return self.job.score

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted((*self.honest, *self.cheats)))

    def plan(self) -> Plan:
        seed = hashlib.sha256(b"round %d" % self.number).digest()
        weights = (10,) * len(self.nodes)
        manifest = assign(seed, self.nodes, weights, self.job.spec, self.carry, self.cursor)
        return Plan(manifest, self.number, self.carry, self.cursor)

    def sent(self, plan: Plan) -> dict[int, State]:
        """The decoded payloads of the round."""
        job = self.job
        updates = {}
        for node in self.honest:
            task = work_order(plan.manifest, node, job.spec, 1, self.number, model_hash(self.state))
            updates[node] = run_task(job.net(DEVICE), task, self.state, job.data).pseudo_gradient
        whole = dict(updates)
        for node, cheat in self.cheats.items():
            whole[node] = cheat(self.number, updates)
        found = {}
        for node in self.nodes:
            seed = plan.codec_seed(job.codec, node)
            memory = self.memories.get(node)
            payload = job.codec.encode(whole[node], memory, seed)
            found[node] = job.codec.decode(payload, job.shapes, seed)
            self.memories[node] = job.codec.remember(whole[node], memory, found[node])
        return found

    def yardstick(self, plan: Plan, sent: Mapping[int, State]) -> Yardstick:
        """The validator's measure of the round that comes next."""
        return Yardstick(
            job=self.job,
            options=self.options,
            plan=plan,
            before=self.state,
            length=median_norm(sent.values()),
            seed=round_seed(self._audit_seed()),
            device=DEVICE,
            history=self.history[: self.options.history],
        )

    def _audit_seed(self) -> bytes:
        return hashlib.sha256(b"audit %d" % self.number).digest()

    def round(self) -> None:
        """Train, evaluate everybody, rate, and merge the honest payloads."""
        plan = self.plan()
        sent = self.sent(plan)
        found = self.yardstick(plan, sent).measure(sent)
        self.measured.append(found)
        lines = [
            NodeScore(
                node=node,
                failure=found[node].reason,
                usable=True,
                sync=0,
                evaluated=True,
                assigned=found[node].assigned,
                random=found[node].random,
                expected=found[node].expected,
                shown=found[node].shown,
                extra=found[node].extra,
                score=0,
            )
            for node in self.nodes
        ]
        ratings = follow(self.record, lines, self.options)
        scores = scores_of(lines, ratings, self.options)
        self.record = ScoreRecord(
            job=1,
            round=self.number + 1,
            verifier=99,
            position=self.number,
            previous=None if self.record is None else "00" * 32,
            audit_seed=self._audit_seed().hex(),
            model=model_hash(self.state).hex(),
            scores=[
                line.model_copy(update={"score": score})
                for line, score in zip(lines, scores, strict=True)
            ],
            ratings=ratings,
        )
        merged = self.job.merge([sent[node] for node in self.honest])
        self.history.insert(0, merged)
        self.state = apply_outer(self.state, merged, self.job.spec.outer_lr_at(self.number))
        self.carry, self.cursor = next_carry(plan.manifest, self.nodes)
        self.number += 1

    def mu(self) -> dict[int, float]:
        assert self.record is not None
        return {line.node: line.mu / 1e6 for line in self.record.ratings}

    def skill(self) -> dict[int, float]:
        """By node: OpenSkill's mean."""
        assert self.record is not None
        return {line.node: line.skill / 1e6 for line in self.record.ratings}

    def vector(self) -> dict[int, int]:
        assert self.record is not None
        return {line.node: line.score for line in self.record.scores}


def noise(number: int, updates: Mapping[int, State]) -> State:
    """Random numbers as long as an honest update."""
    like = next(iter(updates.values()))
    draw = torch.Generator().manual_seed(number)
    return {
        name: torch.randn(t.shape, generator=draw) * t.std() for name, t in sorted(like.items())
    }


def copy_of(victim: int) -> Cheat:
    return lambda number, updates: {name: t.clone() for name, t in updates[victim].items()}
