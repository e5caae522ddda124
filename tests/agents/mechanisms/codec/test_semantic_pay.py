# SPDX-License-Identifier: Apache-2.0
"""What poisoners earn by `alignment` where updates travel by the codec `semantic`, under DP-SGD.

Ten updates of a round: seven honest ones, which have a direction in common and are else noise, and
three poisoners'. What updates have in common falls from round to round, as it did in two runs of
the job dso with AdamW's usual `eps` (cosines of 0.015 in the first round and 0.004 in the last).
One poisoner has data unlike all others', as the trainer of that job whose text is Python's tables
of character sets: its gradient's cosine with the others' was 0.13 to 0.25 in round 5. Its reversed
update is hardly more opposed to theirs than noise. With `-s` the figures that docs/compression.md
quotes are printed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merges
from agents.mechanisms import score as scores
from agents.mechanisms.score import Evidence

NUMBERS, HONEST, ROUNDS = 108_864, 7, 20
COSINES, NORM, UNLIKE = (0.016, 0.004), 3.8, 0.2
OURS = {"ratio": 100.0, "clip": 6.0, "bits": 2, "width": 1.0}
CHANCE = 0.023  # 3 / sqrt(17,128): of so many rows
SOURCE = {"dimension": 256, "clip": 6.0, "decoder": "transpose"}
SHAPES = {"a": (NUMBERS,)}

Draw = torch.Generator
Poisoners = Callable[[Draw, Tensor, float], list[Tensor]]


def unit(draw: Draw) -> Tensor:
    found = torch.randn(NUMBERS, generator=draw)
    return found / found.norm()


def worked(draw: Draw, common: Tensor, share: float) -> Tensor:
    """Of a node whose cosine with the common direction is `share`."""
    return share * common + math.sqrt(1 - share**2) * unit(draw)


def three_alone(draw: Draw, common: Tensor, share: float) -> list[Tensor]:
    """One reverses, one with unlike data reverses and sends a thousand times as much, one sends
    noise."""
    unlike = worked(draw, common, UNLIKE * share)
    return [-worked(draw, common, share), -1_000 * unlike, unit(draw)]


def clique(draw: Draw, common: Tensor, share: float) -> list[Tensor]:
    """Three agree on a direction that nobody else has."""
    invented = unit(draw)
    return [worked(draw, invented, 0.9) for _ in range(3)]


def updates(number: int, poisoners: Poisoners) -> list[dict[str, Tensor]]:
    """What the ten nodes of a round mean to send."""
    draw, (first, last) = Draw().manual_seed(number), COSINES
    share = math.sqrt(first + (last - first) * (number % ROUNDS) / (ROUNDS - 1))
    common = unit(draw)
    good = [worked(draw, common, share) for _ in range(HONEST)]
    sent = [*good, *poisoners(draw, common, share)]
    return [{"a": (NORM * each).float()} for each in sent]


def earned(
    options: dict[str, Any],
    chance: float,
    poisoners: Poisoners = three_alone,
    own_rounding: bool = True,
) -> list[float]:
    """By poisoner, what it earns in all rounds as a share of an honest node's mean."""
    codec, score = codecs.get("semantic")(**options), scores.get("alignment")(chance=chance)
    merge, total = merges.get("multi_krum")(), [0.0] * (HONEST + 3)
    for number in range(ROUNDS):
        seed = hashlib.sha256(f"round {number}".encode()).digest()
        sent = []
        for node, update in enumerate(updates(number, poisoners)):
            own = hashlib.sha256(seed + bytes([node])).digest()
            named = seed + own if own_rounding else seed
            sent.append(codec.decode(codec.encode(update, None, named), SHAPES, named))
        evidence = Evidence(merge(sent), (0,) * len(sent))
        quality = score(sent, [4] * len(sent), evidence).quality_ppm
        paid = sum(quality)
        total = [
            was + (part / paid if paid else 0.0) for was, part in zip(total, quality, strict=True)
        ]
    usual = sum(total[:HONEST]) / HONEST
    assert usual > 0
    return [part / usual for part in total[HONEST:]]


def said(name: str, shares: list[float]) -> list[float]:
    print(f"\n{name}: {', '.join(f'{share:.1%}' for share in shares)}")
    return shares


def test_poisoners_earn_less_than_a_fifth_at_our_settings() -> None:
    """The controls are the codec as it was, by which all nodes rounded by the same draws, and a
    score that takes chance for a direction."""
    shared = said("shared rounding", earned(OURS, 0.0, own_rounding=False))
    assert min(shared) > 0.7
    lots = said("no chance", earned(OURS, 0.0))
    assert max(lots) > 0.2
    assert max(said("ours", earned(OURS, CHANCE))) < 0.05


def test_three_poisoners_who_agree_earn_less_than_a_fifth() -> None:
    assert max(said("a clique of three", earned(OURS, CHANCE, clique))) < 0.2


def test_at_the_settings_of_the_source_pay_does_not_tell_them_apart() -> None:
    """256 numbers: chance makes cosines of 0.06, four times those of honest updates."""
    found = said("the source's", earned(SOURCE, 0.0))
    assert max(found) > 0.2
