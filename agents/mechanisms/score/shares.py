# SPDX-License-Identifier: Apache-2.0
"""The score `shares`: batches x how often a node's signs agree with everyone else's.

Per coordinate, node i is compared with s = sign(sum over j != i of sign(u_j)), the majority of the
*other* nodes, so nobody votes for itself. quality_i = max(0, agree - disagree) / (agree +
disagree), in parts per million rounded down; coordinates where s or sign(u_i) is zero count for
neither, and a node without any compared coordinate has quality 0. A single node, having nobody to
be compared with, has quality 1,000,000. Only signs enter, so scaling a payload changes nothing;
only integers are counted, so every machine gets the same score. Signs of pure noise agree as often
as not: quality near 0.

Limit: agreement is evidence of honest work and no proof of it. Whoever copies the majority's signs
scores well here and is caught by re-execution, not by this rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from agents.mechanisms.rows import Payload, check, chunks
from agents.mechanisms.score import Evidence, Scores, register

PPM = 1_000_000
CHUNK = 65536
_MAX_NODES = 32767  # The vote per coordinate is an int16.


@register("shares")
@dataclass(frozen=True)
class Shares:
    """The scoring rule `shares`; it has no options and needs no evidence."""

    needs_gains: ClassVar[bool] = False
    needs_updates: ClassVar[int] = 0

    def __call__(
        self,
        payloads: Sequence[Payload],
        batches: Sequence[int],
        evidence: Evidence | None = None,
    ) -> Scores:
        """Quality and contribution of each node; see the module and
        `agents.mechanisms.score.Score`."""
        quality = quality_ppm(payloads)
        return Scores(tuple(quality), tuple(contributions(batches, quality)))


def quality_ppm(payloads: Sequence[Payload]) -> list[int]:
    """Leave-one-out sign agreement per node, integer ppm in 0..1,000,000.

    `payloads`: finite fp32 dicts of equal names and shapes. Memory beyond the input: about
    (n + 10) * 64 KiB. ValueError for an empty or mixed input.
    """
    check(payloads)
    count = len(payloads)
    if count == 1:
        return [PPM]
    if count > _MAX_NODES:
        raise ValueError(
            f"{count} payloads are too many to score at once; the most is {_MAX_NODES}."
        )
    net = [0] * count
    compared = [0] * count
    for _, _, rows in chunks(payloads, CHUNK):
        signs = [torch.gt(row, 0).to(torch.int8) - torch.lt(row, 0).to(torch.int8) for row in rows]
        vote = torch.zeros(rows[0].numel(), dtype=torch.int16, device=rows[0].device)
        for sign in signs:
            vote += sign
        for index, sign in enumerate(signs):
            match = torch.sign(vote - sign) * sign  # +1 agree, -1 disagree, 0 not compared
            net[index] += int(match.sum(dtype=torch.int64))
            compared[index] += int(torch.count_nonzero(match))
    return [max(0, n) * PPM // c if c else 0 for n, c in zip(net, compared, strict=True)]


def contributions(batches: Sequence[int], quality: Sequence[int]) -> list[int]:
    """batches_i * quality_i (ppm), integers. ValueError for unequal lengths or a negative entry."""
    if len(batches) != len(quality):
        raise ValueError(f"{len(batches)} batch counts do not match {len(quality)} qualities.")
    if any(number < 0 for number in (*batches, *quality)):
        raise ValueError("Batch counts and qualities must not be negative.")
    return [b * q for b, q in zip(batches, quality, strict=True)]
