# SPDX-License-Identifier: Apache-2.0
"""What an inner optimizer has gathered, taken out after a round and put in before the next one.

It is a `State` like a model's, so it is hashed, saved and checked by the same functions: each
buffer in fp32 by its name, and `steps`, the number of steps since all of them were zero. Whose
state a node may start from is not decided here (`agents.rounds.codec_memory`).
"""

from __future__ import annotations

import torch

from agents.training.flat import FlatModule
from agents.training.model import hidden_matrices
from agents.training.on_meta import shapes_only
from agents.training.optimizers import InnerSteps, chosen
from agents.training.slices import Slices, Stage
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import PayloadError, Shapes, State, check_state

_STEPS = "steps"
_PART = 4096  # a number of steps is two parts below this, each of which fp32 holds exactly


def shapes_of(steps: InnerSteps) -> Shapes:
    """The tensors that a state of this optimizer has, by name."""
    return {name: tuple(buffer.shape) for name, buffer in steps.buffers().items()} | {_STEPS: (2,)}


def shapes_for(net: FlatModule, spec: JobSpec) -> Shapes:
    """Those of a job's inner optimizer on its network."""
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    return shapes_of(inner.start(net, Hyperparameters.of(spec, 0), 1))


def optimizer_shapes(slices: Slices, index: int, hyper: Hyperparameters) -> Shapes:
    """The tensors of a stage's optimizer, in no memory."""
    choice = chosen(hyper.inner, hyper.inner_options)
    with shapes_only():
        stage = Stage(slices, index)
        net = FlatModule(stage, "meta", hidden_matrices(slices.spec.kind, stage))
        return shapes_of(choice.start(net, hyper, 1))


def seen(steps: InnerSteps, count: int) -> State:
    """The state on the CPU, in views that the next step changes (copies if it is elsewhere).
    ``count``: steps since it was zero."""
    found = {name: buffer.detach().cpu() for name, buffer in steps.buffers().items()}
    found[_STEPS] = torch.tensor([float(count // _PART), float(count % _PART)])
    return dict(sorted(found.items()))


def taken(steps: InnerSteps, count: int) -> State:
    """A copy of the state on the CPU. ``count``: as for `seen`."""
    return {name: tensor.clone() for name, tensor in seen(steps, count).items()}


def steps_of(state: State) -> int:
    """Steps since a state of the right shapes was zero; PayloadError for none that there can be."""
    high, low = (float(part) for part in state[_STEPS])
    if not all(0 <= part < _PART and part == int(part) for part in (high, low)):
        raise PayloadError(f"an inner state of {high:g} times {_PART} and {low:g} steps")
    return int(high) * _PART + int(low)


def put(steps: InnerSteps, state: State) -> int:
    """Let the optimizer go on from a state; the number of steps since it was zero.

    Raises:
        PayloadError: it is no state of this optimizer.
    """
    check_state(state, shapes_of(steps))
    count = steps_of(state)
    for name, buffer in steps.buffers().items():
        buffer.copy_(state[name])
    steps.resume(count)
    return count
