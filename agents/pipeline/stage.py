# SPDX-License-Identifier: Apache-2.0
"""One stage of a pipeline at work: forwards, backwards and steps, in exactly the order given.

A stage's events are all that decides its numbers: messages in, token ids, and their order. The
optimizer changes weights in place, so a step between a sample's forward and its backward would mix
new weights with old activations without an error from torch. So a step drops the samples that still
wait for their gradient, and going back with one of them later is an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from agents.training import optimizers
from agents.training.flat import FlatModule
from agents.training.inner_state import put, seen, steps_of
from agents.training.model import hidden_matrices
from agents.training.slices import Slices, build_stage
from agents.training.spec import MAX_IN_FLIGHT, Hyperparameters
from agents.training.state import PayloadError, State


class StageError(ValueError):
    """An event that doesn't fit what the stage is or has done; nothing has changed."""


@dataclass(frozen=True)
class Forward:
    """Event F. ``tokens``: int64 [batch, seq + 1]; ``code``: message before, None at the first."""

    sample: int
    tokens: Tensor
    code: bytes | None = None


@dataclass(frozen=True)
class Backward:
    """Event B. ``gradient``: the next stage's message, None at the last."""

    sample: int
    gradient: bytes | None = None


@dataclass(frozen=True)
class Step:
    """Event STEP: one optimizer step with the mean gradient of the backwards since the last.

    What still waits for its backward is dropped."""


Event = Forward | Backward | Step


@dataclass(frozen=True)
class Passed:
    """What an event gives.

    Attributes:
        message: of a forward, the code for the next stage; of a backward, the gradient for the one
            before; None where there is no such stage, and of a step.
        loss: nats a token, of a forward of the last stage.
        values: what the message says before it was rounded, a floating [batch, seq, width].
    """

    message: bytes | None = None
    loss: float | None = None
    values: Tensor | None = None


@dataclass
class _InFlight:
    code: Tensor | None
    output: Tensor


