# SPDX-License-Identifier: Apache-2.0
"""Primary evaluation: what a node's update does to the loss, on its own data and on other data.

LossScore is `agents.gauntlet.loss_score`'s. The rules this file adds:

- The step is the job's merge of that payload alone, so that signs are measured where signs are
  applied. Whatever else the merge gives is brought to the median norm of the round's payloads: a
  longer or shorter payload scores the same.
- All nodes are measured on the same random sequences, which no node of the round was assigned:
  nobody can have trained on them for being told to. The assigned batches are a few of the node's.
- All draws start from the validator's secret and the audit seed, after every payload is fixed.
- Batches differ in difficulty by more than an update differs on data it has seen. So the other
  evaluated updates are measured on a node's assigned batches too: the median of their (assigned -
  random) is what was to be `expected` of any update there, and mu moves by the sign of (assigned -
  expected - random). The paper compares assigned with random alone. Over 24 rounds of a small
  model, DeMo's job and 6 batches per loss, that sign is positive for 68 % of honest evaluations and
  44 % of copiers'; this one for 90 % and 44 %. With 2 batches it is 68 % against 78 %; with local
  AdamW steps and 6 batches 74 % against 76 % (`python -m tests.measure.studies.assigned_data`). It
  costs one loss for each pair of evaluated nodes. Batches are public, so somebody may train on a
  rival's to raise what is expected of it; half of the others would have to.
- A payload that ruins the loss, or that the merge refuses, has no score; no payload raises.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.gauntlet.loss_score import loss_score, step, to_nano
from agents.jobs.job import JobContext
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.draw import draw
from agents.rounds.plan import Plan
from agents.training.assignment import Manifest
from agents.training.data import DataSource
from agents.training.evaluate import validation_loss
from agents.training.norms import norm
from agents.training.rng import derive_key, raw_words
from agents.training.state import PayloadError, State, apply_outer

_BLOCK = 256  # words drawn at once
_TOO_SHORT = 1e-30  # of the wanted norm: stretching by more would leave the range of fp32


@dataclass(frozen=True)
class Measured:
    """LossScores in nano-nats per token, or the reason why there are none.

    `expected`: the median over the other evaluated nodes of (assigned - random) with this node's
    batches as the assigned ones; 0 without others.
    """

    assigned: int | None
    random: int | None
    expected: int | None
    reason: str = ""


@dataclass(frozen=True)
class Yardstick:
    """One validator's measure of one round.

    Attributes:
        before: the round's model.
        length: L2 norm that an update which is not of signs is brought to; see `median_norm`.
        seed: 32 bytes; all draws start here.
    """

    job: JobContext
    options: Gauntlet
    plan: Plan
    before: State
    length: float
    seed: bytes
    device: str

    def measure(
        self, sent: Mapping[int, State], progress: Callable[[int], None] = lambda node: None
    ) -> dict[int, Measured]:
        """The scores of these nodes' decoded payloads, by node. `progress`: hears each node."""
        batches = {node: self.assigned(node) for node in sent}
        before = {node: self._loss(self.before, own) for node, own in batches.items() if own}
        random_before = self._loss(self.before, self.random)
        random: dict[int, float] = {}
        on_own: dict[int, dict[int, float]] = {}  # by whose update, then by whose batches
        reasons: dict[int, str] = {}
        for node, gradient in sent.items():
            progress(node)
            if node not in before:
                reasons[node] = "no batches were assigned"
                continue
            try:
                after = self._after(gradient)
            except (MergeRefused, PayloadError, ValueError) as error:
                reasons[node] = f"the update can't be applied: {error}"
                continue
            random[node] = loss_score(random_before, self._loss(after, self.random))
            on_own[node] = {
                of: loss_score(loss, self._loss(after, batches[of])) for of, loss in before.items()
            }
            if not all(map(math.isfinite, (random[node], *on_own[node].values()))):
                del random[node], on_own[node]
                reasons[node] = "the update ruins the loss"
        found = {node: Measured(None, None, None, reason) for node, reason in reasons.items()}
        for node, scores in on_own.items():
            leads = [on_own[q][node] - random[q] for q in on_own if q != node]
            expected = statistics.median(leads) if leads else 0.0
            found[node] = Measured(to_nano(scores[node]), to_nano(random[node]), to_nano(expected))
        return found

    def assigned(self, node: int) -> list[Tensor]:
        """At most `eval_batches` of the batches that the node was assigned, drawn by the seed."""
        assignment = self.plan.manifest.of(node)
        if assignment is None:
            return []
        batches = [index for first, last in assignment.ranges for index in range(first, last)]
        key = derive_key("assigned", self.seed, node)
        return [self.job.data.batch(i) for i in draw(key, batches, self.options.eval_batches)]

    @cached_property
    def random(self) -> list[Tensor]:
        """`eval_batches` batches of sequences that no node was assigned in the round."""
        data = self.job.data
        size = data.batch_size
        rows = unassigned_rows(
            data,
            self.plan.manifest,
            derive_key("random", self.seed),
            self.options.eval_batches * size,
        )
        return [data.sequences(part) for part in np.split(rows, range(size, len(rows), size))]

    def _after(self, gradient: State) -> State:
        update = self.job.merge([gradient])
        if not getattr(self.job.merge, "signs", False):
            update = brought_to(update, self.length)
        beta = step(self.options.step_share, self.job.spec.outer_lr_at(self.plan.step))
        return apply_outer(self.before, update, beta)

    def _loss(self, state: State, batches: Sequence[Tensor]) -> float:
        return validation_loss(self.job.net(self.device), state, batches)


def median_norm(payloads: Iterable[State]) -> float:
    """The lower median of the payloads' norms, 0 without any."""
    norms = [norm(payload) for payload in payloads]
    return statistics.median_low(norms) if norms else 0.0


def brought_to(update: State, length: float) -> State:
    """`update` with an L2 norm of `length`; as it is if it has next to none."""
    own = norm(update)
    if not math.isfinite(own) or own <= length * _TOO_SHORT:
        return update
    return {name: tensor * (length / own) for name, tensor in update.items()}


def unassigned_rows(
    data: DataSource, manifest: Manifest, key: bytes, count: int
) -> NDArray[np.int64]:
    """Numbers of `count` distinct training sequences in no batch of the manifest, in draw order.

    Fewer where fewer are left; where none is, as many of the validation sequences as there are:
    nobody was assigned those either. The i-th draw is word i of Philox modulo the number of
    sequences; what is taken already is passed over.
    """
    ranges = [r for a in manifest.assignments for r in a.ranges]
    taken: set[int] = set()
    for first, last in ranges:
        taken.update(data.rows_of(first, last).ravel().tolist())
    free = data.train_sequences - len(taken)
    if free <= 0:
        return data.train_sequences + np.arange(min(count, data.val_sequences))
    found: list[int] = []
    wanted, block = min(count, free), 0
    while len(found) < wanted:
        block += 1
        for word in raw_words(derive_key(key, block), _BLOCK):
            row = int(word) % data.train_sequences
            if row not in taken and len(found) < wanted:
                taken.add(row)
                found.append(row)
    return np.array(found, np.int64)
