# SPDX-License-Identifier: Apache-2.0
"""The score `alignment`: batches x direction, size and usefulness, each judged by the others alone.

ZIP-400's contribution score with its three parts and weights,

    quality = size * (0.5 * alignment + gated * (0.3 + 0.2 * validation)) / k
    gated   = min(1, alignment / gate)^2

of what an update adds to what everybody knew (`parts.known`): its components in the span of the
`history` newest merged updates and the round's model count for neither direction nor size.

  alignment   cosine with the direction the other nodes have in common (`parts.alignments`)
  size        1 while the norm is inside a public band around the median norm of the others, falling
              to 0 towards zero and above the band (`parts.sizes`); from the revealed bytes, never
              self-reported. With the gate it is the magnitude part: size without direction earns
              nothing (squared, since chance gives noise a small cosine). It bounds the other two
              parts as well, which do not depend on the norm: an update too small to matter or too
              large to be used earns nothing
  validation  gain in validation loss against the median gain of the others (`parts.validations`).
              Under the gate too: who resends what everybody knew has the gain, and added nothing
  k           number of nodes whose updates are copies of this one, itself included: they share

All in exact integers. A pure-noise node scores about 0, and so does one that resends past updates.
An opposed one and a zero update score 0. No scaling earns more than a norm inside the band does,
where all norms earn the same. What remains open is in docs/scoring.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.mechanisms.merge.parts.options import number, whole
from agents.mechanisms.rows import Payload
from agents.mechanisms.score import Evidence, Scores, register
from agents.mechanisms.score.parts.peers import (
    UNIT,
    alignments,
    copies,
    cosines,
    sizes,
    validations,
)
from agents.mechanisms.score.parts.products import added
from agents.mechanisms.score.shares import PPM, contributions


@dataclass(frozen=True)
class Parts:
    """One node's parts, each 0..`UNIT`, and the number of nodes that share them."""

    alignment: int
    size: int
    validation: int
    sharers: int


_NAME = "alignment"
MAX_HISTORY = 32
_NOTHING = Parts(0, 0, 0, 1)


@register(_NAME)
@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The scoring rule `alignment`. Floats are used to six decimals.

    Attributes:
        weight_alignment, weight_magnitude, weight_validation: 0..1, together 1.
        chance: cosine that two updates with nothing in common hardly ever reach, 0..0.9: 3 /
            sqrt(m) for updates of m numbers, or of a codec that projects all updates of a round to
            the same m. What the median of so many cosines hardly ever reaches is taken off it
            (`parts.peers.alignments`), so a round in which nothing is above chance pays nobody.
        gate: alignment from which the magnitude part is paid in full, 0.001..1.
        band_low, band_high: norms that count in full, as multiples of the others' median norm,
            0.01..1 and 1..100.
        copy_cosine: least cosine of two updates that are copies of each other, 0.9..1
            (`parts.copies`).
        least_gain_ppm: a median validation gain below this counts as this, 1..1,000,000 ppm. Keep
            it at or above the tolerance within which verifiers accept published gains.
        history: newest merged updates whose span is taken out, 0..32. With 0 nothing is, not even
            the model.
    """

    weight_alignment: float = 0.5
    weight_magnitude: float = 0.3
    weight_validation: float = 0.2
    chance: float = 0.0
    gate: float = 0.1
    band_low: float = 0.5
    band_high: float = 2.0
    copy_cosine: float = 0.99
    least_gain_ppm: int = 1000
    history: int = 8

    needs_gains: ClassVar[bool] = True

    @property
    def needs_updates(self) -> int:
        """See `agents.mechanisms.score.Score`."""
        return self.history

    def __post_init__(self) -> None:
        """ValueError for an option of a wrong type or out of range."""
        for name, low, high in (
            ("weight_alignment", 0, 1),
            ("weight_magnitude", 0, 1),
            ("weight_validation", 0, 1),
            ("chance", 0, 0.9),
            ("gate", 0.001, 1),
            ("band_low", 0.01, 1),
            ("band_high", 1, 100),
            ("copy_cosine", 0.9, 1),
        ):
            number(_NAME, name, getattr(self, name), low, high)
        whole(_NAME, "least_gain_ppm", self.least_gain_ppm, 1, PPM)
        whole(_NAME, "history", self.history, 0, MAX_HISTORY)
        if sum(self._weights()) != PPM:
            raise ValueError("The three weights of alignment must add up to 1, to six decimals.")

    def __call__(
        self, payloads: Sequence[Payload], batches: Sequence[int], evidence: Evidence
    ) -> Scores:
        """Quality and contribution of each node; see the module and
        `agents.mechanisms.score.Score`.

        ValueError also if `evidence` holds no gains, or not one per node.
        """
        quality = [self.quality_ppm(part) for part in self.parts(payloads, batches, evidence)]
        return Scores(tuple(quality), tuple(contributions(batches, quality)))

    def parts(
        self, payloads: Sequence[Payload], batches: Sequence[int], evidence: Evidence
    ) -> list[Parts]:
        """The parts of each node's score; errors as when called."""
        gains = evidence.gains_ppm
        if gains is None:
            raise ValueError("The score 'alignment' needs the validation gains of all nodes.")
        if not len(payloads) == len(batches) == len(gains):
            raise ValueError(
                f"{len(payloads)} payloads, {len(batches)} batch counts and {len(gains)} gains "
                "do not belong together."
            )
        live, gram, squares = added(payloads, evidence.known)
        work = [batches[index] for index in live]
        cosine = cosines(gram)
        same = copies(cosine, _unit(self.copy_cosine))
        judged = zip(
            live,
            alignments(cosine, same, _unit(self.chance)),
            sizes(squares, work, _unit(self.band_low), _unit(self.band_high)),
            validations([gains[index] for index in live], self.least_gain_ppm),
            same,
            strict=True,
        )
        result = [_NOTHING] * len(payloads)
        for index, alignment, size, validation, others in judged:
            result[index] = Parts(alignment, size, validation, 1 + len(others))
        return result

    def quality_ppm(self, parts: Parts) -> int:
        """The score of one node in ppm, rounded down."""
        direction, magnitude, usefulness = self._weights()
        gated = min(UNIT, (parts.alignment * UNIT // _unit(self.gate)) ** 2 // UNIT)
        earned = direction * parts.alignment + magnitude * gated
        earned += usefulness * gated * parts.validation // UNIT
        return earned * parts.size // (UNIT * UNIT * parts.sharers)

    def _weights(self) -> tuple[int, int, int]:
        """In ppm."""
        weights = (self.weight_alignment, self.weight_magnitude, self.weight_validation)
        first, second, third = (round(weight * PPM) for weight in weights)
        return first, second, third


def _unit(value: float) -> int:
    """A number of the options in `UNIT`, to six decimals."""
    return round(value * PPM) * (UNIT // PPM)
