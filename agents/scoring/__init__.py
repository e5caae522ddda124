# SPDX-License-Identifier: Apache-2.0
"""The rule: one scoring rule is one file here, a pure function on tensors and integers.

A scoring rule is `score(payloads, batches) -> Scores`: `payloads` as in `agents.aggregation`, one
dict per node in ascending node id; `batches` the number of batches each node was assigned and
delivered. `Scores` holds, per node, a quality in parts per million (0..1,000,000) and the integer
contribution by which the round's pool is split. Both must be exactly the same integers on every
machine, since they go on chain. A new rule is one new file that decorates its function with
`register("<file name>")`.
"""

from dataclasses import dataclass

from agents.registry import Registry


@dataclass(frozen=True)
class Scores:
    """Per node, in the order of the payloads: quality in ppm, and contribution (a pure share)."""

    quality_ppm: tuple[int, ...]
    contributions: tuple[int, ...]


_registry = Registry(__name__, "scoring rule")
register = _registry.register
get = _registry.get
names = _registry.names
