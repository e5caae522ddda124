# SPDX-License-Identifier: Apache-2.0
"""A byte model in stages, trained with a boundary between them; the primer's figure 5, small.

All stages run in one process (`Chain`, which gives the pipeline's numbers bit for bit), with one
inner optimizer and one clip for each stage. Every boundary of a seed starts from the same bits and
sees the same batches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

import torch
import yaml

from agents.mechanisms import boundary as boundaries
from agents.mechanisms.boundary import Boundary
from agents.training.flat import FlatModule
from agents.training.model import hidden_matrices, next_token_loss
from agents.training.optimizers import chosen
from agents.training.slices import Chain, Slices, init_stage
from agents.training.spec import Hyperparameters, ModelSpec
from scripts._figures.text import BATCH, SEQ, Text, schedule

POINTS = 32


@dataclass(frozen=True)
class Setup:
    """What all runs have in common.

    Attributes:
        d_ff: by default twice `d_model`.
        layers: blocks of each stage.
        lr: of `inner`; a matrix that Muon takes has `inner_options`' `lr_ratio` times it.
        held_out: batches of 32 windows that are never trained on, at most 8.
        inner, inner_options: the inner optimizer of each stage, as `optimizer` of a spec names it.
        batch: sequences of SEQ tokens that make a step.
    """

    tokens: int = 262_144
    d_model: int = 128
    d_ff: int | None = None
    layers: tuple[int, ...] = (1, 1, 1, 1)
    lr: float = 3e-3
    held_out: int = 8
    inner: str = "adamw"
    inner_options: Mapping[str, Any] = field(default_factory=dict)
    batch: int = BATCH

    @property
    def steps(self) -> int:
        """The whole steps in `tokens`, at least one."""
        return max(1, self.tokens // (self.batch * SEQ))

    def model(self, seed: int) -> ModelSpec:
        """The byte model; its first bits are the seed's."""
        heads = self.d_model // 32
        return ModelSpec(
            d_model=self.d_model, n_layers=sum(self.layers), n_heads=heads, n_kv_heads=heads,
            d_ff=self.d_ff or 2 * self.d_model, max_seq_len=SEQ, tie_embeddings=False,
            init_seed=seed,
        )  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One boundary with one seed.

    Attributes:
        loss: in nats a byte, of text that is never trained on.
        parameters: of all stages.
        seconds: of CPU.
        curve: tokens trained on so far, and the mean loss of the batches since the last point,
            each taken before its step: at most `POINTS` points.
    """

    loss: float
    parameters: int
    seconds: float
    curve: tuple[tuple[int, float], ...]


def build(text: str) -> Boundary:
    """A boundary from text like `residual:width=16,code=int8`."""
    name, _, rest = text.partition(":")
    pairs = (pair.partition("=") for pair in rest.split(",") if pair)
    found: Boundary = boundaries.get(name)(**{key: yaml.safe_load(raw) for key, _, raw in pairs})
    return found


def train(setup: Setup, boundary: Boundary, seed: int, text: Text) -> Run:
    """Train for the whole steps in `setup.tokens`."""
    began = time.process_time()
    slices = Slices(setup.model(seed), setup.layers, boundary)
    chain = Chain(slices)
    nets = [FlatModule(one, hidden=hidden_matrices("llama", one)) for one in chain.stages]
    for index, net in enumerate(nets):
        net.load(init_stage(slices, index))
    hyper = Hyperparameters(setup.lr, (0.9, 0.95), 1e-8, 0.1, 1.0, "fp32")
    steps = setup.steps
    inner = chosen(setup.inner, setup.inner_options)
    optimizers = [inner.start(net, hyper, steps) for net in nets]
    seen = []
    for step in range(steps):
        for net in nets:
            net.grads.zero_()
        loss = next_token_loss(chain, text.batch(seed, step, setup.batch))
        loss.backward()
        seen.append(float(loss.detach()))
        for optimizer in optimizers:
            optimizer.hyper = replace(hyper, lr=setup.lr * schedule(step, steps))
            optimizer.step()
    with torch.no_grad():
        held_out = text.held_out[: setup.held_out]
        losses = [float(next_token_loss(chain, windows)) for windows in held_out]
    count = sum(p.numel() for p in chain.parameters())
    return Run(
        statistics.mean(losses), count, time.process_time() - began, _curve(seen, setup.batch * SEQ)
    )


def _curve(losses: Sequence[float], tokens: int) -> tuple[tuple[int, float], ...]:
    size = -(-len(losses) // POINTS)
    parts = [losses[first : first + size] for first in range(0, len(losses), size)]
    ends = [min(len(losses), (number + 1) * size) for number in range(len(parts))]
    return tuple(
        (end * tokens, statistics.mean(part)) for end, part in zip(ends, parts, strict=True)
    )


def train_all(
    setup_of: Callable[[str], Setup], wanted: Sequence[tuple[str, int]], workers: int = 1
) -> Iterator[tuple[str, int, Run]]:
    """A run of each (boundary's text, seed), as each ends; `workers` at once, each in a process of
    one thread. `setup_of`: the setup of a boundary's runs."""
    with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
        waiting = {
            pool.submit(_run, setup_of(name), name, seed): (name, seed) for name, seed in wanted
        }
        for done in as_completed(waiting):
            yield *waiting[done], done.result()


_texts: list[Text] = []  # of this process


def _one_thread() -> None:
    torch.set_num_threads(1)


def _run(setup: Setup, name: str, seed: int) -> Run:
    if not _texts:
        _texts.append(Text())
    return train(setup, build(name), seed, _texts[0])
