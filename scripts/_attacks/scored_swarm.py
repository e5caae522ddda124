# SPDX-License-Identifier: Apache-2.0
"""A swarm whose rounds are merged and paid by `agents.rounds.outcome`, as aggregators do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.protocol.structs import Reveal
from agents.rounds.outcome import compute
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.training.state import State
from scripts._attacks.swarm import DEVICE, Swarm

_DIGEST = bytes(32)


@dataclass
class ScoredSwarm(Swarm):
    """Every score that follows from the payloads."""

    def settled(self, plan: Plan, sent: Mapping[int, State]) -> tuple[Mapping[int, int], State]:
        """By the job's merge and score; a refused merge pays nobody and changes nothing."""
        submissions = [
            Submission(Reveal(node, f"0x{node:040x}", *[_DIGEST] * 4), sent[node], "")
            for node in self.nodes
        ]
        history = self.history[: self.job.score.needs_updates]
        place = (1, self.number + 1)
        found = compute(self.job, *place, plan, self.state, submissions, DEVICE, history=history)
        return found.paid(), found.merged
