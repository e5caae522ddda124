# SPDX-License-Identifier: Apache-2.0
"""How much honest payloads overlap, and what is found out about copied ones, on real gradients.

Eight nodes train the demo's model, each on its own text, with the codec's memory running on: six by
the recipe, one on twice the data (its own first), one with three times the rate. After each round
every node in turn is replaced by a copier of its neighbour, who has its own data assigned and did
nothing: exact, with sent numbers dropped, with signs flipped, or with noise mixed in before
encoding again. Prints, per codec and round: the overlap of honest payloads, the same corrected for
the usual, how far payloads lean to their own data, and which share of the copiers is flagged, and
found to be COPIED, at the defaults. With --controls, verdicts are reached from that many other
payloads only. Prints tables and asserts nothing.

    python -m tests.measure.studies.near_copies --rounds 20
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping
from itertools import permutations

import numpy as np
import torch
from rich.console import Console

from agents.mechanisms import merge as merge_rules
from agents.mechanisms.codec.parts.support import Support
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.training.evaluate import validation_loss
from agents.training.local import train_local
from agents.training.spec import Hyperparameters
from agents.training.state import State, apply_outer
from agents.verify.overlap import corrected, overlap
from agents.verify.provenance import Origin, Provenance, provenance
from tests.measure.rows import text_table
from tests.measure.studies.codecs import BUILD, STEPS, DemoJob, Setting

NODES = 8
SHOWN = (0, 1, 2, 5, 9, 14, 19, 29, 39)


@dataclasses.dataclass(frozen=True)
class Job:
    """What the nodes run. `batches` a round and node, of `size` sequences of 64 bytes."""

    codec: str
    inner: str
    merge: str
    rate: float
    batches: int
    size: int

    def __str__(self) -> str:
        return f"{self.codec}, inner {self.inner}, {self.batches} batches of {self.size}"


JOBS = (
    Job("sparse", "adamw", "norm_clip", 1.0, 12, 8),
    Job("demo", "adamw", "demo_sign", 0.003, 12, 8),
    Job("demo", "gradient", "demo_sign", 0.003, 12, 8),
    Job("demo:per_chunk=128,decay=0.9", "gradient", "demo_sign", 0.004, 2, 2),  # make demo's
)
NONE = bytes(32)


def drop(support: Support, share: float, generator: np.random.Generator) -> Support:
    """A support without a random share of its places."""
    kept = generator.random(support.size) >= share
    return Support(support.places[kept], support.negative[kept])


def flip(support: Support, share: float, generator: np.random.Generator) -> Support:
    """A support with a random share of its signs turned."""
    turned = generator.random(support.size) < share
    return Support(support.places, support.negative ^ turned)


class EightNodes:
    """Eight nodes' payloads, round by round, and what the recipe gives on their data."""

    def __init__(self, job: Job, rounds: int, seed: int) -> None:
        self.job = job
        self.demo = DemoJob(seed, rounds, NODES + 1)
        self.codec, self.merge = Setting(job.codec).build(), merge_rules.get(job.merge)()
        self.memories: list[State | None] = [None] * NODES
        self.state = self.demo.genesis
        self.number = 0
        self.decoded: list[State] = []
        self.revealed: dict[int, Support] = {}
        self.redone: dict[int, Support] = {}

    def round(self) -> None:
        """One round of all nodes; the model moves at the next call."""
        if self.decoded:
            self.state = apply_outer(self.state, self.merge(self.decoded), self.job.rate)
        hyper = Hyperparameters.of(self.demo.spec, self.number)
        hyper = dataclasses.replace(hyper, inner=self.job.inner)
        self.decoded = []
        for node in range(NODES):
            redone = self._train(node, hyper)
            update = redone
            if node == NODES - 2:
                update = self._train(node, hyper, twice=True)
            elif node == NODES - 1:
                fast = dataclasses.replace(hyper, lr=3 * hyper.lr)
                update = self._train(node, fast)
            payload = self.codec.encode(update, self.memories[node], NONE)
            self.decoded.append(self.codec.decode(payload, self.demo.shapes, NONE))
            self.memories[node] = self.codec.remember(
                update, self.memories[node], self.decoded[node]
            )
            self.revealed[node] = self.support(payload)
            self.redone[node] = self.support(self.codec.encode(redone, None, NONE))
        self.number += 1

    def support(self, payload: bytes) -> Support:
        found: Support = self.codec.support(payload, self.demo.shapes, NONE)
        return found

    def noisy(self, node: int, ratio: float) -> tuple[Support, State]:
        """A node's payload with noise of `ratio` times its norm, encoded again; and decoded."""
        generator = torch.Generator().manual_seed(1000 * self.number + node)
        norm = math.sqrt(sum(float(t.double().square().sum()) for t in self.decoded[node].values()))
        std = ratio * norm / math.sqrt(sum(t.numel() for t in self.decoded[node].values()))
        mixed = {
            name: tensor + std * torch.randn(tensor.shape, generator=generator)
            for name, tensor in self.decoded[node].items()
        }
        payload = self.codec.encode(mixed, None, NONE)
        return self.support(payload), self.codec.decode(payload, self.demo.shapes, NONE)

    def gain(self, update: State) -> float:
        """By how many nats a fifth of the merge's step along one payload lowers the held-out loss.

        As a validator measures it: by the job's merge of this payload alone.
        """
        before = validation_loss(self.demo.net, self.state, self.demo.held_out)
        moved = apply_outer(self.state, self.merge([update]), 0.2 * self.job.rate)
        return before - validation_loss(self.demo.net, moved, self.demo.held_out)

    def _train(self, node: int, hyper: Hyperparameters, twice: bool = False) -> State:
        demo = self.demo
        batches = self._batches(node) + (self._batches(NODES) if twice else [])
        return train_local(demo.net, self.state, batches, hyper, NONE).pseudo_gradient

    def _batches(self, node: int) -> list[torch.Tensor]:
        first = (self.number * (NODES + 1) + node) * STEPS
        return [self.demo.data.batch(first + k)[: self.job.size] for k in range(self.job.batches)]


