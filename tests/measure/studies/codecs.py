# SPDX-License-Identifier: Apache-2.0
"""What a codec costs in learning: the demo's model and text, eight nodes, dense beside compressed.

Each node takes 12 local steps a round through the agents' own `train_local`; payloads are encoded,
decoded, merged and applied as in a job. `early` starts from the genesis model; `late` from a model
that the dense codec has trained for many rounds (kept under .build/, so that the second run is
short), the same for every seed unless --own-starts is given. Every seed has its own genesis model
and its own order of the data, the same for all codecs, so losses can be compared pairwise. Prints a
table and asserts nothing.

    python -m tests.measure.studies.codecs --phase early --codec polytope --codec sparse
    python -m tests.measure.studies.codecs --phase late --codec semantic:ratio=100,clip=6
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merge_rules
from agents.storage.content_store import open_store
from agents.training.data import DataSource, pack
from agents.training.documents import stdlib_corpus
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, JobSpec, demo_spec
from agents.training.state import State, apply_outer, load_state, save_state
from tests.measure.codec_figures import CodecFigures, cosine, measure
from tests.measure.rows import text_table

BUILD = Path(__file__).resolve().parents[3] / ".build" / "studies"
STEPS = 12
GOAL = 0.02


@dataclass(frozen=True)
class Setting:
    """A codec with its options, from text like `semantic:ratio=100,clip=6`."""

    text: str

    def build(self) -> Any:
        name, _, rest = self.text.partition(":")
        pairs = (pair.partition("=") for pair in rest.split(",") if pair)
        return codecs.get(name)(**{key: _value(text) for key, _, text in pairs})


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass
class Run:
    """One codec's run with one seed: a loss a round, and every payload's figures."""

    losses: list[float] = field(default_factory=list)
    figures: list[CodecFigures] = field(default_factory=list)
    merged: list[float] = field(default_factory=list)  # cosine to the mean of the true updates


class DemoJob:
    """The demo's job, without chain and store."""

    def __init__(self, seed: int, rounds: int, workers: int) -> None:
        """`rounds`: of the whole job, which decides the learning rates."""
        store = open_store(str(BUILD / "store"))
        cid = BUILD / "corpus.cid"
        if not cid.exists():
            cid.write_text(pack(stdlib_corpus(), store))
        batches = {"rounds": rounds, "batches_per_round": STEPS * workers, "data_seed": seed}
        plain = demo_spec(cid.read_text(), **batches)
        model = plain.model.model_dump() | {"init_seed": seed}
        self.spec: JobSpec = demo_spec(cid.read_text(), model=model, **batches)
        self.workers = workers
        self.data = DataSource(store, self.spec)
        self.net = FlatModel(self.spec.model)
        self.genesis = init_state(self.spec.model)
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.genesis.items()}
        self.held_out = self.data.val_batches(self.spec.eval_batches)

    def updates(self, state: State, number: int) -> list[State]:
        """Every node's pseudo-gradient in round 0.. of the job."""
        hyper = Hyperparameters.of(self.spec, number)
        found = []
        for worker in range(self.workers):
            first = (number * self.workers + worker) * STEPS
            batches = [self.data.batch(index) for index in range(first, first + STEPS)]
            found.append(train_local(self.net, state, batches, hyper, bytes(32)).pseudo_gradient)
        return found

    def loss(self, state: State) -> float:
        return validation_loss(self.net, state, self.held_out)

    def run(
        self, options: argparse.Namespace, text: str, state: State, first: int, rounds: int
    ) -> Run:
        """Rounds first..first+rounds-1 under a codec."""
        codec, merge = Setting(text).build(), merge_rules.get(options.merge)()
        memories: list[State | None] = [None] * self.workers
        run = Run()
        for number in range(first, first + rounds):
            updates, decoded = self.updates(state, number), []
            for worker, update in enumerate(updates):
                seed = _seed(number, worker if options.own_seeds else 0)
                if getattr(codec, "own_rounding", False) and not options.own_seeds:
                    seed += _seed(number, worker)  # as `Plan.codec_seed` does
                figures = measure(codec, update, memories[worker], seed, self.shapes)
                decoded.append(codec.decode(figures.payload, self.shapes, seed))
                memories[worker] = codec.remember(update, memories[worker], decoded[-1])
                run.figures.append(figures)
            if codec.has_memory and (number - first + 1) % codec.memory_rounds == 0:
                memories = [None] * self.workers
            merged = merge(decoded)
            run.merged.append(cosine(mean(updates), merged))
            state = apply_outer(state, merged, self.spec.optimizer.outer_lr)
            run.losses.append(self.loss(state))
        return run

    def trained(self, rounds: int) -> State:
        """The model after `rounds` rounds of the dense codec and the mean, kept on disk."""
        spec = hashlib.sha256(self.spec.to_bytes()).hexdigest()[:16]
        path = BUILD / f"late-{spec}-{rounds}.safetensors"
        if not path.exists():
            state = self.genesis
            for number in range(rounds):
                state = apply_outer(state, mean(self.updates(state, number)), 1.0)
            path.write_bytes(save_state(state))
        return load_state(path.read_bytes(), self.shapes)