class StageRunner:
    """A stage with its weights, gradients, optimizer and the samples between forward and backward.

    Attributes:
        net: the stage; ``net.split(net.values)`` is its state.
    """

    def __init__(
        self,
        slices: Slices,
        index: int,
        state: State,
        hyper: Hyperparameters,
        in_flight: int = 8,
        device: str = "cpu",
        recompute: bool = False,
    ) -> None:
        """``in_flight``: samples that may wait for their backward at once, 1 to 64; ``recompute``:
        as `Stage`.

        Raises:
            SpecError: there is no such inner optimizer, or it refuses its options.
            ValueError: ``in_flight`` is out of range, the optimizer makes no steps, or the stage is
                too large.
        """
        if not 1 <= in_flight <= MAX_IN_FLIGHT:
            raise ValueError(f"in_flight must be from 1 to {MAX_IN_FLIGHT}, not {in_flight}")
        self._slices, self._limit = slices, in_flight
        self._first, self._last = index == 0, index == slices.last
        choice = optimizers.chosen(hyper.inner, hyper.inner_options)
        if not choice.makes_steps:
            raise ValueError(f'a stage makes steps, and inner "{hyper.inner}" makes none')
        stage = build_stage(slices, index, device)
        stage.recompute = recompute
        self.net = FlatModule(stage, device, hidden_matrices(slices.spec.kind, stage))
        self.net.load(state)
        self._optimizer = choice.start(self.net, hyper, batches=1)
        self._mixed = torch.autocast(
            torch.device(device).type, torch.bfloat16, enabled=hyper.precision == "bf16"
        )
        self._waiting: dict[int, _InFlight] = {}
        self._backwards = 0

    def do(self, event: Event) -> Passed:
        """Execute the next event.

        Raises:
            StageError: the event is out of order or doesn't belong to this stage.
            WireError: a message is not a code or gradient of the sample; nothing has changed. Or
                this stage's own numbers can't be sent.
            FloatingPointError: the loss or the gradient stopped being finite.
        """
        if isinstance(event, Forward):
            return self._forward(event)
        if isinstance(event, Backward):
            return self._backward(event)
        return self._step()

    def gathered(self, steps: int) -> State:
        """What the optimizer has gathered in so many steps: views, which the next one changes."""
        return seen(self._optimizer, steps)

    def go_on(self, weights: State, optimizer: State, steps: int) -> None:
        """Begin at the state after so many steps.

        Raises:
            PayloadError: this is no state of the stage's optimizer, or of another step.
        """
        if (found := steps_of(optimizer)) != steps:
            raise PayloadError(f"the optimizer's state is that after {found} steps, not {steps}")
        self.net.load(weights)
        put(self._optimizer, optimizer)

    def drop(self, sample: int) -> None:
        """Let go of a sample that waits for its backward, which leaves no trace. KeyError for one
        that does not wait."""
        del self._waiting[sample]

    def begin_step_again(self) -> None:
        """Let go of all that was done since the last step, which changed gradients alone."""
        self.net.grads.zero_()
        self._waiting.clear()
        self._backwards = 0

    def coast(self) -> None:
        """Make a step without a gradient, to see what the optimizer's state leads to."""
        self.net.grads.zero_()
        self._optimizer.step()

    def _forward(self, event: Forward) -> Passed:
        if event.sample in self._waiting:
            raise StageError(f"sample {event.sample} already had its forward")
        if len(self._waiting) >= self._limit:
            raise StageError(f"{self._limit} samples wait for their backward; do one of them first")
        if (event.code is None) != self._first:
            raise StageError("the first stage takes no code, and every other one needs one")
        tokens = self._checked(event.tokens).to(self.net.device)
        code = None
        if event.code is not None:
            shape = self._slices.code_shape(tokens.shape[0], tokens.shape[1] - 1)
            received = self._slices.boundary.codes.unpack(event.code, shape)
            code = received.to(self.net.device).requires_grad_()
        with self._mixed:
            output: Tensor = self.net.model(tokens[:, :-1], code)
        if not self._last:
            passed = Passed(self._slices.boundary.codes.pack(output), values=output.detach())
        else:
            logits = output.float().flatten(0, 1)
            output = functional.cross_entropy(logits, tokens[:, 1:].flatten())
            passed = Passed(loss=float(output.detach()))
            if passed.loss is None or not math.isfinite(passed.loss):
                raise FloatingPointError(f"the loss of sample {event.sample} is {passed.loss}")
        self._waiting[event.sample] = _InFlight(code, output)
        return passed

    def _backward(self, event: Backward) -> Passed:
        if event.sample not in self._waiting:
            raise StageError(f"sample {event.sample} has no forward that waits for a backward")
        if (event.gradient is None) != self._last:
            raise StageError("the last stage takes no gradient, and every other one needs one")
        output = self._waiting[event.sample].output
        if event.gradient is not None:
            batch, seq, _ = output.shape
            shape = self._slices.code_shape(batch, seq)
            gradient = self._slices.boundary.gradients.unpack(event.gradient, shape)
            # The gradient of this sum is the one received, bit for bit. `output.backward(gradient)`
            # loads sympy at its first call, half a second of CPU while the neighbours wait.
            output = (output * gradient.to(self.net.device)).sum()
        sample = self._waiting.pop(event.sample)
        output.backward()
        self._backwards += 1
        if sample.code is None:
            return Passed()
        # A stage that ignores its code gives it no gradient.
        before = torch.zeros_like(sample.code) if sample.code.grad is None else sample.code.grad
        return Passed(self._slices.boundary.gradients.pack(before), values=before)

    def _step(self) -> Passed:
        if not self._backwards:
            raise StageError("there was no backward since the last step")
        self.net.grads.div_(self._backwards)
        self._optimizer.step()
        self.begin_step_again()
        return Passed()

    def _checked(self, tokens: Tensor) -> Tensor:
        spec = self._slices.spec
        if tokens.dim() != 2 or tokens.dtype != torch.int64 or tokens.shape[0] < 1:
            raise StageError("token ids must be int64 [batch, seq + 1]")
        if not 2 <= tokens.shape[1] <= spec.max_seq_len + 1:
            raise StageError(
                f"a sample must have 2 to {spec.max_seq_len + 1} tokens, not {tokens.shape[1]}"
            )
        if bool(((tokens < 0) | (tokens >= spec.vocab_size)).any()):
            raise StageError(f"a token id is outside the vocabulary of {spec.vocab_size}")
        return tokens
