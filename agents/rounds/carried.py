# SPDX-License-Identifier: Apache-2.0
"""What a node takes from one round into the next.

Who may take what: `agents.rounds.codec_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agents.jobs.job import JobContext
from agents.training.state import State


@dataclass(frozen=True)
class Carried:
    """`owed`: the memory of its codec, None for none. `inner`: the state of its inner optimizer,
    None for one that starts from zero."""

    owed: State | None = None
    inner: State | None = None

    def into(self, job: JobContext, last: int, step: int) -> Carried:
        """What is left of it at the start of the round after `step` finalized ones, if this was
        there at the end of the round after `last` finalized ones."""
        lives = {"owed": job.codec.memory_rounds, "inner": job.inner_rounds}
        ended = [
            what for what, rounds in lives.items() if rounds and step // rounds > last // rounds
        ]
        return replace(self, **dict.fromkeys(ended))

    def numbers(self) -> int:
        """How many numbers it holds."""
        states = (state for state in (self.owed, self.inner) if state is not None)
        return sum(tensor.numel() for state in states for tensor in state.values())


Kept = Callable[[int, int, bytes], Carried | None]
"""(job, round, seed) -> what the caller itself kept after that round; None if it has no copy."""
