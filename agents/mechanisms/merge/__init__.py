# SPDX-License-Identifier: Apache-2.0
"""Merge rules: each file here makes one update of all payloads of a round.

A merge rule is a class, constructed as `get(name)(**options)` with the spec's options; its
instances are called with the payloads. The result must have the same bits on every machine and must
not depend on the order of arrival. A new rule is one new file that decorates its class with
`register("<file name>")`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from agents.mechanisms.merge.parts.options import MergeRefused
from agents.mechanisms.registry import MechanismRegistry

__all__ = ["Merge", "MergeRefused", "WeighingMerge", "get", "names", "register"]


class Merge(Protocol):
    """What a merge rule offers."""

    def __call__(
        self, payloads: Sequence[Mapping[str, Tensor]], stakes: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The update: one fp32 dict of the payloads' names and shapes.

        Args:
            payloads: one dict per node, in ascending node id, each with the same tensor names and
                finite fp32 tensors of the same shapes (`agents.rounds.payload` has checked them).
            stakes: each node's stake in 1e-18 ZOO, in the same order; None counts all as equal.

        Raises:
            MergeRefused: fewer payloads than the rule needs.
            ValueError: no payload, or payloads that differ in names, shapes or dtypes.
        """
        ...


@runtime_checkable
class WeighingMerge(Merge, Protocol):
    """A rule that weighs the miners of a split model's stage by what each of them did."""

    def weighed(
        self, payloads: Sequence[Mapping[str, Tensor]], work: Sequence[int]
    ) -> dict[str, Tensor]:
        """The update, likewise.

        Args:
            work: of each payload's miner the backward passes that count, below 2^29.

        Raises:
            ValueError: no work at all, another number of payloads, or as above.
        """
        ...


_registry = MechanismRegistry(__name__, "merge rule")
register = _registry.register
get = _registry.get
names = _registry.names
