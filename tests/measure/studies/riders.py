# SPDX-License-Identifier: Apache-2.0
"""What a node earns under the score `alignment` that resends what is public instead of training.

Ten nodes train the demo's model for real (`tests/stage/memory/ten_trainers.py`); three of them are
riders in turn of every kind below. A rider knows the rule: it takes the known vectors out of its
direction itself and stretches what is left to the norm that honest nodes had left in the round
before. Its last line is no rider but a node that makes a quarter of the steps. The model goes on
by the honest merge of all ten. Prints each kind's pay in parts of an honest node's, without and
with `history`, and by how much honest nodes' pay for equal work differs (standard deviation over
mean). No gain is published, so nobody has the validation part. Asserts nothing.

    python -m tests.measure.studies.riders --rounds 20 --steps 12
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from rich.console import Console
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merges
from agents.mechanisms.score import Evidence
from agents.mechanisms.score.alignment import Alignment
from agents.training.state import State
from tests.measure.rows import text_table
from tests.stage.memory.ten_trainers import NODES, ten_trainers

RIDERS = 3
HONEST = NODES - RIDERS
HISTORY = 8
NOISE = 0.2
SETTINGS = (
    ("alike, dense, median", True, "dense", "median", {}),
    ("disjoint, dense, multi_krum", False, "dense", "multi_krum", {}),
    ("disjoint, sparse, multi_krum", False, "sparse", "multi_krum", {"mixing": True}),
)


class Round:
    """What is public when a round starts, and what honest nodes then send; fp64 vectors."""

    def __init__(self, model: Tensor, sent: Tensor, cheap: Tensor, past: Sequence[Round]) -> None:
        """`past`: the rounds before, newest first. `cheap`: a quarter of the steps."""
        self.model, self.sent, self.cheap, self.past = model, sent, cheap, past
        self.merged = torch.empty(0)

    def known(self) -> Tensor:
        """The newest merged updates and the model, [k, numbers]."""
        return torch.stack([*[one.merged for one in self.past[:HISTORY]], self.model])

    def left(self, rows: Tensor) -> Tensor:
        """`rows` [n, numbers] without their parts in the span of what is known."""
        known = self.known()
        axes = torch.linalg.qr((known / known.norm(dim=1, keepdim=True)).T).Q
        return rows - (rows @ axes) @ axes.T

    def usual(self) -> tuple[float, float]:
        """Median norms of the payloads of the round before: whole, and what was left of them."""
        last = self.past[0]
        norms = last.sent.norm(dim=1), last.left(last.sent).norm(dim=1)
        return float(norms[0].median()), float(norms[1].median())


Kind = Callable[[Round, int, torch.Generator], Tensor]


def decayed(past: Sequence[Round], of: Callable[[Round], Tensor]) -> Tensor:
    """The sum of 0.8^age * of(round) over rounds, newest first."""
    return torch.stack([0.8**age * of(one) for age, one in enumerate(past)]).sum(0)


def _noise(like: Tensor, length: float, source: torch.Generator) -> Tensor:
    row = torch.randn(like.shape, generator=source, dtype=torch.float64)
    return row * (length / row.norm())


def plain(now: Round, rider: int, source: torch.Generator) -> Tensor:
    """The decayed mean of the newest merges at the usual norm, with a little noise."""
    row = decayed(now.past[:HISTORY], lambda one: one.merged)
    length = now.usual()[0]
    return row * (length / row.norm()) + _noise(row, NOISE * length, source)


def stretched(direction: Callable[[Round], Tensor]) -> Kind:
    """What is left of a public direction, at the usual norm of such rests, with a little noise."""

    def send(now: Round, rider: int, source: torch.Generator) -> Tensor:
        row = now.left(direction(now)[None])[0]
        length = now.usual()[1]
        own = row * (length / row.norm()) if row.norm() > 0 else row
        return own + _noise(row, NOISE * length, source)

    return send


def _mean(one: Round) -> Tensor:
    return one.sent.mean(0)


def _merges(now: Round) -> Tensor:
    return decayed(now.past[:HISTORY], lambda one: one.merged)


def _older(now: Round) -> Tensor:
    rest = now.past[HISTORY:]
    return decayed(rest or now.past, lambda one: one.merged)


def quarter(now: Round, rider: int, source: torch.Generator) -> Tensor:
    """A quarter of the steps, stretched to the usual norm."""
    row = now.cheap[rider]
    return row * (now.usual()[0] / row.norm())


KINDS: dict[str, Kind] = {
    "decayed mean of merges, 20 % noise": plain,
    "merges older than history": stretched(_older),
    "signs of that mean": stretched(lambda now: torch.sign(_merges(now))),
    "cube of that mean": stretched(lambda now: _merges(now) ** 3),
    "the model": stretched(lambda now: -now.model),
    "mean of the last payloads": stretched(lambda now: _mean(now.past[0])),
    "decayed mean of payloads": stretched(lambda now: decayed(now.past[:HISTORY], _mean)),
    "a quarter of the steps": quarter,
}


def flat(state: State) -> Tensor:
    return torch.cat([state[name].reshape(-1) for name in sorted(state)]).double()


def trajectory(
    alike: bool, codec_name: str, rule: str, options: dict[str, bool], rounds: int, steps: int
) -> list[Round]:
    """The rounds of ten honest nodes."""
    nodes = ten_trainers(alike)
    nodes = replace(nodes, spec=nodes.spec.model_copy(update={"rounds": rounds}))
    codec, merge = codecs.get(codec_name)(), merges.get(rule)(**options)
    state = nodes.genesis()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    memories: list[State | None] = [None] * NODES
    found: list[Round] = []
    for number in range(rounds):
        sent = []
        for node, update in enumerate(nodes.honest(state, number, steps)):
            raw = codec.encode(update, memories[node], bytes(32))
            sent.append(codec.decode(raw, shapes, bytes(32)))
            memories[node] = codec.remember(update, memories[node], sent[-1])
        cheap = [nodes.train(node, state, number, max(1, steps // 4)) for node in range(RIDERS)]
        rows = torch.stack([flat(update) for update in sent])
        less = torch.stack([flat(update) for update in cheap])
        found.append(Round(flat(state), rows, less, found[::-1]))
        merged = merge(sent)
        found[-1].merged = flat(merged)
        state = nodes.step(state, merged)
    return found


def pay(rounds: Sequence[Round], kind: Kind, history: int) -> tuple[float, float]:
    """A rider's pay in parts of an honest node's, and the honest nodes' spread."""
    score = Alignment(history=history)
    source = torch.Generator().manual_seed(1)
    earned = [0.0] * NODES
    for now in rounds[2:]:  # before, nothing is known of what is left
        riding = [kind(now, rider, source) for rider in range(RIDERS)]
        rows = [*now.sent[:HONEST], *riding]
        known = tuple({"a": row.float()} for row in now.known()) if history else ()
        evidence = Evidence({}, (0,) * NODES, known=known)
        quality = score([{"a": row.float()} for row in rows], [1] * NODES, evidence).quality_ppm
        total = sum(quality) or 1
        earned = [old + own / total for old, own in zip(earned, quality, strict=True)]
    honest = statistics.mean(earned[:HONEST])
    return statistics.mean(earned[HONEST:]) / honest, statistics.pstdev(earned[:HONEST]) / honest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=12)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=140)
    for title, *setting in SETTINGS:
        rounds = trajectory(*setting, chosen.rounds, chosen.steps)
        rows = []
        for name, kind in KINDS.items():
            (before, wide), (after, spread) = pay(rounds, kind, 0), pay(rounds, kind, HISTORY)
            rows.append([name, f"{before:.2f}", f"{after:.2f}", f"{wide:.1%}", f"{spread:.1%}"])
        columns = ["three of ten send", "history 0", f"history {HISTORY}", "spread at 0", "spread"]
        title = f"{title}, {chosen.rounds} rounds of {chosen.steps} steps"
        console.print(text_table(title, columns, rows), markup=False)


if __name__ == "__main__":
    main()
