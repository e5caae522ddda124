# SPDX-License-Identifier: Apache-2.0
"""What the score `alignment` would pay if gains were measured on what an update adds.

The gain that is published is that of the whole payload. Here it is also that of what is left of it
beyond the newest merged updates and the model, whose direction and size are compared anyway. Nodes
of a swarm (`scripts/_attacks/swarm.py`) train a small model for real, one or three of nine ride,
and rounds are merged by the median. Prints a rider's pay in parts of an honest node's, and the
spread of honest nodes' pay (standard deviation over mean), by both gains.

    python -m tests.measure.studies.gain_left

Asserts nothing. Two minutes of CPU.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import torch

from agents.gauntlet.public_part import PublicPart
from agents.mechanisms.score.alignment import Alignment
from agents.rounds import outcome
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from scripts._attacks.riders import fields_of
from scripts._attacks.scored_swarm import ScoredSwarm
from scripts._attacks.strategies import last_payloads, old_merges, resends, rides, trains
from scripts._attacks.swarm import Strategy

NODES, ROUNDS = 9, 8
KINDS: Mapping[str, Strategy] = {
    "past merges": resends(old_merges),
    "mean of the last payloads": resends(last_payloads),
    "a quarter of the work": trains(0.25),
    "past merges and a quarter of the work": rides(0.25),
}
Rescaled = Callable[[State, State], State]


class Left(ScoredSwarm):
    """Gains are those of what updates add; `whole`: those of the payloads, as in a job."""

    whole = False

    def settled(self, plan: Plan, sent: Mapping[int, State]) -> tuple[Mapping[int, int], State]:
        if self.whole:
            return super().settled(plan, sent)
        model = {name: self.state[name] for name in self.job.shapes}
        public = PublicPart([*self.history[: Alignment.history], model])
        usual = outcome.rescaled
        with patch.object(outcome, "rescaled", lambda own, like: usual(public.without(own), like)):
            return super().settled(plan, sent)


def paid(send: Strategy, riders: int, whole: bool) -> tuple[float, float]:
    """A rider's part of an honest node's pay, and the honest nodes' spread."""
    everyone = {n: send if n <= riders else trains() for n in range(1, NODES + 1)}
    fields = fields_of({"score": "alignment", "merge": "median"}, NODES)
    with tempfile.TemporaryDirectory() as folder:
        swarm = Left.open(EmbeddedStore(Path(folder) / "store"), everyone, **fields)
        swarm.whole = whole
        for _ in range(ROUNDS):
            swarm.round()
    earned = [swarm.pay[node] for node in swarm.nodes]
    mean = statistics.mean(earned[riders:])
    spread = statistics.pstdev(earned[riders:]) / mean
    return statistics.mean(earned[:riders]) / mean, spread


def main() -> None:
    torch.set_num_threads(1)
    for kind, send in KINDS.items():
        for riders in (1, 3):
            for whole in (True, False):
                part, spread = paid(send, riders, whole)
                gain = "the payload" if whole else "what is left"
                print(f"{kind}, {riders} of {NODES}, gain of {gain}: {part:.2f}, {spread:.1%}")


if __name__ == "__main__":
    main()
