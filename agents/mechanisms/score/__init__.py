# SPDX-License-Identifier: Apache-2.0
"""Scoring rules: each file here is one pure function on tensors and integers.

A scoring rule is a class, constructed as `get(name)(**options)` with the spec's options; its
instances are called with the payloads. The scores must be exactly the same integers on every
machine, since they go on chain. A new rule is one new file that decorates its class with
`register("<file name>")`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from agents.mechanisms.registry import MechanismRegistry

Payload = Mapping[str, Tensor]


@dataclass(frozen=True)
class Scores:
    """Per node, in the order of the payloads: quality in ppm, and contribution (a pure share)."""

    quality_ppm: tuple[int, ...]
    contributions: tuple[int, ...]


@dataclass(frozen=True)
class Evidence:
    """What a score may use beside the payloads, all of it published.

    Attributes:
        merged: the round's merged pseudo-gradient.
        gains_ppm: per node, by how many ppm the validation loss falls (negative: rises) when its
            update alone is applied, rescaled to the norm of `merged`. The proposer publishes these
            in the report, verifiers check them within a tolerance, and everyone then uses the
            published integers. None for a rule that does not need them.
        factors_ppm: per node, which part of its pay is left, 0..1,000,000: the score `clasp` reads
            them. They follow exactly from what the nodes published. None in other jobs.
        carried: per node, backward passes of earlier rounds that still count. None in other jobs.
        known: what everybody knew before the round: its newest merged updates, as many as the
            rule's `needs_updates` and newest first, and the model that the round starts from.
            Empty for a rule that asks for none.
    """

    merged: Payload
    gains_ppm: tuple[int, ...] | None = None
    factors_ppm: tuple[int, ...] | None = None
    carried: tuple[int, ...] | None = None
    known: tuple[Payload, ...] = ()


class Score(Protocol):
    """What a scoring rule offers. `needs_gains`: whether it reads `Evidence.gains_ppm`.
    `needs_updates`: how many merged updates of earlier rounds it reads in `Evidence.known`."""

    @property
    def needs_gains(self) -> bool: ...

    @property
    def needs_updates(self) -> int: ...

    def __call__(
        self, payloads: Sequence[Payload], batches: Sequence[int], evidence: Evidence
    ) -> Scores:
        """Scores of a round.

        Args:
            payloads: as for `agents.mechanisms.merge.Merge`, ascending by node id.
            batches: how many batches each node was assigned and delivered.
            evidence: what else is known.

        Raises:
            ValueError: an empty or mixed input, or lists of unequal length.
        """
        ...


@runtime_checkable
class SelectingScore(Protocol):
    """What a scoring rule offers besides if not every good payload is merged."""

    def select(self, nodes: Sequence[int], standing: Mapping[int, int]) -> tuple[int, ...]:
        """The nodes of `nodes` to merge, ascending, by the shares of an earlier round."""
        ...

    def plausible_norms(self, norms: Mapping[int, float]) -> set[int]:
        """The nodes whose L2 norm is plausible beside the others'."""
        ...


_registry = MechanismRegistry(__name__, "scoring rule")
register = _registry.register
get = _registry.get
names = _registry.names
