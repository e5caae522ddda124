# SPDX-License-Identifier: Apache-2.0
"""A node's privacy account: says before each round whether it may still take part.

The figure that is enforced is tight: the closed form where nothing is subsampled
(`agents.mechanisms.privacy.parts.analytic`), privacy loss distributions where something is
(`agents.mechanisms.privacy.parts.pld`), and never more than the Renyi bound. ZIP-400's Renyi figure
(`agents.mechanisms.privacy.parts.rdp`) is reported beside it. Charges are kept as counts per
mechanism, so their order does not matter and no rounding piles up.

An account belongs to one node and one data set. Whoever trains on the same data in two jobs has
spent both budgets; they compose (add the epsilons and the deltas, or share one account).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.mechanisms.privacy.parts import analytic, options, pld, rdp

UNITS = ("node", "example")
MAX_MECHANISMS = 256
_VERSION = 1


class BudgetExceeded(ValueError):
    """A charge would take the account beyond its budget; nothing was recorded."""


@dataclass(frozen=True)
class Charge:
    """What some releases cost.

    Attributes:
        unit: "node" or "example".
        noise_multiplier: noise standard deviation over the sensitivity of that unit's neighbours.
        probability: q of the secret Poisson sample that each step draws; 1.0 for none.
        steps: how many releases.
    """

    unit: str
    noise_multiplier: float
    probability: float = 1.0
    steps: int = 1

    def __post_init__(self) -> None:
        """ValueError for a field out of range."""
        options.choice("unit", self.unit, UNITS)
        set_ = object.__setattr__
        set_(self, "noise_multiplier", options.noise_multiplier(self.noise_multiplier))
        set_(self, "probability", options.real("probability", self.probability, 1e-9, 1.0))
        options.whole("steps", self.steps, 1)

    @classmethod
    def gaussian(cls, unit: str, sensitivity: float, sigma: float, rounds: int = 1) -> Charge:
        """`rounds` Gaussian releases of noise `sigma` on something of L2 sensitivity `sensitivity`.

        ValueError for values out of range.
        """
        tiny = 1e-30
        bound = options.real("sensitivity", sensitivity, tiny, 1e30)
        return cls(unit, options.real("sigma", sigma, tiny, 1e30) / bound, 1.0, rounds)


class Accountant:
    """The privacy budget of one node on one data set.

    >>> account = Accountant(max_epsilon=8.0, delta=1e-6)
    >>> account.record_participation(Charge("node", noise_multiplier=4.0, steps=10))
    >>> round(account.epsilon(), 2)
    3.75
    """

    def __init__(self, max_epsilon: float = 8.0, delta: float = 1e-6) -> None:
        """ZIP-400's defaults.

        ValueError outside 1e-6 <= max_epsilon <= 1e6 and 1e-15 <= delta <= 1e-4.
        """
        self.max_epsilon, self.delta = options.budget(max_epsilon, delta)
        self.unit: str | None = None
        self._steps: dict[tuple[float, float], int] = {}

    def can_participate(self, charge: Charge) -> bool:
        """Whether the account stays within its budget after `charge`.

        ValueError for a charge of another unit; `pld.ExtraMissing` if a subsampled charge can't be
        accounted for here.
        """
        return self._epsilon(self._with(charge), self.max_epsilon) <= self.max_epsilon

    def record_participation(self, charge: Charge) -> None:
        """Spend `charge`; before the commit leaves the machine, never after.

        Raises:
            BudgetExceeded: it does not fit; the account is unchanged.
            ValueError: another unit, or more than 256 different mechanisms.
        """
        if not self.can_participate(charge):
            raise BudgetExceeded(
                f"This round would raise epsilon from {self.epsilon():.4g} to "
                f"{self.epsilon_after(charge):.4g}; the budget is {self.max_epsilon:g} at delta "
                f"{self.delta:g}. The node stops taking part in this job."
            )
        self._steps, self.unit = self._with(charge), charge.unit

    def record_spent(self, charge: Charge) -> None:
        """Note what was spent already, within the budget or not.

        ValueError as for `record_participation`.
        """
        self._steps, self.unit = self._with(charge), charge.unit

    def epsilon(self) -> float:
        """Epsilon spent at `delta`: the tight upper bound that is enforced."""
        return self._epsilon(self._steps)

    def epsilon_after(self, charge: Charge) -> float:
        """What `epsilon` would be after `charge`, which is not recorded."""
        return self._epsilon(self._with(charge))

    def epsilon_rdp(self) -> float:
        """ZIP-400's figure for the same spending: Renyi orders 2..127; for the report only."""
        return rdp.epsilon_of(self._steps, self.delta)

    def remaining_budget(self) -> float:
        """max_epsilon - epsilon(), never below 0."""
        return max(0.0, self.max_epsilon - self.epsilon())

    def summary(self) -> dict[str, Any]:
        """Plain figures for status and report; `epsilon` is enforced, `epsilon_rdp` beside it."""
        spent = self.epsilon()
        return {
            "unit": self.unit or "none",
            "delta": self.delta,
            "max_epsilon": self.max_epsilon,
            "epsilon": spent,
            "epsilon_rdp": self.epsilon_rdp(),
            "remaining": max(0.0, self.max_epsilon - spent),
            "steps": sum(self._steps.values()),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, equal for equal accounts whatever the order of their charges."""
        return {
            "version": _VERSION,
            "max_epsilon": self.max_epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "spent": [[noise, q, count] for (noise, q), count in sorted(self._steps.items())],
        }

    @classmethod
    def from_dict(cls, value: object) -> Accountant:
        """The account that `to_dict` wrote; ValueError, saying what is wrong, for anything else."""
        fields = {"version", "max_epsilon", "delta", "unit", "spent"}
        if not isinstance(value, Mapping) or set(value) != fields:
            raise ValueError(
                f"A privacy account needs exactly the fields {', '.join(sorted(fields))}."
            )
        if isinstance(value["version"], bool) or value["version"] != _VERSION:
            raise ValueError(
                f"The privacy account has version {str(value['version'])[:32]!r}, not 1."
            )
        account = cls(value["max_epsilon"], value["delta"])
        spent, unit = value["spent"], value["unit"]
        if not isinstance(spent, list) or len(spent) > MAX_MECHANISMS:
            raise ValueError(f"'spent' must be a list of at most {MAX_MECHANISMS} entries.")
        if bool(spent) != (unit is not None):
            raise ValueError("The privacy account must name a unit exactly if something is spent.")
        for entry in spent:
            if not isinstance(entry, list) or len(entry) != 3:
                raise ValueError(
                    "Each entry of 'spent' must be [noise multiplier, probability, steps]."
                )
            charge = Charge(unit, *entry)
            key = (charge.noise_multiplier, charge.probability)
            if account._steps and key <= max(account._steps):
                raise ValueError("The entries of 'spent' must ascend, each mechanism once.")
            account._steps[key] = charge.steps
        account.unit = unit
        return account

    def _with(self, charge: Charge) -> dict[tuple[float, float], int]:
        if self.unit not in (None, charge.unit):
            raise ValueError(
                f"This account protects each {self.unit}; "
                f"a charge per {charge.unit} can't be added."
            )
        steps = dict(self._steps)
        key = (charge.noise_multiplier, charge.probability)
        steps[key] = steps.get(key, 0) + charge.steps
        if len(steps) > MAX_MECHANISMS:
            raise ValueError(f"An account holds at most {MAX_MECHANISMS} different mechanisms.")
        options.whole("steps", steps[key], 1)
        return steps

    def _epsilon(self, steps: dict[tuple[float, float], int], enough: float = 0.0) -> float:
        """Upper bound on epsilon: the tight one, or a cheaper one that is at most `enough`."""
        sampled = {key: count for key, count in steps.items() if key[1] < 1.0}
        spend = math.fsum(n / (z * z) for (z, q), n in sorted(steps.items()) if q == 1.0)
        plain = analytic.epsilon_of(math.sqrt(spend), self.delta)
        if not sampled:
            return plain
        bound = rdp.epsilon_of(steps, self.delta)
        # Also where a lower bound is far beyond the budget, there is no need to be tight.
        if bound <= enough or plain > 2.0 * self.max_epsilon:
            return bound
        return min(bound, pld.epsilon_of(sampled, spend, self.delta, self.max_epsilon, enough))
