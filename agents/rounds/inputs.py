# SPDX-License-Identifier: Apache-2.0
"""What a check of a round needs to know: `RoundInputs`. Only `RoundReader` makes one.

Some of the fields are signs: the draw seed, the flags of the chain and so on. A verifier decides
by them whom to look at. A committee member is asked about one node and leaves them out: nothing
but the node's own work may then decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.jobs.job import JobContext
from agents.pipeline.hand_over import Passage, Signed
from agents.protocol.draw_chance import Exposure
from agents.protocol.numbers import ZERO_DIGEST
from agents.rounds.carried import Carried
from agents.rounds.plan import Plan
from agents.rounds.submissions import Submission
from agents.training.state import State


def _no_memory(node: int) -> State | None:
    return None


def _no_moved_memory(node: int, seed: bytes) -> State | None:
    # Without it any false payload would count as decided by rounding.
    raise ValueError(f"the inputs have a memory of node {node}, and not how its last bits move it")


def _no_moved(node: int, seed: bytes) -> Carried:
    # As for `_no_moved_memory`.
    raise ValueError(f"node {node} took something over, and not how its last bits move it")


def _nothing_signed(passage: Passage, digest: bytes, signature: bytes) -> bool:
    return False


@dataclass(frozen=True)
class RoundInputs:
    """Everything that a spot check, a committee's ruling or an audit needs to know of a round.

    `before`: the model that the round starts from. `memory`: a node's codec memory before the
    round; `inner`: the state of its inner optimizer, None for zero (both: see
    `agents.rounds.codec_memory`). `moved_memory`: the memory again, of a split model, where a seed
    moved the last bits of the weights that the earlier rounds start from; `moved`: likewise memory
    and inner state, of a model that is not split. `patient`: whether a payload that is gone since
    it was read is worth waiting for. `signed`: whether a signature is that of the sender of a
    passage, over the digest of what it handed on, where the model is split.

    `lies`: by node, evidence of what it stated wrong of the shards that it owns.

    The signs: `merged`, the merged pseudo-gradient; `draw_seed`, 32 bytes that draw nodes;
    `exposures`, by node, what its chance of being drawn follows from; `flagged`, nodes that
    revealed identical content; `window_s`, length of the commit phase in seconds.
    """

    job: JobContext
    job_id: int
    round_id: int
    plan: Plan
    before: State
    submissions: Sequence[Submission]
    merged: State = field(default_factory=dict)
    draw_seed: bytes = ZERO_DIGEST
    exposures: Mapping[int, Exposure] = field(default_factory=dict)
    flagged: frozenset[int] = frozenset()
    window_s: int = 0
    memory: Callable[[int], State | None] = _no_memory
    moved_memory: Callable[[int, bytes], State | None] = _no_moved_memory
    inner: Callable[[int], State | None] = _no_memory
    moved: Callable[[int, bytes], Carried] = _no_moved
    patient: bool = True
    signed: Signed = _nothing_signed
    lies: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def steps(self, node: int) -> int:
        """Steps that the node's trace must show."""
        assignment = self.plan.manifest.of(node)
        return self.job.trace_steps(0 if assignment is None else assignment.batches)
