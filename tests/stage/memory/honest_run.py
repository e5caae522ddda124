# SPDX-License-Identifier: Apache-2.0
"""A tiny job of which one round is final, everyone accepted, and the rounds that come after it."""

from __future__ import annotations

from agents.rounds.codec_memory import Memories
from agents.rounds.models import Models
from agents.rounds.plan import Plan, Plans
from agents.training.assignment import assign, next_carry
from tests.stage.memory.honest_round import DEVICE, NODES, SEED, WEIGHTS, ChainFacts, HonestRound

SECOND, THIRD = b"\x22" * 32, b"\x33" * 32


class HonestRun:
    """Rounds of one job, played honestly.

    Attributes:
        tiny: the first round.
        facts: what the chain says.
        first: the first round's outcome.
        before: the state that the round after it starts from.
    """

    def __init__(self, tiny: HonestRound) -> None:
        self.tiny, self.facts = tiny, ChainFacts(tiny.published)
        self.facts.open(1, SEED)
        self.first = tiny.compute(tiny.honest())
        self.facts.record(1, self.first, tiny.store)
        self.before = self.first.state
        self.carry, self.cursor = next_carry(tiny.plan.manifest, NODES)

    def next(self, seed: bytes = SECOND, step: int = 1, number: int = 2) -> Plan:
        """Round `number` opens; its plan."""
        self.facts.open(number, seed)
        manifest = assign(seed, NODES, WEIGHTS, self.tiny.job.spec, self.carry, self.cursor)
        marks = self.facts.marks[number]
        return Plan(manifest, step, self.carry, self.cursor, invalid=marks)

    def memories(self) -> Memories:
        """What anyone finds who comes now and knows nothing yet."""
        models = Models(self.facts, self.tiny.store)
        return Memories(self.facts, self.tiny.store, models, Plans(self.facts, models), DEVICE)
