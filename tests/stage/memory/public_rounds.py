# SPDX-License-Identifier: Apache-2.0
"""Rounds of ten honest nodes, and what is public of them: for whoever wants to be paid for that.

Rule: all rows are what codecs decode, fp32, all tensors of a model in the order of their names.
Beside the ten payloads that are merged, each round holds what four of the nodes would have sent
after fewer or more steps from the same model. Those are not merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merges
from agents.training.spec import ModelSpec
from agents.training.state import State
from tests.stage.memory.ten_trainers import NODES, ten_trainers

LAZY = (7, 8, 9)  # nodes that are seen with a quarter of the steps
SLOW, FAST = 6, 5  # nodes that are seen with half and with twice the steps
_SEED = bytes(32)


@dataclass(frozen=True)
class Setting:
    """`alike`: all nodes draw from all of the text; else each from its own tenth."""

    name: str
    title: str
    alike: bool
    codec: str
    merge: str
    merge_options: tuple[tuple[str, bool], ...] = ()


SETTINGS = (
    Setting("alike", "alike, dense, median", True, "dense", "median"),
    Setting("krum", "disjoint, dense, multi_krum", False, "dense", "multi_krum"),
    Setting(
        *("sparse", "disjoint, sparse, multi_krum", False, "sparse", "multi_krum"),
        (("mixing", True),),
    ),
)


@dataclass(frozen=True)
class PublicRound:
    """One round: the model it starts from [n], payloads of all nodes [10, n], those of `LAZY`
    [3, n], `SLOW` and `FAST` [1, n], and the merged update [n]."""

    model: Tensor
    sent: Tensor
    quarter: Tensor
    half: Tensor
    twice: Tensor
    merged: Tensor


@dataclass(frozen=True)
class Trajectory:
    """Rounds, oldest first. `shapes`: of the model's tensors, by name, ascending."""

    setting: Setting
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    rounds: tuple[PublicRound, ...]

    def tensors(self) -> list[slice]:
        """Which numbers of a row belong to which tensor."""
        found, start = [], 0
        for _, shape in self.shapes:
            found.append(slice(start, start + math.prod(shape)))
            start = found[-1].stop
        return found

    def sendable(self, row: Tensor) -> Tensor:
        """What of a row the setting's codec carries, its memory empty."""
        codec = codecs.get(self.setting.codec)()
        pieces = zip(self.shapes, self.tensors(), strict=True)
        state = {name: row[piece].reshape(shape) for (name, shape), piece in pieces}
        raw = codec.encode(state, None, _SEED)
        return flat(codec.decode(raw, dict(self.shapes), _SEED))


def flat(state: State) -> Tensor:
    """All tensors of a state in the order of their names."""
    return torch.cat([state[name].reshape(-1) for name in sorted(state)]).float()


def trajectory(
    setting: Setting,
    seed: int,
    rounds: int,
    steps: int,
    model: ModelSpec | None = None,
    speeds: bool = True,
) -> Trajectory:
    """Train the rounds. `seed`: of the first weights and of all draws. `steps`: of a node in a
    round, a multiple of 4. `model`: see `ten_trainers`. Without `speeds` nobody makes half or twice
    the steps, and those rows are empty."""
    nodes = ten_trainers(setting.alike, seed, model, rounds)
    codec = codecs.get(setting.codec)()
    merge = merges.get(setting.merge)(**dict(setting.merge_options))
    state = nodes.genesis()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    memories: dict[tuple[int, int], State | None] = {}

    def decoded(number: int, node: int, many: int) -> State:
        update, key = nodes.train(node, state, number, many), (node, many)
        before = memories.get(key)
        sent = codec.decode(codec.encode(update, before, _SEED), shapes, _SEED)
        memories[key] = codec.remember(update, before, sent)
        return sent

    def stacked(number: int, of: Sequence[int], many: int) -> Tensor:
        return torch.stack([flat(decoded(number, node, many)) for node in of])

    found = []
    for number in range(rounds):
        sent = [decoded(number, node, steps) for node in range(NODES)]
        sent_rows = torch.stack([flat(one) for one in sent])
        merged = merge(sent)
        found.append(
            PublicRound(
                flat(state),
                sent_rows,
                stacked(number, LAZY, steps // 4),
                stacked(number, (SLOW,), steps // 2) if speeds else sent_rows[:0],
                stacked(number, (FAST,), steps * 2) if speeds else sent_rows[:0],
                flat(merged),
            )
        )
        state = nodes.step(state, merged)
    ordered = tuple((name, shapes[name]) for name in sorted(shapes))
    return Trajectory(setting, ordered, tuple(found))


def kept(folder: Path | None, setting: Setting, seed: int, rounds: int, steps: int) -> Trajectory:
    """`trajectory`, read from a file of `folder` if it lies there, else written to it."""
    if folder is None:
        return trajectory(setting, seed, rounds, steps)
    file = folder / f"{setting.name}-{seed}-{rounds}-{steps}.pt"
    if not file.exists():
        made = trajectory(setting, seed, rounds, steps)
        torch.save({"shapes": made.shapes, "rounds": [vars(one) for one in made.rounds]}, file)
    stored: dict[str, Any] = torch.load(file)
    shapes = tuple((name, tuple(shape)) for name, shape in stored["shapes"])
    return Trajectory(setting, shapes, tuple(PublicRound(**one) for one in stored["rounds"]))
