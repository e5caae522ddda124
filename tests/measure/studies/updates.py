# SPDX-License-Identifier: Apache-2.0
"""How long a round's published update is, and what further coding of its signs could gain.

The demo's model learns the demo's text for some rounds under a codec and a merge, by the agents'
own functions; every update is packed (`agents/training/update.py`). Of signed updates the entropy
of the sign bits is measured in the ways an entropy coder could use: of each tensor, of each row, of
a sign given its left neighbour's, and given the same parameter's sign a round ago, which whoever
catches up has. Each is the entropy of the counted frequencies, less than a coder that must learn
them takes. Prints a table and asserts nothing.

    python -m tests.measure.studies.updates --rounds 60
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merge_rules
from agents.storage.content_store import open_store
from agents.training.data import DataSource, pack
from agents.training.documents import stdlib_corpus
from agents.training.evaluate import validation_loss
from agents.training.flat import FlatModel
from agents.training.local import train_local
from agents.training.model import init_state
from agents.training.spec import Hyperparameters, demo_spec
from agents.training.state import State, apply_outer
from agents.training.update import pack_update, read_update
from tests.measure.rows import text_table
from tests.measure.studies.codecs import BUILD

NODES = 6
BATCHES = 4  # a node and round
SIGNED: dict[str, Any] = {"inner": "gradient", "outer_lr": 2e-3, "outer_decay": True}
# name: (codec, its options, merge, optimizer)
JOBS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "dense, mean": ("dense", {}, "mean", {}),
    "sparse, mean": ("sparse", {}, "mean", {}),
    "sparse, norm_clip": ("sparse", {}, "norm_clip", {}),
    "demo, demo_sign": ("demo", {}, "demo_sign", SIGNED),
}

Signs = Mapping[str, NDArray[np.bool_]]


@dataclass
class Figures:
    """One row of the table: a number a round."""

    loss: float = 0.0
    parameters: int = 0
    zeros: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    entropies: list[tuple[float, float, float, float]] = field(default_factory=list)


def entropy(negative: int, count: int) -> float:
    """Bits in all that `count` signs take, of which `negative` are minus."""
    share = negative / count if count else 0.0
    if share in (0.0, 1.0):
        return 0.0
    return float(-count * (share * np.log2(share) + (1 - share) * np.log2(1 - share)))


def given(signs: NDArray[np.bool_], context: NDArray[np.bool_]) -> float:
    """Bits in all, with a frequency for each value of the context."""
    parts = [signs[context == value] for value in (False, True)]
    return sum(entropy(int(part.sum()), part.size) for part in parts)


def entropies(signs: Signs, before: Signs | None) -> tuple[float, float, float, float]:
    """Bits a sign: by tensor, by row, given the neighbour, given the round before."""
    tensor = row = neighbour = past = 0.0
    count = sum(part.size for part in signs.values())
    for name, part in signs.items():
        flat = part.reshape(-1)
        tensor += entropy(int(flat.sum()), flat.size)
        rows = part.reshape(-1, part.shape[-1])
        row += sum(entropy(int(one.sum()), one.size) for one in rows)
        neighbour += 1 + given(flat[1:], flat[:-1])
        past += given(flat, flat if before is None else before[name].reshape(-1))
    return tensor / count, row / count, neighbour / count, past / count if before else 1.0


def train(name: str, rounds: int, seed: int) -> Figures:
    codec_name, options, merge_name, optimizer = JOBS[name]
    store = open_store(str(BUILD / "store"))
    cid = BUILD / "corpus.cid"
    if not cid.exists():
        cid.write_text(pack(stdlib_corpus(), store))
    plain = demo_spec(cid.read_text(), rounds=rounds, batches_per_round=NODES * BATCHES)
    spec = plain.from_dict(
        {
            **plain.model_dump(mode="json"),
            "data_seed": seed,
            "optimizer": plain.optimizer.model_dump(mode="json") | optimizer,
            "model": plain.model.model_dump(mode="json") | {"init_seed": seed},
        }
    )
    codec = codecs.get(codec_name)(**options)
    merge = merge_rules.get(merge_name)()
    data, net, state = DataSource(store, spec), FlatModel(spec.model), init_state(spec.model)
    shapes = {key: tuple(tensor.shape) for key, tensor in state.items()}
    memories: list[State | None] = [None] * NODES
    found = Figures(parameters=sum(tensor.numel() for tensor in state.values()))
    last: Signs | None = None
    for number in range(rounds):
        hyper, decoded = Hyperparameters.of(spec, number), []
        for node in range(NODES):
            first = (number * NODES + node) * BATCHES
            batches = [data.batch(index) for index in range(first, first + BATCHES)]
            update = train_local(net, state, batches, hyper, bytes(32)).pseudo_gradient
            codec_seed = hashlib.sha256(f"updates {number}".encode()).digest()
            payload = codec.encode(update, memories[node], codec_seed)
            decoded.append(codec.decode(payload, shapes, codec_seed))
            memories[node] = codec.remember(update, memories[node], decoded[-1])
        merged = merge(decoded)
        raw = pack_update(merged)
        state = apply_outer(state, read_update(raw, shapes), spec.outer_lr_at(number))
        found.sizes.append(len(raw))
        zeros = sum(int((tensor == 0).sum()) for tensor in merged.values())
        found.zeros.append(zeros / found.parameters)
        if merge_name == "demo_sign":
            signs = {key: tensor.numpy() < 0 for key, tensor in merged.items()}
            found.entropies.append(entropies(signs, last))
            last = signs
    found.loss = validation_loss(net, state, data.val_batches(spec.eval_batches))
    return found


def show(rows: Mapping[str, Sequence[Figures]], rounds: int) -> Table:
    """Means over rounds and seeds."""
    columns = ("job", "loss", "fp32 bytes", "bytes", "bits/parameter", "least", "most", "zeros")
    more = ("H tensor", "H row", "H neighbour", "H round before")
    title = f"published updates, {NODES} nodes, {rounds} rounds"
    table = text_table(title, (*columns, *more))
    for name, runs in rows.items():
        count = runs[0].parameters
        sizes = [size for run in runs for size in run.sizes]
        bits = [8 * size / count for size in sizes]
        known = [item for run in runs for item in run.entropies[1:]]
        table.add_row(
            name,
            f"{np.mean([run.loss for run in runs]):.3f}",
            f"{4 * count:,}",
            f"{np.mean(sizes):,.0f}",
            f"{np.mean(bits):.3f}",
            f"{min(bits):.3f}",
            f"{max(bits):.3f}",
            f"{np.mean([share for run in runs for share in run.zeros]):.3%}",
            *(f"{value:.4f}" for value in (np.mean(known, axis=0) if known else ())),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--job", action="append", choices=list(JOBS), help="repeats; default all")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    BUILD.mkdir(parents=True, exist_ok=True)
    rows = {
        name: [train(name, asked.rounds, seed) for seed in range(asked.seeds)]
        for name in asked.job or JOBS
    }
    Console(width=180).print(show(rows, asked.rounds))


if __name__ == "__main__":
    main()
