# SPDX-License-Identifier: Apache-2.0
"""Public screening: lists suspicious payloads; suspicion orders a check and punishes nobody.

From the published payloads of a round alone, every verifier derives the same list of flags:

- DUPLICATE: two nodes published the same tensors, bit for bit.
- NEAR_COPY: two payloads point in nearly the same direction. Pairs are found by a 256-number
  fingerprint (random signs, then a sum of every 256th element), whose signs come from a seed drawn
  after the reveal, so no payload can be made to look different in it; then the exact cosine
  decides.
- NORM: a payload is much longer or shorter than the median one, or all zeros.
- DIRECTION: a payload agrees with the merged update far less than the median payload does.

All sums are float64 in a fixed order, so the flags are the same on every machine. Limits: honest
nodes can be flagged, and a copier who mixes in noise of more than about 1/7 of its norm is not a
NEAR_COPY at the default; only the random sample of spot checks finds such a node.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from agents.training.norms import LANES, Payload, chunks, cosine, lanes, norm

DUPLICATE = "DUPLICATE"
NEAR_COPY = "NEAR_COPY"
NORM = "NORM"
DIRECTION = "DIRECTION"
# A fingerprint's cosine errs by about (1 - c^2) / sqrt(256), so a pair this much below the limit
# can't be above it.
_SCREEN_MARGIN = 0.05


@dataclass(frozen=True)
class Limits:
    """When to flag; dimensionless."""

    near_copy_cosine: float = 0.99
    norm_ratio: float = 4.0
    direction_share: float = 0.25


@dataclass(frozen=True, order=True)
class Flag:
    """Why to re-execute `node_id`.

    `others`: its look-alikes. `value`: the figure that raised the flag.
    """

    node_id: int
    kind: str
    others: tuple[int, ...]
    value: float


def screen(
    payloads: Mapping[int, Payload], merged: Payload, seed: bytes, limits: Limits | None = None
) -> list[Flag]:
    """Flags on a round's checked payloads (node id -> fp32 dict), ascending by node id and kind.

    `merged`: the round's update. `seed`: at least 16 bytes, known to nobody before the reveal
    ended. ValueError if names or shapes differ.
    """
    bounds = limits or Limits()
    nodes = sorted(payloads)
    if not nodes:
        return []
    norms = {node: norm(payloads[node]) for node in nodes}
    flags = _duplicates(payloads) + _norms(norms, bounds)
    flags += _directions({n: cosine(payloads[n], merged) for n in nodes}, bounds)
    exact = {(flag.node_id, other) for flag in flags for other in flag.others}
    flags += _near_copies(payloads, seed, bounds, exact)
    return sorted(flags)


def fingerprint(payload: Payload, seed: bytes) -> NDArray[np.float64]:
    """float64 [256]: per tensor, element i times a random sign is added to number i mod 256.

    Signs are the bits of numpy's raw Philox stream keyed by sha256(seed || tensor name); the cosine
    of two fingerprints estimates that of the payloads with an error of about 1/16.
    """
    total = np.zeros(LANES)
    stream: np.random.Philox | None = None
    for name, offset, (values,) in chunks(payload):
        if stream is None or offset == 0:
            key = hashlib.sha256(seed + name.encode()).digest()[:16]
            stream = np.random.Philox(key=int.from_bytes(key, "little"))
        words = np.asarray(stream.random_raw(-(-values.size // 64)), "<u8")
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: values.size]
        total += lanes(np.where(bits == 1, 1.0, -1.0) * values)
    return total


def _duplicates(payloads: Mapping[int, Payload]) -> list[Flag]:
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    for node in sorted(payloads):
        digest = hashlib.sha256()
        for _, _, (values,) in chunks(payloads[node]):
            digest.update(np.ascontiguousarray(values).data)
        groups[digest.digest()].append(node)
    return [
        Flag(node, DUPLICATE, tuple(other for other in group if other != node), 1.0)
        for group in groups.values()
        if len(group) > 1
        for node in group
    ]


def _norms(norms: Mapping[int, float], limits: Limits) -> list[Flag]:
    middle = statistics.median(norms.values())
    flags = []
    for node, value in norms.items():
        ratio = value / middle if middle else float(value > 0) * math.inf
        if value == 0 or not 1 / limits.norm_ratio <= ratio <= limits.norm_ratio:
            flags.append(Flag(node, NORM, (), 0.0 if value == 0 else ratio))
    return flags


def _directions(cosines: Mapping[int, float], limits: Limits) -> list[Flag]:
    least = limits.direction_share * max(0.0, statistics.median(cosines.values()))
    return [Flag(node, DIRECTION, (), value) for node, value in cosines.items() if value < least]


def _near_copies(
    payloads: Mapping[int, Payload], seed: bytes, limits: Limits, known: set[tuple[int, int]]
) -> list[Flag]:
    marks = {node: fingerprint(payloads[node], seed) for node in sorted(payloads)}
    sizes = {node: math.sqrt(math.fsum(mark * mark)) for node, mark in marks.items()}
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for one, other in combinations(marks, 2):
        scale = sizes[one] * sizes[other]
        if (one, other) in known or not scale:
            continue
        if math.fsum(marks[one] * marks[other]) / scale < limits.near_copy_cosine - _SCREEN_MARGIN:
            continue
        value = cosine(payloads[one], payloads[other])
        if value >= limits.near_copy_cosine:
            found[one][other] = found[other][one] = value
    return [
        Flag(node, NEAR_COPY, tuple(sorted(others)), max(others.values()))
        for node, others in found.items()
    ]
