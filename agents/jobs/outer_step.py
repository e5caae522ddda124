# SPDX-License-Identifier: Apache-2.0
"""From one model to the next by the round's update, with or without the velocity of the outer step.

Rule: where a job's outer step has momentum, the velocity is a part of the model. Each weight has
one, under the weight's name with `velocity.` before it. It lies in the model's files, so the hash
that the ledger records binds it, and an update says all that is new: whoever has a model and the
update after it has the next weights and the next velocity. It begins with zeros. Without momentum
the state is the weights alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from agents.training.outer import VELOCITY, Outer
from agents.training.spec import JobSpec
from agents.training.state import PayloadError, Shapes, State, apply_outer, check_state


def kept_shapes(spec: JobSpec, weights: Shapes) -> Shapes:
    """Of all tensors that a state has: the weights, and their velocity if there is one."""
    if not spec.outer_momentum:
        return weights
    return dict(sorted({**weights, **{VELOCITY + name: weights[name] for name in weights}}.items()))


def start(spec: JobSpec, weights: State) -> State:
    """The state that a job starts from with these weights."""
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    kept = kept_shapes(spec, shapes)
    return {n: weights[n] if n in weights else torch.zeros(shape) for n, shape in kept.items()}


def weights_of(state: Mapping[str, Tensor], names: Collection[str]) -> State:
    """The weights of a state, ascending. `names`: of the weights, such as a job's `shapes`."""
    return {name: state[name] for name in sorted(names)}


def stepped(
    spec: JobSpec, state: Mapping[str, Tensor], update: Mapping[str, Tensor], rate: float
) -> State:
    """The state after an update. `rate`: the outer rate of the round.

    Raises:
        PayloadError: the update has not the tensors of the weights, or the result is not finite.
    """
    if not spec.outer_momentum:
        return apply_outer(state, update, rate)
    weights = [name for name in state if VELOCITY + name in state]
    check_state(update, {name: tuple(state[name].shape) for name in weights})
    outer, after = Outer(rate, spec.outer_momentum), dict[str, Tensor]()
    for name in weights:
        place = state[name], update[name], state[VELOCITY + name]
        try:
            after[name], after[VELOCITY + name] = outer.step(*place)
        except ValueError as error:
            raise PayloadError(f"tensor {name!r}: {error}") from error
    return dict(sorted(after.items()))
