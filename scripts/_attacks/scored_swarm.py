# SPDX-License-Identifier: Apache-2.0
"""A swarm whose rounds are merged and paid by `agents.rounds.outcome`, as aggregators do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from agents.protocol.structs import Reveal
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from scripts._attacks.swarm import DEVICE, Strategy, Swarm, seeded

_DIGEST = bytes(32)


@dataclass
class ScoredSwarm(Swarm):
    """Every score that follows from the payloads."""

    @classmethod
    def open(
        cls,
        store: EmbeddedStore,
        strategies: Mapping[int, Strategy],
        seed: int = 0,
        **fields: Any,
    ) -> Self:
        """Before the first round, of a text and a first model by the seed. Nothing else follows
        from it: no validator draws, and most codecs draw nothing."""
        return super().open(store, strategies, seed, **seeded(fields, seed))

    def settled(self, plan: Plan, sent: Mapping[int, State]) -> tuple[Mapping[int, int], State]:
        """By the job's merge and score; a refused merge pays nobody and changes nothing."""
        submissions = [
            Submission(Reveal(node, *[_DIGEST] * 4), sent[node], "") for node in self.nodes
        ]
        history = self.history[: self.job.score.needs_updates]
        place = (1, self.number + 1)
        found = compute(self.job, *place, plan, self.state, submissions, DEVICE, history=history)
        return found.paid(), found.merged