def excess(supports: Mapping[int, Support], i: int, j: int) -> float:
    """The corrected overlap of i and j."""
    nodes = sorted(supports)
    table = [[overlap(supports[a], supports[b]) for b in nodes] for a in nodes]
    return corrected(table, nodes.index(i), nodes.index(j))


@dataclasses.dataclass(frozen=True)
class Copy:
    """One way to copy: its name and what becomes of the neighbour's support."""

    name: str
    make: Callable[[EightNodes, int], Support]


def _dropped(share: float) -> Copy:
    def make(eight: EightNodes, node: int) -> Support:
        return drop(eight.revealed[node], share, np.random.default_rng(node))

    return Copy(f"drop {share:.0%}", make)


def _flipped(share: float) -> Copy:
    def make(eight: EightNodes, node: int) -> Support:
        return flip(eight.revealed[node], share, np.random.default_rng(node))

    return Copy(f"flip {share:.0%}", make)


def _noised(ratio: float) -> Copy:
    return Copy(f"noise {ratio:g}", lambda eight, node: eight.noisy(node, ratio)[0])


COPIES = (
    Copy("exact", lambda eight, node: eight.revealed[node]),
    *map(_dropped, (0.2, 0.4, 0.6)),
    *map(_flipped, (0.1, 0.2, 0.3)),
    *map(_noised, (0.5, 1.0, 2.0)),
)


def judge(
    eight: EightNodes, revealed: Mapping[int, Support], node: int, other: int, controls: int
) -> Provenance:
    """The verdict on `node`, flagged with `other`, from so many other payloads."""
    outside = [k for k in sorted(revealed) if k not in (node, other)][:controls]
    shown = {k: revealed[k] for k in (node, other, *outside)}
    return provenance(node, [other], shown, eight.redone, Gauntlet().overlap_margin)


HONEST = (
    "round",
    "loss",
    "overlap, median",
    "most",
    "corrected, most",
    "lean to own, least",
    "median",
    "twice the data",
    "3 x rate",
    "own / unclear / copied, of all pairs",
)
COPIED = ("round", *(copy.name for copy in COPIES), "gain left, noise 0.5 / 1 / 2")
FLAGGED = (
    "copiers flagged, of those COPIED; "
    "last column: what noise leaves of the payload's effect on the loss"
)


def honest_row(eight: EightNodes, controls: int) -> list[str]:
    """One round of what honest nodes look like."""
    nodes = range(NODES)
    table = [[overlap(eight.revealed[a], eight.revealed[b]) for b in nodes] for a in nodes]
    found = {
        (i, j): judge(eight, eight.revealed, i, j, controls) for i, j in permutations(nodes, 2)
    }
    leans = {pair: verdict.lean for pair, verdict in found.items()}
    count = [sum(v.origin is o for v in found.values()) for o in Origin]
    plain = [table[i][j] for i in nodes for j in range(i)]
    return [
        str(eight.number - 1),
        f"{eight.demo.loss(eight.state):.2f}",
        f"{statistics.median(plain):.2f}",
        f"{max(plain):.2f}",
        f"{max(corrected(table, i, j) for i in nodes for j in range(i)):.2f}",
        f"{min(leans.values()):+.3f}",
        f"{statistics.median(leans.values()):+.3f}",
        f"{min(v for (i, _), v in leans.items() if i == NODES - 2):+.3f}",
        f"{min(v for (i, _), v in leans.items() if i == NODES - 1):+.3f}",
        f"{count[0]} / {count[2]} / {count[1]}",
    ]


def copier_row(eight: EightNodes, controls: int) -> list[str]:
    """One round of what copiers look like."""
    limit = Gauntlet().overlap
    row = [str(eight.number - 1)]
    for copy in COPIES:
        flagged = convicted = 0
        for node in range(NODES):
            victim = (node + 1) % NODES
            revealed = eight.revealed | {node: copy.make(eight, victim)}
            if excess(revealed, node, victim) >= limit:
                flagged += 1
                origin = judge(eight, revealed, node, victim, controls).origin
                convicted += origin is Origin.COPIED
                honest = judge(eight, revealed, victim, node, controls).origin
                assert honest is not Origin.COPIED, "a victim was condemned"
        row.append(f"{flagged}/{NODES}, {convicted}")
    plain = eight.gain(eight.noisy(0, 0.0)[1])
    left = [eight.gain(eight.noisy(0, ratio)[1]) / plain for ratio in (0.5, 1.0, 2.0)]
    return [*row, " / ".join(f"{value:.0%}" for value in left)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--controls", type=int, default=NODES - 2)
    parser.add_argument("--only", type=int, help="number of one job, from 0")
    given = parser.parse_args()
    torch.set_num_threads(1)
    BUILD.mkdir(parents=True, exist_ok=True)
    console = Console(width=190)
    for number, job in enumerate(JOBS):
        if given.only not in (None, number):
            continue
        eight = EightNodes(job, given.rounds, given.seed)
        honest, copiers = [], []
        for _ in range(given.rounds):
            eight.round()
            if eight.number - 1 in SHOWN:
                honest.append(honest_row(eight, given.controls))
                copiers.append(copier_row(eight, given.controls))
        console.print(text_table(f"{job}: honest payloads", HONEST, honest, left=0))
        console.print(text_table(f"{job}: {FLAGGED}", COPIED, copiers, left=0))


if __name__ == "__main__":
    main()
