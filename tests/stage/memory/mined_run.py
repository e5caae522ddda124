# SPDX-License-Identifier: Apache-2.0
"""Several rounds of the tiny split model of `mined_round`, each from the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eth_utils import keccak

from agents.protocol.structs import Reveal
from agents.rounds.models import Models
from agents.rounds.outcome import Outcome, compute
from agents.rounds.plan import Left, Plan, Plans, left_by, planned
from agents.rounds.shares import Shares
from agents.rounds.stage_memory import StageMemories
from agents.rounds.stage_payload import packed
from agents.rounds.submissions import Submission
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from agents.verify.miners import check_miner
from tests.stage.memory.honest_round import DEVICE, JOB, ChainFacts
from tests.stage.memory.mined_round import (
    MINERS,
    PIPELINE,
    WALLETS,
    WHERE,
    MinedRound,
    make_mined_job,
    signed,
    work_through,
)

ROUNDS, EVERY = 5, 3  # the third and the last are full
SHARING: dict[str, Any] = {
    "full_every": EVERY,
    "codec": "sparse",
    "codec_options": {"per_chunk": 64},
}


class Rounds(dict[int, Any]):
    """Rounds by number, and the contract that has them."""

    address = WHERE["verifyingContract"]


class Chain(ChainFacts):
    """Several rounds, each with its reveals."""

    deployment = SimpleNamespace(chain_id=WHERE["chainId"])
    by_round: dict[int, dict[int, Reveal]]

    def operators_at(self, nodes: Sequence[int], block: int) -> dict[int, str]:
        return {node: WALLETS[node].address for node in nodes}

    def reveals(self, job_id: int, round_id: int, opened_block: int) -> dict[int, Reveal]:
        return self.by_round[opened_block]


@dataclass
class Run:
    """Some rounds of a job, with everybody's own memory after each."""

    facts: Any
    rounds: list[MinedRound]
    submissions: list[list[Submission]]
    outcomes: list[Outcome]
    owed: list[dict[int, State | None]]  # before each round
    payloads: list[dict[int, bytes]]

    def memories(self) -> StageMemories:
        """Of somebody who has done none of the rounds."""
        store = self.rounds[0].store
        models = Models(self.facts, store)
        return StageMemories(self.facts, store, models, Plans(self.facts, models), DEVICE)

    def check(self, step: int, node: int, **shown: Any) -> Any:
        """What a verifier finds that comes in this round."""
        mined = self.rounds[step]
        before = partial(self.memories().before, JOB, mined.plan)
        memories = {
            "memory": before,
            "moved_memory": lambda node, seed: before(node, moved_by=seed),
        }
        one = mined.submit(node, **{"payload": self.payloads[step][node], **shown})
        inputs = replace(mined.inputs([]), before=mined.before, signed=signed, **memories)
        return check_miner(inputs, one, DEVICE, mined.store)


def run(
    folder: Path,
    present: Sequence[Sequence[int]] = (MINERS,) * ROUNDS,
    declared: Mapping[int, int] | None = None,
    busy: Callable[[MinedRound, int], int] | None = None,
    shares: Callable[[MinedRound, Sequence[Submission]], Shares] | None = None,
    **spec: Any,
) -> Run:
    """Honest rounds. `present`: who comes to each. `declared`: memory, by node. `busy`: the
    milliseconds that a node states in a round. `shares`: what a round's owners of shards say, in a
    job with a butterfly."""
    declared = declared or {}
    pipeline = {**PIPELINE, "sharing": SHARING, **spec.pop("pipeline", {})}
    store = EmbeddedStore(folder)
    tiny, _ = make_mined_job(store, rounds=ROUNDS, pipeline=pipeline, **spec)
    facts: Any = Chain(tiny.published, rounds=Rounds())
    facts.by_round = {}
    made = Run(facts, [], [], [], [], [])
    left, state, owed = Left(), tiny.before, dict[int, State | None]()
    stages: dict[int, int] = {}
    for step, nodes in enumerate(present):
        number, seed = step + 1, keccak(text=f"round {step}")
        facts.open(number, seed, nodes)
        facts.rounds[number].prev_model = facts.job(JOB).model
        weights = facts.snapshots[number].weights
        plan = planned(tiny.job, (JOB, number), seed, nodes, weights, step, left)
        held = seats(plan)
        for node, stage in held.items():
            if stages.setdefault(node, stage) != stage:  # moved: it owes nothing there
                stages[node], owed = stage, {**owed, node: None}
        here = replace(tiny, before=state)
        works = work_through(here, plan)
        mined = MinedRound(store, tiny.published, tiny.job, state, plan, works)
        payloads, after, submissions = {}, dict(owed), list[Submission]()
        for node in sorted(works):
            place = tiny.job, plan, node, works[node].change, owed.get(node)
            payloads[node], after[node] = packed(*place)
            shown: dict[str, Any] = {"memory": declared[node]} if node in declared else {}
            shown |= {"busy_ms": busy(mined, node)} if busy else {}
            submissions.append(mined.submit(node, payload=payloads[node], **shown))
        facts.by_round[number] = {s.reveal.node: s.reveal for s in submissions}
        said = None if shares is None else shares(mined, submissions)
        place = tiny.job, JOB, number, plan, state, submissions
        outcome = compute(*place, DEVICE, shares=said)
        facts.record(number, outcome, store)
        made.rounds.append(mined)
        made.submissions.append(submissions)
        made.outcomes.append(outcome)
        made.owed.append(owed)
        made.payloads.append(payloads)
        state, owed, left = outcome.state, after, left_by(plan, outcome.report.merged())
        left = left.told(outcome.report)
    return made


def seats(plan: Plan) -> dict[int, int]:
    assert plan.epoch is not None
    return {node: stage for stage, nodes in enumerate(plan.epoch.stages) for node in nodes}