def _seed(number: int, worker: int) -> bytes:
    return hashlib.sha256(f"study {number} {worker}".encode()).digest()


def mean(updates: Sequence[Mapping[str, Tensor]]) -> State:
    """The mean of updates, by the job's own rule."""
    merged: State = merge_rules.get("mean")()(updates)
    return merged


def study(options: argparse.Namespace, console: Console) -> None:
    runs: dict[str, list[Run]] = {}
    for seed in range(options.seeds):
        first = options.late_rounds if options.phase == "late" else 0
        rounds = first + options.rounds
        demo = DemoJob(seed, rounds, options.workers)
        state = demo.genesis
        if first:
            start = demo if options.own_starts else DemoJob(0, rounds, options.workers)
            state = start.trained(first)
        console.print(f"[dim]seed {seed}: {options.phase} starts at {demo.loss(state):.4f}[/dim]")
        for text in ("dense", *options.codecs):
            began = time.monotonic()
            run = demo.run(options, text, state, first, options.rounds)
            runs.setdefault(text, []).append(run)
            took = time.monotonic() - began
            console.print(f"[dim]  {text}: {run.losses[-1]:.4f} ({took:.0f} s)[/dim]")
    console.print(table(options, runs))


def table(options: argparse.Namespace, runs: Mapping[str, Sequence[Run]]) -> Table:
    """One line a codec: means over seeds, the worst seed beside it."""
    title = (
        f"{options.phase}: {options.rounds} rounds, {options.workers} nodes, {options.seeds} "
        f"seeds, merged by {options.merge}"
    )
    columns = ("codec", "bytes", "ratio", "loss", "to dense", "worst seed", "goal", "cosine")
    shown = text_table(title, (*columns, "merged", "encode", "decode"))
    dense = [run.losses[-1] for run in runs["dense"]]
    for text, found in runs.items():
        losses = [run.losses[-1] for run in found]
        excess = [own / plain - 1 for own, plain in zip(losses, dense, strict=True)]
        figures = [item for run in found for item in run.figures]
        first = figures[0]
        over = statistics.mean(losses) / statistics.mean(dense) - 1
        shown.add_row(
            text,
            f"{first.wire_bytes:,}",
            f"{first.ratio:.2f}",
            f"{statistics.mean(losses):.4f}",
            f"{over:+.2%}",
            f"{max(excess):+.2%}",
            "" if text == "dense" else ("met" if over <= GOAL and first.ratio >= 100 else "missed"),
            f"{statistics.mean(item.cosine for item in figures):.3f}",
            f"{statistics.mean(value for run in found for value in run.merged):.3f}",
            f"{1000 * statistics.median(item.encode_s for item in figures):.1f} ms",
            f"{1000 * statistics.median(item.decode_s for item in figures):.1f} ms",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--phase", choices=("early", "late"), default="early")
    parser.add_argument("--codec", action="append", help="name or name:option=value,...; repeats")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--late-rounds", type=int, default=150)
    parser.add_argument("--merge", default="mean")
    parser.add_argument("--own-seeds", action="store_true", help="a seed per node, not per round")
    parser.add_argument("--own-starts", action="store_true", help="a late model for every seed")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    options.codecs = options.codec or ["polytope", "sparse"]
    torch.set_num_threads(options.threads)
    BUILD.mkdir(parents=True, exist_ok=True)
    study(options, Console(width=150))


if __name__ == "__main__":
    main()
