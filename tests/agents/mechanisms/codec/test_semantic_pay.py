# SPDX-License-Identifier: Apache-2.0
"""What poisoners earn by `alignment` where updates travel by the codec `semantic`, under DP-SGD.

Ten updates of a round: seven honest ones, which have a direction in common and are else noise
(their cosines are 0.016, as those of the job dso's steps), one reversed, one reversed and a
thousand times as long, and noise. With `-s` the figures that docs/compression.md quotes are
printed.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from torch import Tensor

from agents.mechanisms import codec as codecs
from agents.mechanisms import merge as merges
from agents.mechanisms import score as scores
from agents.mechanisms.score import Evidence

NUMBERS, HONEST, NODES, ROUNDS = 108_864, 7, 10, 10
COSINE, NORM = 0.016, 3.8
OURS = {"ratio": 100.0, "clip": 6.0, "bits": 2, "width": 1.0}
SOURCE = {"dimension": 256, "clip": 6.0, "decoder": "transpose"}
SHAPES = {"a": (NUMBERS,)}


def unit(draw: torch.Generator) -> Tensor:
    found = torch.randn(NUMBERS, generator=draw)
    return found / found.norm()


def updates(number: int) -> list[dict[str, Tensor]]:
    """What the ten nodes of a round mean to send."""
    draw = torch.Generator().manual_seed(number)
    common = math.sqrt(COSINE) * unit(draw)
    good = [common + math.sqrt(1 - COSINE) * unit(draw) for _ in range(NODES - 1)]
    sent = [*good[:HONEST], -good[HONEST], -1_000 * good[HONEST + 1], unit(draw)]
    return [{"a": (NORM * each).float()} for each in sent]


def earned(options: dict[str, Any], chance: float, own_rounding: bool) -> list[float]:
    """By poisoner, what it earns in ten rounds as a share of an honest node's mean."""
    codec, score = codecs.get("semantic")(**options), scores.get("alignment")(chance=chance)
    merge, total = merges.get("multi_krum")(), [0.0] * NODES
    for number in range(ROUNDS):
        seed = hashlib.sha256(f"round {number}".encode()).digest()
        sent = []
        for node, update in enumerate(updates(number)):
            own = hashlib.sha256(seed + bytes([node])).digest()
            named = seed + own if own_rounding else seed
            sent.append(codec.decode(codec.encode(update, None, named), SHAPES, named))
        evidence = Evidence(merge(sent), (0,) * NODES)
        quality = score(sent, [4] * NODES, evidence).quality_ppm
        paid = sum(quality)
        total = [
            was + (part / paid if paid else 0.0) for was, part in zip(total, quality, strict=True)
        ]
    usual = sum(total[:HONEST]) / HONEST
    assert usual > 0
    return [part / usual for part in total[HONEST:]]


def said(name: str, shares: list[float]) -> list[float]:
    flipped, long, noise = (f"{share:.1%}" for share in shares)
    print(f"\n{name}: reversed {flipped}, a thousand times as long {long}, noise {noise}")
    return shares


def test_poisoners_earn_less_than_a_fifth_at_our_settings() -> None:
    """The control is the codec as it was: all nodes round by the same draws."""
    shared = said("ours, shared rounding", earned(OURS, 0.023, own_rounding=False))
    assert max(shared) > 0.7
    own = said("ours", earned(OURS, 0.023, own_rounding=True))
    assert max(own) < 0.2


def test_at_the_settings_of_the_source_pay_does_not_tell_them_apart() -> None:
    """256 numbers: chance makes cosines of 0.06, four times those of honest updates."""
    found = said("the source's", earned(SOURCE, 0.0, own_rounding=True))
    assert max(found) > 0.2
