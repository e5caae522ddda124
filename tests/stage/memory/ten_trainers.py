# SPDX-License-Identifier: Apache-2.0
"""Ten nodes that train the demo model for real, in memory.

Rule: what the robustness tests call an honest update is what a trainer would send: pseudo-gradients
of `train_local` on real text. The nodes' data is either alike, drawn from all of the text, or
apart: node i owns the i-th part of the standard library's source, cut in order of path, so no two
nodes see the same packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from agents.rounds.outcome import rescaled
from agents.training.documents import stdlib_corpus
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, JobSpec, ModelSpec, demo_spec
from agents.training.state import State, apply_outer

NODES = 10
_ROUNDS = 6
_CORPUS_BYTES = 1024 * 1024
_NO_DATASET = "b" + "a" * 58


@dataclass(frozen=True)
class TenTrainers:
    """The nodes' data and one network that all of them use in turn. `seed`: of all draws."""

    spec: JobSpec
    net: FlatModel
    parts: tuple[Tensor, ...]
    validation: tuple[Tensor, ...]
    seed: int = 0

    def genesis(self) -> State:
        return init_state(self.spec.model)

    def train(
        self, node: int, state: State, round_number: int, steps: int, flipped: bool = False
    ) -> State:
        """The pseudo-gradient of `steps` AdamW steps on the node's own data.

        `flipped`: every token t of the data is replaced by 255 - t, the label flip of a language
        model (inputs and targets are the same tokens).
        """
        draw = np.random.default_rng((node, round_number, self.seed))
        batches = [self._batch(node, draw) for _ in range(steps)]
        if flipped:
            batches = [self.spec.model.vocab_size - 1 - batch for batch in batches]
        hyper = Hyperparameters.of(self.spec, round_number)
        return train_local(self.net, state, batches, hyper, bytes(32)).pseudo_gradient

    def honest(
        self, state: State, round_number: int, steps: int, nodes: Sequence[int] = range(NODES)
    ) -> list[State]:
        """One update per node."""
        return [self.train(node, state, round_number, steps) for node in nodes]

    def step(self, state: State, merged: Mapping[str, Tensor]) -> State:
        return apply_outer(state, merged, self.spec.optimizer.outer_lr)

    def loss(self, state: State) -> float:
        """Validation loss over text of all nodes, nats per byte."""
        return validation_loss(self.net, state, self.validation)

    def gains_ppm(
        self, state: State, updates: Sequence[State], merged: Mapping[str, Tensor]
    ) -> list[int]:
        """Relative fall of the validation loss by each update alone, as long as `merged`, in ppm.

        As a proposer measures it (`agents.rounds.outcome`).
        """
        before = self.loss(state)
        after = [self.loss(self.step(state, rescaled(update, dict(merged)))) for update in updates]
        return [round((before - loss) / before * 1e6) for loss in after]

    def _batch(self, node: int, draw: np.random.Generator) -> Tensor:
        size, length = self.spec.optimizer.batch_size, self.spec.optimizer.seq_len
        part = self.parts[node]
        starts = draw.integers(0, len(part) - length - 1, size)
        return torch.stack([part[start : start + length + 1] for start in starts.tolist()])


@lru_cache(maxsize=1)
def _text() -> Tensor:
    text = np.frombuffer(b"".join(stdlib_corpus(_CORPUS_BYTES)), np.uint8).astype(np.int64)
    return torch.from_numpy(text)


@lru_cache(maxsize=2)
def ten_trainers(
    alike: bool = False, seed: int = 0, model: ModelSpec | None = None, rounds: int = _ROUNDS
) -> TenTrainers:
    """The ten trainers, built once per process; `alike`: every node draws from all of the text.

    `seed`: of the first weights and of all draws. `model`: the demo's, if not given; it must read
    as many tokens. `rounds`: of the schedule of learning rates.
    """
    torch.set_num_threads(1)
    spec = demo_spec(_NO_DATASET, rounds=_ROUNDS)
    first = (model or spec.model).model_copy(update={"init_seed": seed})
    spec = spec.model_copy(update={"model": first, "rounds": rounds})
    whole = _text()
    share = len(whole) // NODES
    rows = whole.split(share)[:NODES]
    held = share // 16  # of every node's part, at its end, for validation
    length = spec.optimizer.seq_len
    validation = tuple(row[-held:][: 8 * (length + 1)].view(8, length + 1) for row in rows)
    parts = tuple(row[:-held] for row in rows)
    if alike:
        parts = (torch.cat(parts),) * NODES
    return TenTrainers(spec, FlatModel(spec.model), parts, validation, seed)


@dataclass(frozen=True)
class HonestUpdates:
    """A model state and what all nodes would honestly send from there. Not to be written to."""

    nodes: TenTrainers
    state: State
    round_number: int
    steps: int
    updates: tuple[State, ...]


@lru_cache(maxsize=2)
def honest_updates(alike: bool) -> HonestUpdates:
    """Updates that are alike: round 0 of nodes with the same text, 12 steps as in the demo.

    Or apart: round 5 of nodes with disjoint text, 6 steps, after a plain mean of everyone's updates
    in the rounds before.
    """
    nodes = ten_trainers(alike)
    state, rounds, steps = nodes.genesis(), 0 if alike else 5, 12 if alike else 6
    for number in range(rounds):
        updates = nodes.honest(state, number, steps)
        mean = {name: sum(u[name] for u in updates) / NODES for name in state}
        state = nodes.step(state, mean)
    return HonestUpdates(nodes, state, rounds, steps, tuple(nodes.honest(state, rounds, steps)))
