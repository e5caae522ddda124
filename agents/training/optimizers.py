# SPDX-License-Identifier: Apache-2.0
"""What an inner optimizer offers, and the register of them.

One is found by the name of its file in `agents.training.inner`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol

from torch import Tensor

from agents.mechanisms.registry import MechanismRegistry, UnknownMechanism
from agents.training.flat import FlatModule
from agents.training.most_moved import Most
from agents.training.spec import Hyperparameters, SpecError
from agents.training.state import Shapes, State


class InnerSteps(Protocol):
    """An inner optimizer in one round. Its state starts from zero, unless `inner_state.put` sets
    it."""

    def step(self) -> None:
        """Use the gradient of one batch, which lies in the network's ``grads``.

        Raises:
            FloatingPointError: the gradient is not finite.
        """
        ...

    @property
    def reached(self) -> Tensor:
        """fp32 [n]: where the steps so far lead, in the network's layout; the trace's next hash."""
        ...

    def update(self, start: Tensor) -> Tensor:
        """fp32 [n]: the pseudo-gradient of the steps so far. ``start``: theta_0, fp32 [n]."""
        ...

    def buffers(self) -> State:
        """What it has gathered, fp32 by name: views, on its device. Empty where it makes no steps
        that a later round could go on from."""
        ...

    def resume(self, steps: int) -> None:
        """Say how many steps the content of ``buffers`` comes from, before the first step."""
        ...


class InnerOptimizer(Protocol):
    """What ``optimizer.inner`` names.

    Attributes:
        makes_steps: whether the model moves with every batch. False: every gradient is taken at
            theta_0.
    """

    makes_steps: ClassVar[bool]

    def start(self, net: FlatModule, hyper: Hyperparameters, batches: int) -> InnerSteps:
        """Begin a round of ``batches`` batches on the content of ``net``."""
        ...

    def numbers(self, shapes: Shapes) -> int:
        """fp32 numbers that it needs beside weights, gradient and theta_0, for such a model."""
        ...

    def most_moved(
        self,
        shapes: Shapes,
        hidden: Collection[str],
        hyper: Hyperparameters,
        steps: int,
        earlier: int = 0,
    ) -> dict[str, Most]:
        """How far so many steps, or fewer, can move each tensor of a model at most. A tensor that
        nothing bounds is left out. ``hidden``: names of the hidden matrices. ``earlier``: steps
        that its state comes from, at most; 0 where it starts from zero."""
        ...


_registry = MechanismRegistry(f"{__package__}.inner", "inner optimizer")
register = _registry.register
names = _registry.names


def chosen(name: str, options: Mapping[str, Any]) -> InnerOptimizer:
    """What ``optimizer.inner`` and ``optimizer.inner_options`` name.

    Raises:
        SpecError: there is no such file, or it refuses the options.
    """
    try:
        choice = _registry.get(name)
    except UnknownMechanism as error:
        raise SpecError(f"optimizer.inner: {error}") from error
    try:
        made: InnerOptimizer = choice(**options)
    except (TypeError, ValueError, OverflowError) as error:
        raise SpecError(
            f"optimizer.inner_options: {name} refuses {dict(options)}: {error}"[:500]
        ) from error
    return made
