# SPDX-License-Identifier: Apache-2.0
"""Primary evaluation: what a node's update does to the loss, on its own data and on other data.

LossScore is `agents.gauntlet.loss_score`'s. The rules this file adds:

- Where work is paid, an update is measured by its parts (`agents.gauntlet.model_parts`): each of
  a node's sequences with one of them alone, so that who trains the output layer only shows no more
  than that.
- What a part has in the span of the newest merged updates is taken out before it is measured
  (`agents.gauntlet.public_part`): it took no work.
- The step is the job's merge of that payload alone, so that signs are measured where signs are
  applied. Whatever else the merge gives is brought to the median norm of the round's payloads: a
  longer or shorter payload scores the same.
- All nodes are measured on the same random sequences, which no node of the round was assigned:
  nobody can have trained on them for being told to. The assigned batches are all of the node's
  (`agents.training.assignment.equal_share`): what is left out of a part of them is not seen.
- All draws start from the round's audit seed, which is known after every payload is fixed; so all
  validators measure alike (`agents.gauntlet.draw`).
- Batches differ in difficulty by more than an update differs on data it has seen. So the other
  evaluated updates are measured on a node's assigned batches too: the median of their (assigned -
  random) is what was to be `expected` of any update there, and mu moves by the sign of (assigned -
  expected - random). The paper compares assigned with random alone. Over 24 rounds of a small
  model, DeMo's job and 6 batches per loss, that sign is positive for 68 % of honest evaluations and
  44 % of copiers'; this one for 90 % and 44 %. With 2 batches it is 68 % against 78 %; with local
  AdamW steps and 6 batches 74 % against 76 % (`python -m tests.measure.studies.assigned_data`). It
  costs one loss for each pair of evaluated nodes. So it is in a job that pays by rank. Where work
  is paid, the same comparison is made on every run of tokens of the node's own batches, and the
  mean sign is the work `shown` (`agents.gauntlet.cells`); a sum would say how large a lead is, and
  a part of the work gives most of that. Batches are public, so somebody may train on a
  rival's to raise what is expected of it; half of the others would have to.
- A payload that ruins the loss, or that the merge refuses, has no score; no payload raises.
- Where the round's model itself has a loss that is no finite number, nothing can be said of any
  update, and nobody is to blame. All LossScores are then 0, and no work is shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agents.gauntlet.cells import Cells, Values
from agents.gauntlet.loss_score import fell, loss_score, step, to_nano
from agents.gauntlet.model_parts import Part, model_parts
from agents.gauntlet.public_part import PublicPart
from agents.jobs.job import JobContext
from agents.jobs.outer_step import weights_of
from agents.mechanisms.merge import MergeRefused
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.plan import Plan
from agents.training.assignment import Manifest, Ranges, unassigned
from agents.training.data import DataSource
from agents.training.evaluate import joined, token_losses, validation_loss
from agents.training.norms import norm
from agents.training.rng import derive_key, raw_words
from agents.training.state import PayloadError, State, apply_outer

_LOGITS = 1 << 20  # of one forward pass, 4 MB, where a batch of the job has no more
_BLOCK = 256  # words drawn at once
_TOO_SHORT = 1e-30  # of the wanted norm: stretching by more would leave the range of fp32


@dataclass(frozen=True)
class Measured:
    """LossScores in nano-nats per token, or the reason why there are none.

    `expected`: the median over the other evaluated nodes of (assigned - random) with this node's
    batches as the assigned ones; 0 without others. `shown`: the work that the update shows on its
    assigned batches, in millionths (see above), and `extra`: the same of its extra ones. `unsure`:
    by how much another machine's rounding might change `shown`, and `unsure_extra`: `extra`.
    """

    assigned: int | None
    random: int | None
    expected: int | None
    shown: int | None = None
    extra: int | None = None
    reason: str = ""
    unsure: int = 0
    unsure_extra: int = 0

    def work(self, shown: int | None, extra: int | None) -> Iterator[tuple[str, int, int, int]]:
        """What somebody says is shown beside what was measured: "work" on assigned batches and
        "extra work", each as stated, as measured, and by how much that is unsure."""
        both = (
            ("work", shown, self.shown, self.unsure),
            ("extra work", extra, self.extra, self.unsure_extra),
        )
        for what, said, own, unsure in both:
            if said is not None and own is not None:
                yield what, said, own, unsure


_UNASSIGNED = Measured(None, None, None, reason="no batches were assigned")
_UNSAID = Measured(0, 0, 0, shown=0, extra=0)  # of an update of a model that has no loss itself


@dataclass(frozen=True)
class Yardstick:
    """The measure of one round, the same for all validators.

    Attributes:
        before: the round's model.
        length: L2 norm that an update which is not of signs is brought to; see `median_norm`.
        seed: 32 bytes; all draws start here.
        history: the newest merged updates that led to `before`, at most `options.history`.
    """

    job: JobContext
    options: Gauntlet
    plan: Plan
    before: State
    length: float
    seed: bytes
    device: str
    history: Sequence[State] = ()

    def measure(
        self,
        sent: Mapping[int, State],
        progress: Callable[[int], None] = lambda node: None,
        absent: Iterable[int] = (),
    ) -> dict[int, Measured]:
        """The scores of these nodes' decoded payloads, by node. `progress`: hears each node.

        `absent`: evaluated nodes whose payloads can't be had. On their batches too a loss may be
        ruined; what is expected of the others, and what they show, is found without them.
        """
        own = {node: self._cells(node) for node in (*sent, *absent)}
        untouched = [self.before] * len(self.parts)
        before = {node: self._losses(untouched, cells) for node, cells in own.items() if cells}
        random_before = self._loss(self.before)
        known = (bool(np.isfinite(losses).all()) for losses in before.values())
        if not (math.isfinite(random_before) and all(known)):
            return {node: _UNSAID if node in before else _UNASSIGNED for node in sent}
        random: dict[int, float] = {}
        partly: dict[int, Values] = {}  # the same of each part of the update
        falls: dict[int, dict[int, Values]] = {}  # by whose update, then by whose cells
        found = {node: _UNASSIGNED for node in sent if node not in before}
        reasons: dict[int, str] = {}
        for node, gradient in sent.items():
            progress(node)
            if node in found:
                continue
            try:
                whole, apart = self._after(gradient)
            except (MergeRefused, PayloadError, ValueError) as error:
                reasons[node] = f"the update can't be applied: {error}"
                continue
            score, *scores = (loss_score(random_before, self._loss(s)) for s in (whole, *apart))
            fallen = {
                of: fell(losses, self._losses(apart, own[of])) for of, losses in before.items()
            }
            sound = (np.isfinite(losses).all() for losses in fallen.values())
            if not (np.isfinite([score, *scores]).all() and all(sound)):
                reasons[node] = "the update ruins the loss"
                continue
            random[node], partly[node], falls[node] = score, np.array(scores), fallen
        for node, reason in reasons.items():
            found[node] = Measured(None, None, None, reason=reason)
        for node in falls:
            cells = own[node]
            leads = {q: falls[q][node] - partly[q][cells.part] for q in falls}
            mine, others = leads.pop(node), list(leads.values())
            usual = np.median(others, axis=0) if others else np.zeros_like(mine)
            due = _due(partly[node], [partly[q] for q in leads])[cells.part]
            expected = statistics.median(map(cells.assigned_mean, others)) if others else 0.0
            beyond = mine - due * usual
            shown, extra = cells.shown(beyond)
            unsure, unsure_extra = cells.unsure(beyond)
            found[node] = Measured(
                to_nano(cells.assigned_mean(falls[node][node])),
                to_nano(random[node]),
                to_nano(expected),
                shown,
                extra,
                unsure=unsure,
                unsure_extra=unsure_extra,
            )
        return found

    def _cells(self, node: int) -> Cells:
        """Where a node's work is looked for; the seed says with which part sequences begin."""
        parts, first = len(self.parts), self.seed[0]
        batches = self.assigned(node), self.extra(node)
        return Cells(*batches, self.options, parts, first, self._at_once)

    def assigned(self, node: int) -> list[Tensor]:
        """The batches that the node was assigned."""
        assignment = self.plan.manifest.of(node)
        return [] if assignment is None else self._batches(assignment.ranges)

    def extra(self, node: int) -> list[Tensor]:
        """The batches that count if the node trains on them beside those.

        They are the first of the node's own stretch of unassigned batches, `extra` times as many as
        it was assigned.
        """
        manifest = self.plan.manifest
        assignment = manifest.of(node)
        if assignment is None:
            return []
        stretch = sum(other.batches for other in manifest.assignments)
        count = min(self.options.extra * assignment.batches, stretch)
        return self._batches(unassigned(manifest, node, count))

    def _batches(self, ranges: Ranges) -> list[Tensor]:
        data = self.job.data
        return [data.batch(index) for first, last in ranges for index in range(first, last)]

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

    @cached_property
    def _random(self) -> list[Tensor]:
        """The same sequences, as many at once as a pass takes."""
        return joined(self.random, self._at_once)

    @cached_property
    def _at_once(self) -> int:
        """Sequences of one pass: as many as a batch has, more where all their logits are few."""
        spec, data = self.job.spec, self.job.data
        logits = spec.optimizer.seq_len * spec.model.vocab_size
        return max(data.batch_size, _LOGITS // logits)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Those that work is looked for in; a job that pays by rank has one, the whole model."""
        names = sorted(self.job.shapes)
        if not self.options.pays_work:
            return (tuple(names),)
        return model_parts(self.job.spec.model.kind, self.job.net(self.device).model, names)

    def _after(self, gradient: State) -> tuple[State, list[State]]:
        """The model after a small step along an update, then after one along each of its parts."""
        update = self.job.merge([gradient])
        if not getattr(self.job.merge, "signs", False):
            update = brought_to(update, self.length)
        beta = step(self.options.step_share, self.job.spec.outer_lr_at(self.plan.step))
        weights = weights_of(self.before, self.job.shapes)
        moved = [
            apply_outer(weights_of(weights, part), public.without(weights_of(update, part)), beta)
            for part, public in zip(self.parts, self._public, strict=True)
        ]
        whole = {name: tensor for part in moved for name, tensor in part.items()}
        return whole, [{**weights, **part} for part in moved]

    @cached_property
    def _public(self) -> tuple[PublicPart, ...]:
        """What is public of each part."""
        return tuple(
            PublicPart([weights_of(merged, part) for merged in self.history]) for part in self.parts
        )

    def _loss(self, state: State) -> float:
        return validation_loss(self.job.net(self.device), state, self._random)

    def _losses(self, states: Sequence[State], cells: Cells) -> Values:
        """Each cell's mean loss under the state of its part."""
        net = self.job.net(self.device)
        found = [token_losses(net, state, cells.rows(part)) for part, state in enumerate(states)]
        return cells.means([[loss.cpu().numpy() for loss in part] for part in found])


def _due(scores: Values, others: Sequence[Values]) -> Values:
    """What each part of an update has of the usual LossScore, 0..1: so much of the usual lead is
    its due. 1 where the usual is not above 0."""
    usual = np.median(others, axis=0) if others else np.zeros_like(scores)
    share = np.divide(scores, usual, out=np.ones_like(scores), where=usual > 0)
    return np.clip(share, 0.0, 1.0)


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
