# SPDX-License-Identifier: Apache-2.0
"""What one round asks of a trainer, an aggregator and a verifier, by spec, shapes and codec.

Counted as the code goes: what a role holds all the time, and the largest of the steps that follow
one another. Each of these numbers is fp32. The sums are from above: a network's gradients count
also where nobody takes one, and a matrix optimizer's work space as if it took all matrices at once.
Of a model that is split, `agents.jobs.budget` counts stages.

What an agent keeps of earlier rounds is not counted: the last three models (`agents.rounds.models`)
and what it has found of other nodes' memory (`agents.rounds.codec_memory`). Nor are the float64
vectors of a whole update that the codecs `polytope` and `semantic` make while they encode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.jobs.budget import Needs, needs
from agents.mechanisms.codec import Codec
from agents.training.optimizers import chosen
from agents.training.spec import JobSpec
from agents.training.state import Shapes

ROLES = ("trainer", "aggregator", "verifier")

_FLOAT = 4
_NET = 2  # weights and gradients
_MOMENTS = 2  # at most what an inner optimizer gathers
_ROW, _ROWS = 2**16, 16  # numbers that merge and score read of a payload at a time; rows besides


@dataclass(frozen=True)
class _Sizes:
    """In fp32 numbers: the model, its state with velocity, what the inner optimizer needs and what
    it takes from round to round, what the codec owes, a payload, as much of it as is kept beside
    what it decodes to, what making a payload takes."""

    model: int
    state: int
    inner: int
    gathered: int
    owed: int
    payload: int
    kept: int
    encoding: int

    @property
    def training(self) -> int:
        """Beside network, state, debts and what was gathered before."""
        stepping = self.model + self.inner  # where the round started
        lasting = self.model + min(self.inner, _MOMENTS * self.model)
        # Where it ended, the update, and its copy or what was gathered.
        reading = lasting + 2 * self.model + max(self.model, self.gathered)
        return max(stepping, reading)

    @property
    def saving(self) -> int:
        """Files of what is owed and gathered: tensors as bytes, then joined."""
        return max(2 * self.owed, self.owed + 2 * self.gathered)


def training_needs(spec: JobSpec, shapes: Shapes, codec: Codec, per_example: bool) -> Needs:
    """What a node takes that trains, from the model in hand to the payload it sends.

    `per_example`: with a gradient for each example of a chunk, as differential privacy of examples
    needs them.
    """
    whole = role_needs("trainer", spec, shapes, codec, 0)
    if not per_example:
        return whole
    return max(whole, needs(spec, shapes, per_example), key=lambda asked: asked.memory)


def role_needs(role: str, spec: JobSpec, shapes: Shapes, codec: Codec, payloads: int) -> Needs:
    """What a role takes for a round. `payloads`: how many nodes reveal one.

    ValueError for a role that there is not.
    """
    counts = {"trainer": _trainer, "aggregator": _aggregator, "verifier": _verifier}
    if role not in counts:
        raise ValueError(f"there is no role {role!r}; there are {', '.join(ROLES)}")
    step = needs(spec, shapes)
    return Needs(
        weights=_FLOAT * counts[role](_sizes(spec, shapes, codec), payloads),
        activations=step.activations,
        batches=step.batches,
    )


def _sizes(spec: JobSpec, shapes: Shapes, codec: Codec) -> _Sizes:
    model = sum(math.prod(shape) for shape in shapes.values())
    inner = chosen(spec.optimizer.inner, spec.optimizer.inner_options)
    payload = math.ceil(codec.wire_size(shapes) / _FLOAT)
    return _Sizes(
        model=model,
        state=2 * model if spec.outer_momentum else model,
        inner=inner.numbers(shapes),
        gathered=_MOMENTS * model if spec.optimizer.inner_state == "kept" else 0,
        owed=model if codec.has_memory else 0,
        payload=payload,
        kept=0 if codec.lossless else payload,
        encoding=payload + model,
    )


def _trainer(size: _Sizes, payloads: int) -> int:
    """Train, then encode, decode, remember and save, with the update in hand."""
    held = size.state + _NET * size.model + size.owed + size.gathered
    decoded = size.payload + size.model
    sending = max(size.encoding, decoded + size.owed + size.saving)
    return held + max(size.training, size.gathered + size.model + sending)


def _aggregator(size: _Sizes, payloads: int) -> int:
    """Fetch all payloads, merge and apply them, evaluate, write update and checkpoint."""
    held = size.state + payloads * (size.model + size.kept) + _ROW * (payloads + _ROWS)
    result = _result(size) + _NET * size.model
    # The update's parts and the whole; then the checkpoint's, beside the update.
    writing = max(2 * size.model, size.model + 2 * size.state)
    return held + max(size.payload, result + writing)


def _verifier(size: _Sizes, payloads: int) -> int:
    """An aggregator's work, then with its result in hand one trainer's, and the comparison."""
    held = size.state + payloads * (size.model + size.kept) + _result(size) + _NET * size.model
    held += size.model + size.state + size.owed + size.gathered  # update and checkpoint as files
    redone = size.gathered + 2 * size.model  # theta_H and the update
    comparing = redone + size.encoding + 2 * size.model
    return max(_aggregator(size, payloads), held + max(size.training, comparing))


def _result(size: _Sizes) -> int:
    """The merged update and the model after it."""
    return size.model + size.state
