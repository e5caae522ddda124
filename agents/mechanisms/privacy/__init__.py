# SPDX-License-Identifier: Apache-2.0
"""Privacy mechanisms: each file here is one class, built from the spec's options.

A mechanism states its unit, what one round costs, and what may leave the node. Units: `"node"`, the
neighbour of a data set is any other data set of that node (the whole update is protected);
`"example"`, the neighbour lacks one example or has one more; `"none"`. Only mechanisms of equal
unit compose: a node's account (`agents.mechanisms.privacy.parts.accountant`) holds one unit.

The randomness of privacy noise is secret. It is never published, and never derived from a seed that
somebody else may learn: whoever knows the noise can subtract it. Re-execution therefore checks the
update *before* noise, and only where the verifier may see the shard at all. A new mechanism is one
new file that decorates its class with `register("<file name>")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from agents.mechanisms.privacy.parts.accountant import Accountant, BudgetExceeded, Charge
from agents.mechanisms.privacy.parts.noise import Generator
from agents.mechanisms.registry import MechanismRegistry


class Privacy(Protocol):
    """What a mechanism offers. Options are keyword fields; a wrong one raises ValueError.

    Attributes:
        unit: "none", "node" or "example".
        place: who adds the noise: "none", "node" (during or after training) or "aggregate".
        max_epsilon, delta: the budget that the node's account enforces; 0.0 for "none".
    """

    @property
    def unit(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def max_epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...

    def charge(self, rounds: int = 1, **facts: Any) -> Charge | None:
        """What `rounds` rounds cost; None if nothing is promised. Must be recorded before a commit.

        `facts` for `dp_sgd`: steps, batch, examples; the others ignore them.
        """
        ...

    def release(
        self, update: Mapping[str, Tensor], rng: Generator | None = None
    ) -> dict[str, Tensor]:
        """The update that may leave the node, fp32, in model space: clipped, and noised if due.

        `rng`: secret words; None draws them from the operating system, as production must.
        """
        ...


_registry = MechanismRegistry(__name__, "privacy mechanism")
register = _registry.register
get = _registry.get
names = _registry.names

__all__ = ["Accountant", "BudgetExceeded", "Charge", "Privacy", "get", "names", "register"]
