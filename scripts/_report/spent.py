# SPDX-License-Identifier: Apache-2.0
"""What a run cost in privacy, node by node and round by round, in words for its report.

The figures are those of the audit, which derives them from the chain and the nodes' proofs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.audit.sources.findings import Audit


@dataclass(frozen=True)
class Spent:
    """Epsilon spent at `delta` after each round, as (round, epsilon), by node's name."""

    unit: str
    delta: float
    budget: float
    curves: dict[str, list[tuple[int, float]]]

    def __str__(self) -> str:
        """Who spent most, and the range of the others."""
        ends = {name: curve[-1][1] for name, curve in self.curves.items()}
        name = max(ends, key=lambda name: ends[name])
        most, budget = f"{ends[name]:.3g}", f"{self.budget:g}"
        rest = sorted(epsilon for other, epsilon in ends.items() if other != name)
        terms = f"(epsilon, delta {self.delta:g}, per {self.unit})"
        if not rest:
            return f"{name} {most} of {budget} {terms}"
        low, high = f"{rest[0]:.3g}", f"{rest[-1]:.3g}"
        if low == high == most:
            return f"{most} of {budget} by each of {len(ends)} nodes {terms}"
        others = low if low == high else f"{low} to {high}"
        return f"{name} {most} of {budget}, others {others} {terms}"


def spent_of(audit: Audit, label: Callable[[int], str]) -> Spent | None:
    """What was spent by the audit of a job; None if nothing was. `label`: a node's name."""
    curves: dict[str, list[tuple[int, float]]] = {}
    newest = None
    for part in audit.rounds:
        for node, account in part.figures.get("privacy", {}).items():
            curves.setdefault(label(int(node)), []).append((part.round_id, account["epsilon"]))
            newest = account
    if newest is None:
        return None
    return Spent(newest["unit"], newest["delta"], newest["max_epsilon"], curves)
